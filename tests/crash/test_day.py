"""What the run of troubles takes for commands and for lag."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from connectors.errors import TopicGone, WitnessesDiffer
from connectors.kafka.topics import TopicPlan
from spark_sink.text.quoting import action
from tests.crash.day.__main__ import masked, printed
from tests.crash.day.beat import Beat
from tests.crash.day.troubles import SECRET
from tests.crash.soak.verdict import Table, differences

TABLE = {"destination": "shop", "table": "shop.it is"}
PLAN = TopicPlan(name="p.shop.t", partitions=2, replication_factor=1, max_message_bytes=1 << 20)


@pytest.mark.parametrize(
    ("lines", "commands"),
    [
        (
            str(WitnessesDiffer("a: b", **TABLE)),
            [
                f"python -m app schema resolve shop 'shop.it is' {option}"
                for option in ("--binlog", "--server", "--definition FILE.sql")
            ],
        ),
        (
            f"{TopicGone(PLAN.command(), destination='shop')}",
            [PLAN.command(), "python -m app destination accept-topic shop TOPIC --why REASON"],
        ),
        (action(("shop", "it is")), ["python -m spark_sink reload 'shop.it is'"]),
        ("nothing to run", []),
    ],
)
def test_commands_are_found_in_what_is_printed(lines: str, commands: list[str]) -> None:
    assert printed(lines) == commands


def test_a_row_that_did_not_arrive_takes_until_now_and_one_of_a_time_of_trouble_does_not_count() -> (
    None
):
    beat = Beat(["t"])
    now = time.monotonic()
    beat._sent["t"].update({1: now - 60, 2: now - 40, 3: now - 20})
    beat._arrived["t"].update({1: now - 59, 3: now - 19.5})
    assert beat.missing("t") == 1
    assert [round(one, 1) for one in beat.lags("t", [])] == [1.0, 40.0, 0.5]
    assert [round(one, 1) for one in beat.lags("t", [(now - 45, now - 30)])] == [1.0, 0.5]


def test_masked_rows_are_compared_with_what_their_rule_publishes() -> None:
    def lines(held: str | None, rule: Mapping[str, object]) -> list[str]:
        table = Table({"id": "int", "secret": "varchar"}, ("id",), [{"id": 1, "secret": "key"}])
        return differences("t00", masked(table, rule), [{"id": 1, "secret": held}], {})

    rule = {"column_actions": SECRET}
    assert lines("***", rule) == lines("key", {}) == []
    assert len(lines("key", rule)) == len(lines(None, rule)) == len(lines("***", {})) == 2
