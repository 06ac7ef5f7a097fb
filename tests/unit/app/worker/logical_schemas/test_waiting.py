"""Trouble of one logical table: it waits by its name, the others are published, and a command ends it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from app import metrics
from app.worker.logical_schemas import run as module
from app.worker.status import State
from connectors.errors import (
    AqueductError,
    BatchTooLarge,
    JournalUnreadable,
    KafkaDenied,
    RunRestarts,
    TooFewBrokers,
    TransactionOpen,
)
from tables.history.logical_schemas.decisions import (
    Decided,
    Decision,
    Verb,
    note_of_decided,
    note_of_decision,
)
from tables.history.logical_schemas.published import PublishedSchema, next_published
from tables.history.logical_schemas.shard import ShardName
from tables.journal_format import tombstone
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.logical_schemas.test_run import (
    ID,
    JOURNAL,
    LOGICAL,
    SCHEMAS,
    Scene,
    scene,
)
from tests.unit.tables.history.logical_schemas.made import NAME, full_name

__all__ = ["scene"]  # a fixture

ITEM = ShardName("a", "shop", "items_1")
REPAIR = "python -m app journal repair logical.schemas --why TEXT"
X = f"{ID}; x int"
DDL = "aq.__ddl.b"


def latest(scene: Scene) -> dict[str, list[str]]:
    """The columns of each logical table as it was last published."""
    return {
        ".".join(one.name): [column["name"] for column in one.content["columns"]]
        for one in scene.kafka.published()
    }


def waiting(scene: Scene) -> Mapping[str, str]:
    found: Mapping[str, str] = scene.status.to_json()["waiting"]
    return found


def excluded(name: str = "b1") -> Decision:
    return Decision(
        table=NAME, id="d", verb=Verb.EXCLUDE, name=str(full_name(name)), by="ann", why="", ts_ms=1
    )


def applied(decision: Decision) -> Decided:
    return Decided(
        table=decision.table, subject=decision.subject, id=decision.id, state="accepted",
        in_force=decision, worker="w", ts_ms=1,
    )  # fmt: skip


def without(note: tuple[bytes, bytes], **changed: Any) -> tuple[bytes, bytes]:
    """A record of the journal with other values."""
    return note[0], orjson.dumps({**orjson.loads(note[1]), **changed})


DECISION, OUTCOME = note_of_decision(excluded()), note_of_decided(applied(excluded()))
UNREADABLE = {
    "a decision": (DECISION[0], b"junk"),
    "a decision of a newer version": without(DECISION, format=2),
    "a decision with a verb of a newer version": without(DECISION, verb="merge"),
    "a decision of another form": without(DECISION, name=7),
    "a decision that another program wrote": (DECISION[0], b'{"format":1,"table":[1,2]}'),
    "an outcome": (OUTCOME[0], b""),
    "an outcome of another form": without(OUTCOME, in_force={"table": ["x"]}),
}


@pytest.mark.remedy("JournalUnreadable", "JournalTooNew")
@pytest.mark.parametrize("kind", UNREADABLE)
async def test_a_record_of_decisions_that_cannot_be_read_stops_its_table_until_it_is_repaired(
    scene: Scene, kind: str
) -> None:
    kafka = scene.kafka
    kafka.topics[JOURNAL].append(UNREADABLE[kind])
    kafka.alter("a1", 1, ID)
    kafka.alter("b1", 1, X)
    kafka.alter(ITEM, 1, ID)
    kafka.later = [lambda: kafka.alter(ITEM, 2, X)]
    await scene.run()
    assert latest(scene) == {"trade.items": ["id", "x"]}
    assert waiting(scene).keys() == {"trade.orders"}
    assert REPAIR in waiting(scene)["trade.orders"]
    assert scene.status.state is State.RUNNING
    # What the command writes if there is no earlier record of the key.
    kafka.topics[JOURNAL].append(tombstone(UNREADABLE[kind][0]))
    await scene.run()
    assert latest(scene) == {"trade.items": ["id", "x"], "trade.orders": ["id", "x"]}
    assert waiting(scene) == {}


@pytest.mark.parametrize("kind", UNREADABLE)
async def test_one_that_comes_within_a_run_stops_its_table_and_neither_the_run_nor_the_others(
    scene: Scene, kind: str
) -> None:
    kafka, shown = scene.kafka, list[tuple[Any, Any]]()
    kafka.alter("a1", 1, ID)
    kafka.alter("b1", 1, ID)
    kafka.alter(ITEM, 1, ID)
    kafka.later = [
        lambda: kafka.topics[JOURNAL].append(UNREADABLE[kind]),
        lambda: kafka.alter("b1", 2, X),
        lambda: kafka.alter(ITEM, 2, X),
        lambda: shown.append((waiting(scene).keys(), latest(scene))),
        lambda: kafka.topics[JOURNAL].append(tombstone(UNREADABLE[kind][0])),
    ]
    await scene.run()
    assert shown == [({"trade.orders"}, {"trade.orders": ["id"], "trade.items": ["id", "x"]})]
    assert latest(scene) == {"trade.orders": ["id", "x"], "trade.items": ["id", "x"]}
    assert waiting(scene) == {}


async def test_an_unreadable_outcome_is_kept_for_the_repair_and_other_decisions_are_refused(
    scene: Scene,
) -> None:
    kafka = scene.kafka
    kafka.alter("a1", 1, ID)
    kafka.alter("b1", 1, X)
    kafka.topics[JOURNAL].append((OUTCOME[0], b""))
    kafka.decide(Verb.EXCLUDE, str(full_name("b1")))
    kafka.decide(Verb.REOPEN)
    await scene.run()
    (refused,) = kafka.outcomes()
    assert refused["subject"] == ["reopen", ""]
    assert REPAIR in refused["refused"]
    # The repair has an earlier record of the key, or none.
    kafka.topics[JOURNAL].append(tombstone(OUTCOME[0]))
    await scene.run()
    assert kafka.outcomes()[-1]["subject"] == list(excluded().subject)
    assert latest(scene) == {"trade.orders": ["id"]}


async def test_a_table_that_has_not_changed_is_listed_too(scene: Scene) -> None:
    kafka = scene.kafka
    kafka.write(DDL, {"source": {"ts_ms": 9}, "tables": []})
    kafka.alter("a1", 1, ID)
    kafka.alter("b1", 1, ID)
    kafka.alter(ITEM, 1, ID)
    await scene.run()
    kafka.later = [lambda: kafka.topics[JOURNAL].append((DECISION[0], b"junk"))]
    await scene.run()
    assert waiting(scene).keys() == {"trade.orders"}
    kafka.later = [
        lambda: kafka.topics[JOURNAL].append(tombstone(DECISION[0])),
        lambda: kafka.troubles.update({DDL: TROUBLES["KafkaDenied"]}),
    ]
    await scene.run()
    assert "KafkaDenied" in waiting(scene)["trade.orders"]
    assert waiting(scene).keys() == {"trade.orders"}


async def test_an_unreadable_record_that_names_no_table_concerns_all(scene: Scene) -> None:
    scene.kafka.topics[JOURNAL].append((b"shards/logical.schemas/x", b"junk"))
    scene.kafka.alter(ITEM, 1, ID)
    with pytest.raises(JournalUnreadable):
        await scene.run()


TYPES = (
    "number", "bytes", "decimal", "varchar(x)", "enum(a)", "varchar(" + "9" * 5000 + ")", "int(7",
)  # fmt: skip


@pytest.mark.parametrize("type_text", TYPES)
async def test_a_type_that_is_none_is_refused_and_ends_no_run(scene: Scene, type_text: str) -> None:
    kafka = scene.kafka
    kafka.alter("a1", 1, X)
    kafka.alter("b1", 1, f"{ID}; x float")
    kafka.alter(ITEM, 1, ID)
    kafka.decide(Verb.TAKE_TYPE, "x", type_text)
    await scene.run()
    (outcome,) = kafka.outcomes()
    assert outcome["refused"].endswith("holds all values of float, int")
    assert latest(scene).keys() == {"trade.items", "trade.orders"}


async def test_a_decision_that_cannot_be_judged_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> str:
        raise KeyError("number")

    monkeypatch.setattr(module, "refusal", fails)
    scene.kafka.alter("a1", 1, ID)
    scene.kafka.alter(ITEM, 1, ID)
    scene.kafka.decide(Verb.REOPEN)
    await scene.run()
    assert "KeyError" in scene.kafka.outcomes()[0]["refused"]
    assert latest(scene).keys() == {"trade.items", "trade.orders"}


FOREIGN: dict[str, dict[str, Any]] = {
    "another version": {"version": "2"},
    "another name": {"table": ["orders_1"]},
    "another time": {"ts_ms": "x"},
    "other columns": {"columns": [{"name": "id", "type": 7}]},
    "a column of no name": {"columns": [{"name": None, "type": "int"}]},
    "a character set that is none": {"columns": [{"name": "id", "type": "int", "charset": ["x"]}]},
    "a type that is none": {"columns": [{"name": "id", "type": "number"}]},
    "no columns": {"columns": None},
    "a key that is none": {"primary_key": [["id"]]},
}


@pytest.mark.remedy("RecordForeign")
@pytest.mark.parametrize("number", [2, 99], ids=["the next", "a number that none has"])
@pytest.mark.parametrize("kind", FOREIGN)
async def test_a_version_that_cannot_be_read_stops_its_logical_table_until_the_next_one(
    scene: Scene, kind: str, number: int
) -> None:
    kafka = scene.kafka
    kafka.alter("a1", 1, ID)
    kafka.alter("b1", 1, X)
    kafka.alter("b1", number, ID, **FOREIGN[kind])
    kafka.alter(ITEM, 1, ID)
    kafka.later = [lambda: kafka.alter(ITEM, 2, X)]
    await scene.run()
    assert latest(scene) == {"trade.items": ["id", "x"]}
    assert "ALTER TABLE shop.orders_1 COMMENT" in waiting(scene)["trade.orders"]
    # Until then the version before it is no reason to continue, though it is published again.
    kafka.alter("b1", 1, X)
    await scene.run()
    assert waiting(scene).keys() == {"trade.orders"}
    kafka.alter("b1", 3, f"{ID}; y int")
    await scene.run()
    assert latest(scene) == {"trade.items": ["id", "x"], "trade.orders": ["id", "y"]}
    assert waiting(scene) == {}


async def test_one_of_a_shard_that_is_excluded_as_the_reason_says_stops_nothing(
    scene: Scene,
) -> None:
    kafka = scene.kafka
    kafka.alter("a1", 1, ID)
    kafka.alter("b1", 1, X)
    await scene.run()
    kafka.alter("b1", 2, ID, version="2")
    await scene.run()
    exclude = "python -m app shards resolve trade.orders --exclude b:shop.orders_1 --why TEXT"
    assert exclude in waiting(scene)["trade.orders"]
    kafka.decide(Verb.EXCLUDE, "b:shop.orders_1")
    await scene.run()
    assert [one["refused"] for one in kafka.outcomes()] == [""]
    assert (latest(scene), waiting(scene)) == ({"trade.orders": ["id"]}, {})
    kafka.decide(Verb.INCLUDE, "b:shop.orders_1")
    await scene.run()
    assert "the logical table would wait: RecordForeign" in kafka.outcomes()[-1]["refused"]
    assert waiting(scene) == {}


async def test_a_shard_whose_first_version_cannot_be_read_removes_no_schema(scene: Scene) -> None:
    kafka = scene.kafka
    kafka.alter("a1", 1, ID)
    await scene.run()
    kafka.topics[SCHEMAS].clear()
    kafka.alter("a1", 1, ID, columns=None)
    kafka.alter(ITEM, 1, ID)
    await scene.run()
    assert [one.value == b"" for one in kafka.records(LOGICAL)] == [False, False]
    assert waiting(scene).keys() == {"trade.orders"}
    assert "--exclude" not in waiting(scene)["trade.orders"]


async def test_a_record_of_no_table_is_skipped_and_listed(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = scene.kafka
    kafka.write(SCHEMAS, {"table": "t"})
    kafka.write("aq.__ddl.a", {"tables": [{"database": "shop", "table": 7, "new": None}]})
    kafka.write(LOGICAL, {"state": "equal"})
    kafka.alter("a1", 1, ID)
    for _ in range(2):
        await scene.run()
    assert waiting(scene) == {}
    found = scene.status.to_json()["skipped"]
    assert [(one["topic"], one["offset"]) for one in found] == [
        ("aq.__ddl.a", 0), (LOGICAL, 0), (SCHEMAS, 0),
    ]  # fmt: skip
    assert sum("is skipped" in one.getMessage() for one in caplog.records) == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"version": "1"}, {"version": None}, {"since_ms": "1"}, {"ts_ms": []},
        {"database": 7}, {"table": None}, {"shards": [{"database": "x"}]}, {"changes": [{}]},
    ],
    ids=str,
)  # fmt: skip
async def test_a_schema_that_another_program_wrote_ends_no_run_and_no_status(
    scene: Scene, changed: dict[str, Any]
) -> None:
    kafka = scene.kafka
    kafka.alter("a1", 1, ID)
    await scene.run()
    (key, value) = kafka.topics[LOGICAL][0]
    kafka.topics[LOGICAL].append((key, orjson.dumps({**orjson.loads(value or b""), **changed})))
    kafka.alter(ITEM, 1, ID)
    await scene.run()
    scene.status.measure()
    assert scene.status.to_json()["tables"]["equal"] == 2
    # Nothing changed, and what the other program wrote is replaced.
    newest = PublishedSchema.from_record(kafka.records(LOGICAL)[-1].value)
    assert (newest.name, newest.version) == (NAME, 2)
    await scene.run()
    assert len(kafka.records(LOGICAL)) == 4


ENDING = "python -m app journal abort DEST --topic aq.__ddl.b --partition 0 --transactional-id z"
TROUBLES: dict[str, AqueductError] = {
    "TransactionOpen": TransactionOpen("z", topic=DDL, remedy=f"End it: {ENDING}."),
    "KafkaDenied": KafkaDenied("the account may not read it", topic=DDL),
    "TooFewBrokers": TooFewBrokers("partition 0 has no leader", topic=DDL),
}


@pytest.mark.remedy("TransactionOpen")
@pytest.mark.parametrize("kind", TROUBLES)
async def test_trouble_of_one_destinations_statements_stops_the_tables_with_a_shard_in_it(
    scene: Scene, kind: str
) -> None:
    kafka = scene.kafka
    kafka.write(DDL, {"source": {"ts_ms": 9}, "tables": []})
    kafka.troubles[DDL] = TROUBLES[kind]
    kafka.alter("a1", 1, ID)
    kafka.alter("b1", 1, X)
    kafka.alter(ITEM, 1, ID)
    kafka.later = [lambda: kafka.alter(ITEM, 2, X)]
    await scene.run()
    assert latest(scene) == {"trade.items": ["id", "x"]}
    assert waiting(scene).keys() == {"trade.orders"}
    assert kind in waiting(scene)["trade.orders"]
    assert "DEST" not in waiting(scene)["trade.orders"]
    kafka.later = [
        lambda: kafka.troubles.clear(),
        lambda: kafka.troubles.update({DDL: TROUBLES[kind]}),
        lambda: kafka.alter("b1", 2, ID),
        lambda: kafka.alter(ITEM, 3, ID),
    ]
    await scene.run()
    # It was published while the topic could be read, and no longer afterwards.
    assert latest(scene) == {"trade.items": ["id"], "trade.orders": ["id", "x"]}
    assert waiting(scene).keys() == {"trade.orders"}
    kafka.later = [lambda: kafka.troubles.clear()]
    await scene.run()
    assert latest(scene) == {"trade.items": ["id"], "trade.orders": ["id"]}
    assert waiting(scene) == {}


async def test_a_topic_of_statements_that_may_not_be_seen_stops_the_tables_of_its_destination(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = scene.kafka
    monkeypatch.setattr(module, "_ASK_SECONDS", 0.0)
    kafka.unseen = {DDL}
    kafka.alter("b1", 1, ID)
    kafka.alter(ITEM, 1, ID)
    await scene.run()
    assert latest(scene) == {"trade.items": ["id"]}
    assert "KafkaDenied" in waiting(scene)["trade.orders"]
    kafka.later = [lambda: kafka.unseen.clear()]
    await scene.run()
    assert latest(scene).keys() == {"trade.items", "trade.orders"}


async def test_a_leader_that_is_lost_while_it_is_asked_ends_no_run(scene: Scene) -> None:
    kafka = scene.kafka
    kafka.write(DDL, {"source": {"ts_ms": 9}, "tables": []})
    kafka.alter("b1", 1, ID)
    kafka.alter(ITEM, 1, ID)
    kafka.loses = {DDL: TROUBLES["TooFewBrokers"]}
    await scene.run()
    assert latest(scene) == {"trade.items": ["id"]}
    assert waiting(scene).keys() == {"trade.orders"}


async def test_an_excluded_shard_has_no_trouble(scene: Scene) -> None:
    kafka = scene.kafka
    kafka.write(DDL, {"source": {"ts_ms": 9}, "tables": []})
    kafka.alter("a1", 1, ID)
    kafka.alter("b1", 1, X)
    await scene.run()
    kafka.troubles[DDL] = TROUBLES["KafkaDenied"]
    kafka.alter("a1", 2, f"{ID}; y int")
    await scene.run()
    assert latest(scene) == {"trade.orders": ["id", "x"]}
    kafka.decide(Verb.REOPEN)
    kafka.decide(Verb.EXCLUDE, str(full_name("b1")))
    await scene.run()
    refused, accepted = (one["refused"] for one in kafka.outcomes())
    assert "KafkaDenied" in refused
    assert accepted == ""
    assert (latest(scene), waiting(scene)) == ({"trade.orders": ["id", "y"]}, {})


async def test_of_several_shards_in_trouble_each_can_be_excluded(scene: Scene) -> None:
    kafka = scene.kafka
    kafka.write(DDL, {"source": {"ts_ms": 9}, "tables": []})
    for name in ("a1", "b1", "b2"):
        kafka.alter(name, 1, ID)
    await scene.run()
    kafka.troubles[DDL] = TROUBLES["KafkaDenied"]
    kafka.alter("a1", 2, X)
    for name in ("b1", "b2"):
        kafka.decide(Verb.EXCLUDE, str(full_name(name)))
        await scene.run()
    assert [one["refused"] for one in kafka.outcomes()] == ["", ""]
    assert (latest(scene), waiting(scene)) == ({"trade.orders": ["id", "x"]}, {})
    # What only another command undoes is refused as before.
    kafka.decide(Verb.INCLUDE, str(full_name("b1")))
    await scene.run()
    assert "KafkaDenied" in kafka.outcomes()[-1]["refused"]


async def test_a_new_destination_whose_statements_are_not_read_yet_stops_no_other(
    scene: Scene,
) -> None:
    kafka = scene.kafka
    kafka.alter(ITEM, 1, ID)

    def comes() -> None:
        kafka.write(DDL, {"source": {"ts_ms": 9}, "tables": []})
        kafka.hidden = {DDL}
        kafka.alter("b1", 1, ID)
        kafka.alter(ITEM, 2, X)

    kafka.later = [comes]
    await scene.run()
    # What is only not read yet has no trouble.
    assert (latest(scene), waiting(scene)) == ({"trade.items": ["id", "x"]}, {})


async def test_statements_that_were_removed_unread_end_no_run(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = scene.kafka
    kafka.write(DDL, {"source": {"ts_ms": 9}, "tables": []})
    kafka.alter("b1", 1, ID)
    kafka.alter(ITEM, 1, ID)
    kafka.gone = {DDL}
    kafka.later = [lambda: kafka.alter("b1", 2, X)]
    await scene.run()
    assert latest(scene) == {"trade.items": ["id"], "trade.orders": ["id", "x"]}
    (found,) = scene.status.to_json()["skipped"]
    assert found["topic"] == DDL
    assert "python -m app shards resolve TABLE --exclude" in found["why"]
    assert found["why"] in caplog.text


async def test_a_topic_of_statements_that_is_deleted_is_followed_again_once_it_is_there(
    scene: Scene,
) -> None:
    kafka = scene.kafka
    kafka.write(DDL, {"source": {"ts_ms": 9}, "tables": []})
    kafka.alter("b1", 1, ID)
    dropped = {"database": "shop", "table": "orders_1", "new": None}
    kafka.later = [
        lambda: kafka.remove(DDL),
        lambda: kafka.alter("b1", 2, X),
        lambda: kafka.write(DDL, {"source": {"ts_ms": 9}, "tables": [dropped]}),
    ]
    await scene.run()
    assert latest(scene) == {"trade.orders": ["id", "x"]}
    assert kafka.published()[-1].dropped == {full_name("b1"): 9}


async def test_a_journal_that_cannot_be_read_on_delays_decisions_and_no_schema(
    scene: Scene,
) -> None:
    kafka = scene.kafka
    kafka.alter("a1", 1, ID)
    error = TransactionOpen("z", topic=JOURNAL, remedy="python -m app journal abort DEST")
    kafka.later = [
        lambda: kafka.troubles.update({JOURNAL: error}),
        lambda: kafka.decide(Verb.REOPEN),
        lambda: kafka.alter("a1", 2, X),
    ]
    await scene.run()
    assert latest(scene) == {"trade.orders": ["id", "x"]}
    assert kafka.outcomes() == []
    assert scene.status.state is State.RUNNING
    assert "python -m app journal abort logical.schemas" in str(scene.status.error)
    kafka.later = [lambda: kafka.troubles.clear()]
    await scene.run()
    assert [one["refused"] for one in kafka.outcomes()] == [""]
    assert scene.status.error is None


@pytest.mark.remedy("RecordTooLarge")
@pytest.mark.parametrize("is_limit_known", [True, False])
async def test_a_schema_that_its_topic_refuses_waits_and_the_others_are_published(
    scene: Scene,
    is_limit_known: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = scene.kafka
    kafka.limit, kafka.is_limit_known = 3000, is_limit_known
    for name in ("a1", "b1"):
        kafka.alter(name, 1, f"{ID}; {'; '.join(f'x{one} int' for one in range(40))}")
    for number in range(1, 9):
        kafka.alter(ShardName("a", "shop", f"items_{number}"), 1, ID)
    kafka.later = [lambda: kafka.alter(ITEM, 2, X)]
    for _ in range(3):
        await until_published(scene)
    assert latest(scene) == {"trade.items": ["id", "x"]}
    why = waiting(scene)["trade.orders"]
    assert "RecordTooLarge" in why
    assert "--entity-name aq.__logical_schemas --add-config max.message.bytes=" in why
    assert sum("waits" in one.getMessage() for one in caplog.records) == 1
    # A decision could not be seen in its schema.
    kafka.decide(Verb.REOPEN)
    await until_published(scene)
    assert "RecordTooLarge" in kafka.outcomes()[0]["refused"]
    # Another content of it is tried only if it may fit.
    kafka.alter("a1", 2, f"{ID}; {'; '.join(f'x{one} int' for one in range(41))}")
    await until_published(scene)
    assert waiting(scene).keys() == {"trade.orders"}
    if not is_limit_known:
        # Without the right to read the topic's settings it is tried at intervals.
        with monkeypatch.context() as patch:
            patch.setattr(module, "BLIND_SECONDS", 0.0)
            with pytest.raises((RunRestarts, BatchTooLarge)):
                await scene.run()
        await until_published(scene)
        assert waiting(scene).keys() == {"trade.orders"}
        monkeypatch.setattr(module, "BLIND_SECONDS", 0.0)
    kafka.limit = int(why.rpartition("max.message.bytes=")[2].split()[0].rstrip(".")) + 300
    await until_published(scene)
    assert len(latest(scene)["trade.orders"]) == 42
    assert waiting(scene) == {}


async def until_published(scene: Scene) -> None:
    """Run until a run has published all that can be published."""
    for _ in range(20):
        try:
            await scene.run()
        except (RunRestarts, BatchTooLarge):
            continue
        return
    raise AssertionError("each run was begun again")


async def test_a_table_that_two_rules_match_stays_the_shard_that_it_was_published_as(
    scene: Scene,
) -> None:
    kafka = scene.kafka
    kafka.alter("a1", 1, ID, logical=list(NAME))
    kafka.alter("b1", 1, X, logical=list(NAME))
    await scene.run()
    mapping = from_yaml(
        "tables: {trade.orders: {from: ['shop.orders_[0-9]+'], topic: trade}, "
        "trade.other: {from: ['shop.order._1'], topic: other}}"
    )
    scene.routes["b"] = Routes(prefix="aq", destination="b", mapping=mapping)
    route = scene.routes["b"].of(("shop", "orders_1"))
    assert route is not None
    assert route.fault
    kafka.alter(ITEM, 1, ID)
    await scene.run()
    assert latest(scene) == {"trade.items": ["id"], "trade.orders": ["id", "x"]}
    assert len(kafka.published()[0].content["shards"]) == 2
    assert [one.value == b"" for one in kafka.records(LOGICAL)] == [False, False]


async def test_an_unforeseen_error_of_one_table_stops_it_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = next_published

    def fails(schema: Any, *rest: Any) -> PublishedSchema | None:
        if schema.name == NAME:
            raise KeyError("number")
        return made(schema, *rest)

    monkeypatch.setattr(module, "next_published", fails)
    kafka = scene.kafka
    kafka.alter("a1", 1, ID)
    kafka.alter(ITEM, 1, ID)
    kafka.later = [lambda: kafka.alter(ITEM, 2, X), lambda: kafka.alter(ITEM, 3, ID)]
    await scene.run()
    assert latest(scene) == {"trade.items": ["id"]}
    assert "KeyError" in waiting(scene)["trade.orders"]
    assert sum("trade.orders" in one.getMessage() for one in caplog.records) == 1
    monkeypatch.setattr(module, "next_published", made)
    await scene.run()
    assert latest(scene).keys() == {"trade.items", "trade.orders"}


async def test_what_waits_is_in_the_metrics_and_once_in_the_log(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    kafka = scene.kafka
    kafka.topics[JOURNAL].append((DECISION[0], b"junk"))
    kafka.alter("a1", 1, ID)
    kafka.alter(ITEM, 1, ID)
    kafka.later = [lambda: kafka.alter("a1", 2, X), lambda: kafka.alter(ITEM, 2, X)]
    for _ in range(3):
        await scene.run()
    assert counts() == {"equal": 1, "converging": 0, "conflict": 0, "accepted": 0, "waiting": 1}
    lines = [one for one in caplog.messages if "trade.orders" in one and "wait" in one]
    assert len(lines) == 1
    assert REPAIR in lines[0]
    scene.status.show(State.RETRYING, "KafkaLost")
    assert counts() == {"waiting": 1}
    assert waiting(scene).keys() == {"trade.orders"}
    kafka.topics[JOURNAL].append(tombstone(DECISION[0]))
    await scene.run()
    assert counts()["waiting"] == 0
    assert any("trade.orders" in one and "published again" in one for one in caplog.messages)
    scene.status.show(State.STANDBY)
    assert (waiting(scene), counts()) == ({}, {})


def counts() -> dict[str, float]:
    return {
        one.labels["state"]: one.value
        for metric in metrics.LOGICAL_TABLES.collect()
        for one in metric.samples
    }
