"""The alerts that fire in each situation, and no others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.architecture.promql import Labels, Series, fires
from tests.architecture.tree import PROJECT

Value = Callable[[float], float | None]
NOW = 7200.0


def rules() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load((PROJECT / "deploy/prometheus/alerts.yml").read_text())["groups"]
    return {rule["alert"].removeprefix("Aqueduct"): rule for rule in group["rules"]}


RULES = {name: one for name, one in rules().items() if "histogram_quantile" not in one["expr"]}


def always(value: float) -> Value:
    return lambda _now: value


def since(start: float, value: float, before: float | None = None) -> Value:
    return lambda now: value if now >= start else before


def until(end: float, value: float, after: float | None = None) -> Value:
    return lambda now: value if now < end else after


def grows(start: float) -> Value:
    return lambda now: max(0.0, now - start)


def in_turn(own: int, value: float, other: float | None) -> Value:
    """The value for 20 of each 60 seconds, which two workers have after each other."""
    return lambda now: value if now % 60 // 20 == own else other


def worker(name: str, metrics: dict[str, Value], **labels: str) -> dict[tuple[str, Labels], Value]:
    """A worker's metrics of the destination shop; a name may have a state after a colon."""
    found = {}
    for key, value in metrics.items():
        metric, _, state = key.partition(":")
        own = {"instance": name, "job": "aqueduct-worker", **labels}
        if metric not in ("up", "aqueduct_coordination_up"):
            own["destination"] = "shop"
        if state:
            own["error" if "errors" in metric else "state"] = state
        found[metric, frozenset(own.items())] = value
    return found


RUNNING = {
    "up": always(1), "aqueduct_destination_up": always(1), "aqueduct_destination_state:RUNNING": always(1),
    "aqueduct_leader": always(1), "aqueduct_coordination_up": always(1),
    "aqueduct_source_unread_seconds": always(3), "aqueduct_source_lag_seconds": always(0.2),
    "aqueduct_records_published_total": grows(0),
    "aqueduct_tables_given_up": always(0), "aqueduct_tables_set_aside": always(0),
}  # fmt: skip
FOLLOWS = {
    "up": always(1), "aqueduct_destination_state:STANDBY": always(1), "aqueduct_leader": always(0),
    "aqueduct_coordination_up": always(1),
}  # fmt: skip
IDLE = {"aqueduct_records_published_total": always(7)}
FORMER = FOLLOWS | {
    "aqueduct_destination_up": until(NOW - 3000, 1),
    "aqueduct_leader": until(NOW - 3000, 1, after=0),
    "aqueduct_source_unread_seconds": until(NOW - 3000, 5),
}
LATER = RUNNING | {
    "aqueduct_destination_up": since(NOW - 2990, 1),
    "aqueduct_leader": since(NOW - 2990, 1, before=0),
}

SITUATIONS: dict[str, tuple[list[dict[str, Value]], set[str]]] = {
    "all is well": ([RUNNING, FOLLOWS], set()),
    "long after a failover": ([FORMER, LATER], set()),
    "a former leader that still exports its zero": (
        [FORMER | {"aqueduct_destination_up": until(NOW - 3000, 1, after=0)}, LATER],
        {"DestinationNotUp"},
    ),
    "alone, without ZooKeeper": (
        [RUNNING | {"aqueduct_coordination_up": always(math.nan), "aqueduct_leader": lambda _now: None}],
        set(),
    ),
    "paused by a person": (
        [
            RUNNING | IDLE | {
                "aqueduct_destination_up": always(0), "aqueduct_destination_state:RUNNING": lambda _now: None,
                "aqueduct_destination_state:PAUSED": always(1), "aqueduct_source_unread_seconds": until(0, 0),
            }
        ],
        {"DestinationPaused"},
    ),
    "failed": (
        [
            RUNNING | IDLE | {
                "aqueduct_destination_up": since(NOW - 600, 0, before=1),
                "aqueduct_source_unread_seconds": grows(NOW - 600),
            },
            FOLLOWS,
        ],
        {"DestinationNotUp", "SourceLag"},
    ),
    "stopped by a person": ([{"up": always(1), "aqueduct_coordination_up": always(1)}] * 2, set()),
    "nobody leads": ([FOLLOWS, FOLLOWS], {"NoLeader"}),
    "each worker in turn leads for some seconds, and fails": (
        [
            FOLLOWS | {
                "aqueduct_leader": in_turn(own, 1, 0),
                "aqueduct_destination_up": in_turn(own, 0, None),
                "aqueduct_leadership_lost_total": lambda now: max(0, (now - NOW + 600) // 60) or None,
                "aqueduct_errors_total:Unforeseen": lambda now: max(0, (now - NOW + 600) // 60) or None,
            }
            for own in (0, 1)
        ],
        {"Errors", "LeadersFail"},
    ),
    "ZooKeeper's servers are restarted one after another": (
        [
            one | {"aqueduct_leadership_lost_total": lambda now: max(1, min(3, (now - NOW + 700) // 200))}
            for one in (RUNNING, FOLLOWS)
        ],
        set(),
    ),
    "a takeover under way": (
        [FOLLOWS | {"aqueduct_leader": until(NOW - 20, 1, after=0)}, FOLLOWS],
        set(),
    ),
    "two lead": ([RUNNING, RUNNING], {"TwoLeaders"}),
    "one worker without ZooKeeper's session": (
        [RUNNING, FOLLOWS | {"aqueduct_coordination_up": since(NOW - 120, 0, before=1)}],
        {"CoordinationLost"},
    ),
    "a stall, RUNNING, on a source that writes": (
        [RUNNING | IDLE | {"aqueduct_source_unread_seconds": grows(NOW - 900)}, FOLLOWS],
        {"SourceLag"},
    ),
    "an idle source after a slow record": (
        [RUNNING | IDLE | {"aqueduct_source_lag_seconds": always(500)}],
        set(),
    ),
    "catching up": ([RUNNING | {"aqueduct_source_lag_seconds": always(4000)}], {"SourceLag"}),
    "the first dead letters": (
        [RUNNING | {"aqueduct_dead_letters_total": since(NOW - 300, 2)}],
        {"DeadLetters"},
    ),
    "more dead letters": (
        [RUNNING | {"aqueduct_dead_letters_total": since(NOW - 300, 9, before=2)}],
        {"DeadLetters"},
    ),
    "dead letters of an hour ago": (
        [RUNNING | {"aqueduct_dead_letters_total": since(NOW - 3600, 2)}],
        set(),
    ),
    "a decoder that stalled for the first time": (
        [RUNNING | {"aqueduct_errors_total:DecoderStalled": since(NOW - 600, 1)}],
        {"DecoderTrouble"},
    ),
    "a decoder that stalled an hour ago": (
        [RUNNING | {"aqueduct_errors_total:DecoderStalled": since(NOW - 3600, 1)}],
        set(),
    ),
    "five errors since the worker started": (
        [RUNNING | {"aqueduct_errors_total:SourceLost": lambda now: max(0, (now - NOW + 600) // 100) or None}],
        {"Errors"},
    ),
    "a table that was given up": (
        [RUNNING | {"aqueduct_tables_given_up": always(1)}],
        {"TableGivenUp"},
    ),
    "a table that waits": ([RUNNING | {"aqueduct_tables_set_aside": always(1)}], {"TableSetAside"}),
    "shards that no common columns can hold": (
        [RUNNING | {"aqueduct_logical_tables:conflict": always(1)}],
        {"ShardsConflict"},
    ),
    "a logical table whose schema waits": (
        [RUNNING | {"aqueduct_logical_tables:waiting": always(1)}],
        {"LogicalTableWaits"},
    ),
    "shards that differ while they are altered": (
        [RUNNING | {
            "aqueduct_logical_tables:converging": always(3),
            "aqueduct_logical_tables:conflict": since(NOW - 300, 1, before=0),
            "aqueduct_logical_tables_oldest_seconds:converging": grows(0),
        }],
        set(),
    ),
    "shards that differ for days": (
        [RUNNING | {"aqueduct_logical_tables_oldest_seconds:converging": always(90_000)}],
        {"ShardsDiffer"},
    ),
    "a worker that does not answer": ([RUNNING, {"up": always(0)}], {"WorkerGone"}),
}  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_alerts_of_a_situation_fire_and_no_others(situation: str) -> None:
    workers, expected = SITUATIONS[situation]
    series: Series = {
        key: value
        for number, metrics in enumerate(workers, 1)
        for key, value in worker(f"w{number}:8083", metrics).items()
    }
    assert {name for name, rule in RULES.items() if fires(rule, series, NOW)} == expected


def test_every_rule_of_the_worker_without_a_histogram_is_evaluated() -> None:
    assert {
        "NoLeader",
        "TwoLeaders",
        "CoordinationLost",
        "SourceLag",
        "DeadLetters",
    } <= RULES.keys()
    assert len(rules()) - len(RULES) == sum(
        "histogram_quantile" in one["expr"] for one in rules().values()
    )


def test_the_lag_of_a_sink_in_a_stall_grows_without_a_finished_batch() -> None:
    rules = yaml.safe_load((PROJECT / "deploy/prometheus/alerts.yml").read_text())
    (lag,) = [
        rule
        for group in rules["groups"]
        for rule in group["rules"]
        if rule["alert"] == "AqueductSinkLag"
    ]
    sink = frozenset({("instance", "s:8084"), ("job", "aqueduct-sink")})
    name = "aqueduct_sink_complete_until_timestamp_seconds"
    assert fires(lag, {(name, sink): always(NOW - 3000)}, NOW)
    assert not fires(lag, {(name, sink): lambda now: now - 5}, NOW)
