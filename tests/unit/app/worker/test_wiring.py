"""From settings to plans: unset keys have the documented defaults."""

import pickle
from dataclasses import replace
from typing import Any

import pytest

from app.settings.model import Settings
from app.worker.wiring import destination_plan, kafka_client, topic_plans
from connectors.kafka.record_batches import MAX_BATCH_BYTES
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.start import AfterGtids, AtCoordinates, AtTime, Earliest, Latest, Start
from connectors.mysql.position import Coordinates

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def settings(monkeypatch: pytest.MonkeyPatch, **destination: Any) -> Settings:
    monkeypatch.setenv("AQUEDUCT_CONFIG", "/nowhere/aqueduct.yaml")
    shop = {"source": {"host": "db", "user": "u", "password": "p"}, "server_id": 5, **destination}
    return Settings.model_validate(
        {
            "prefix": "aq",
            "kafka": {"bootstrap_servers": "k:9092", "sasl_password": "secret"},
            "destinations": {"shop": shop},
        }
    )


@pytest.mark.parametrize(
    ("start", "meant"),
    [
        (None, Latest()),
        ("latest", Latest()),
        ("earliest", Earliest()),
        ({"file": "b.000002"}, AtCoordinates(Coordinates("b.000002", 4))),
        ({"file": "b.000002", "pos": 90}, AtCoordinates(Coordinates("b.000002", 90))),
        ({"timestamp": 1763719200123}, AtTime(1763719200123)),
        ({"timestamp": "1763719200123"}, AtTime(1763719200123)),
        ({"timestamp": "2025-11-21T10:00:00Z"}, AtTime(1763719200000)),
        ({"timestamp": "2025-11-21T12:00:00.5+02:00"}, AtTime(1763719200500)),
        (
            {"file": "b.000002", "timestamp": 1763719200123},
            AtTime(1763719200123, "b.000002"),
        ),
        ({"gtid_set": f"{UUID}:1-3"}, AfterGtids(GtidSet.parse(f"{UUID}:1-3"))),
    ],
)
def test_a_start_means_its_place_and_none_means_the_end(
    monkeypatch: pytest.MonkeyPatch, start: Any, meant: Start
) -> None:
    given = settings(monkeypatch, start=start)
    assert destination_plan(given, "shop", {}, topic_plans(given)).start == meant


def test_a_plan_shows_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    given = settings(
        monkeypatch, source={"host": "db", "user": "u", "password": "hunter2-nobody-may-see"}
    )
    plan = destination_plan(given, "shop", {}, topic_plans(given))
    assert plan.address.password == "hunter2-nobody-may-see"
    assert "hunter2" not in repr(plan)
    assert kafka_client(given).sasl_password == "secret"
    assert "secret" not in repr(kafka_client(given))


def test_a_batch_is_never_larger_than_what_its_topic_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = settings(monkeypatch)
    for limit, most in ((1 << 16, 1 << 16), (1 << 30, MAX_BATCH_BYTES)):
        topics = replace(topic_plans(given), max_message_bytes=limit)
        assert destination_plan(given, "shop", {}, topics).rules.max_batch_bytes == most


def test_the_rules_are_those_of_the_settings_and_travel_to_decoders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = settings(monkeypatch, filter={"include": r"a\..*", "black": r"a\.b"}, decoders=3)
    plan = destination_plan(given, "shop", {}, topic_plans(given))
    rules = pickle.loads(pickle.dumps(plan.rules))
    assert rules == plan.rules
    assert (rules.routes.include, rules.routes.black) == (r"a\..*", r"a\.b")
    assert (rules.markers, rules.part_markers, rules.statements) == (False, True, False)
    assert (rules.routes.partitions, rules.compression) == (given.topics.partitions, "lz4")
    assert rules.max_bytes == given.publish.max_bytes
    assert plan.decoders == 3
    assert destination_plan(settings(monkeypatch), "shop", {}, topic_plans(given)).decoders == 2


def test_a_version_states_what_determines_the_form_of_a_connectors_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    form = {"decimal": "string", "source_name": "old", "tombstones": False}
    for name, wanted in (("connect", {"decimal": "string", "unwrap": False}), ("debezium", {})):
        given = settings(monkeypatch, format=name, connect=form)
        route = destination_plan(given, "shop", {}, topic_plans(given)).rules.routes.of(("a", "b"))
        assert route is not None
        stated = route.stated.get("connect", {})
        assert wanted.items() <= stated.items()
        assert stated.keys().isdisjoint(["source_name", "tombstones"])
        assert bool(stated) is bool(wanted)


def test_seconds_are_made_of_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    given = settings(monkeypatch)
    assert destination_plan(given, "shop", {}, topic_plans(given)).interval == 0.2


@pytest.mark.parametrize("new_tables", [False, True])
def test_recovery_is_planned_with_any_start_and_publishes_no_rows(
    monkeypatch: pytest.MonkeyPatch, new_tables: bool
) -> None:
    mode = {"mode": "recovery", "new_tables": new_tables}
    given = settings(monkeypatch, start={"file": "b.000002"}, snapshot=mode)
    plan = destination_plan(given, "shop", {}, topic_plans(given))
    assert plan.start == AtCoordinates(Coordinates("b.000002", 4))
    snapshot = plan.snapshot
    assert (snapshot.recovers, snapshot.is_initial, snapshot.is_only) == (True, False, False)
    assert (snapshot.replaces_gaps, snapshot.includes_new) == (False, False)


def test_no_other_mode_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in ("never", "no_data", "initial", "initial_only", "when_needed"):
        given = settings(monkeypatch, snapshot={"mode": mode})
        assert not destination_plan(given, "shop", {}, topic_plans(given)).snapshot.recovers
