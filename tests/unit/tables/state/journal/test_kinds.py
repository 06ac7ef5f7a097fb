"""Kinds of journal records: keys as they always were, each registered once, and others ignored."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from connectors.errors import JournalTooNew, JournalUnreadable
from connectors.kafka.reading import StoredRecord
from connectors.mysql.position import Coordinates
from tables.history.codec import OLDEST, checkpoint_key
from tables.history.position import HistoryPosition
from tables.journal_kind import Audience, Kind
from tables.rules.table_version import TableVersion
from tables.state import operator_requests as requests
from tables.state.fingerprints import FINGERPRINTS
from tables.state.journal.checkpoint import MemoryCheckpoint, records_of_kind
from tables.state.journal.kinds import KINDS, Kinds
from tables.state.journal.records import Leader, installation_key
from tables.state.journal.records import note_of as leader_note
from tables.state.journal.state import DestinationState, cursor_key, fold, version_key
from tables.state.quarantine import GIVE_UP, Entry, Resolution
from tables.state.quarantine import note_of as quarantine_note
from wire.table_version import Definition

NAME = "a/ü%"
"""A destination whose name is not written into a key as it is."""
QUOTED = "a%2F%C3%BC%25"
AT = Coordinates("b.000001", 4)
PLACE = HistoryPosition(server_uuid="s", start=AT, end=AT, gtid=None, ts_ms=1)


def keys() -> dict[str, bytes]:
    """A key of each kind but those of the schema history's own records."""
    version = TableVersion(
        destination=NAME, database="d/b", table="t", version=3, topic="x", gtid=None, coordinates=AT,
        ts_ms=1, definition=Definition(columns=(), primary_key=()),
    )  # fmt: skip
    entry = Entry(destination=NAME, name=("d/b", "t"), since=PLACE, why="w")
    resolution = Resolution(
        destination=NAME, name=("d/b", "t"), id="r", table=None, by="me", ts_ms=1, source=GIVE_UP
    )
    skip = requests.Skip(destination=NAME, transaction="u:7", id="i", by="me", why="w", ts_ms=1)
    intervention = requests.Intervention(
        destination=NAME, id="0f", what="set", by="me", why="w", ts_ms=1, epoch=1, before=None,
        after="x", effect="y",
    )  # fmt: skip
    asked = requests.SourceRequest(destination=NAME, id="i", address="h:1", by="me", ts_ms=1)
    current = requests.Current(destination=NAME, address="h:1", server_uuid="s", why="w", ts_ms=1)
    applied = requests.Applied(
        destination=NAME,
        worker="w/1",
        address="",
        request=1,
        state="RUNNING",
        error=None,
        epoch=1,
        ts_ms=1,
    )
    recovery = requests.HistoryRecovery(destination=NAME, at="b:4", why="w", ts_ms=1)
    leader = Leader(destination=NAME, worker="w", address="", process="p", epoch=1, ts_ms=1)
    return {
        "installation": installation_key("0f3a"),
        "cursor": cursor_key(NAME),
        "schema": version_key(version),
        "checkpoint": checkpoint_key(NAME, 12, 0),
        "head": checkpoint_key(NAME, 12, "head"),
        "quarantine": quarantine_note(entry)[0],
        "resolution": quarantine_note(resolution)[0],
        "fp": FINGERPRINTS.key(NAME, "5"),
        "leader": leader_note(leader)[0],
        "control": requests.control_note(requests.Control(destination=NAME))[0],
        "skip": requests.skip_note(skip)[0],
        "asked": requests.source_note(asked)[0],
        "current": requests.source_note(current)[0],
        "intervention": requests.intervention_note(intervention)[0],
        "applied": requests.outcome_note(applied)[0],
        "recovery": requests.recovery_note(recovery)[0],
    }


def test_keys_are_written_as_they_always_were() -> None:
    assert keys() == {
        "installation": b"installation/0f3a",
        "cursor": f"cursor/{NAME}".encode(),
        "schema": f"schema/{QUOTED}/d%2Fb/t/3".encode(),
        "checkpoint": f"checkpoint/{QUOTED}/12/0".encode(),
        "head": f"checkpoint/{QUOTED}/12/head".encode(),
        "quarantine": f"quarantine/{QUOTED}/d%2Fb/t".encode(),
        "resolution": f"resolution/{QUOTED}/d%2Fb/t".encode(),
        "fp": f"fp/{QUOTED}/5".encode(),
        "leader": f"leader/{QUOTED}/claim".encode(),
        "control": f"control/{QUOTED}/wish".encode(),
        "skip": f"skip/{QUOTED}/u%3A7".encode(),
        "asked": f"source/{QUOTED}/asked".encode(),
        "current": f"source/{QUOTED}/current".encode(),
        "intervention": f"intervention/{QUOTED}/0f".encode(),
        "applied": f"applied/{QUOTED}/w%2F1".encode(),
        "recovery": f"recovery/{QUOTED}/last".encode(),
    }


def test_the_outcome_of_each_kind_of_record() -> None:
    folded = {kind.name for kind in KINDS if kind.part is not None}
    notified = {kind.name: kind.audience for kind in KINDS if kind.notice is not None}
    assert {kind.name for kind in KINDS} - folded == {"installation", "applied"}
    assert notified == {
        "cursor": Audience.DESTINATION,
        "resolution": Audience.DESTINATION,
        "source": Audience.DESTINATION,
        "control": Audience.WORKER,
        "applied": Audience.WORKER,
        "snapshot-request": Audience.DESTINATION,
    }
    assert [kind.name for kind in KINDS if not kind.is_checkpointed] == ["applied"]
    assert [kind.name for kind in KINDS if kind.is_plain] == ["installation", "cursor"]
    history = {"history", "baseline", "resolved", "checkpoint"}
    assert len({kind.part for kind in KINDS if kind.name in history}) == 1


def test_a_name_is_registered_once() -> None:
    again: Kind[Any] = Kind(name="control")
    with pytest.raises(ValueError, match="'control'"):
        Kinds((*KINDS, again))


@pytest.mark.parametrize(
    "key", [b"colour/shop/x", b"colour", b"cursor", b"cursors/shop", b"", b"\xff/shop"]
)
def test_a_record_of_no_registered_kind_changes_no_state_and_stays_in_the_checkpoint(
    key: bytes,
) -> None:
    record = StoredRecord(key, b'{"format":1}', 4)
    assert KINDS.of(key) is None
    state = fold("shop", [record])
    assert (state, state.unreadable) == (DestinationState("shop"), {})
    rows = MemoryCheckpoint()
    rows.fold(record)
    assert len(rows.rows) == 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.part], ids=lambda kind: kind.name)
def test_a_newer_version_of_any_kind_that_is_folded_is_refused_by_name(
    kind: Kind[Any],
) -> None:
    names = () if kind.is_plain else ("1", "head")
    key = kind.key("shop", *names)
    state = DestinationState.with_history_from("shop", OLDEST)
    state.apply(StoredRecord(key, orjson.dumps({"format": 2}), 7))
    with pytest.raises(JournalTooNew, match="format 2"):
        state.check_readable()
    assert state.unreadable[key].context["offset"] == 7


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.part], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "value", [b'{"format":1}', b'{"format":1,"before":[],"state":[],"action":{}}']
)
def test_a_record_of_any_kind_in_another_form_is_named_each_time_it_is_folded(
    kind: Kind[Any], value: bytes
) -> None:
    key = kind.key("shop", *(() if kind.is_plain else ("1", "head")))
    state = DestinationState.with_history_from("shop", OLDEST)
    # What lies between a checkpoint and the journal's records may be folded again.
    for _ in range(2):
        state.apply(StoredRecord(key, value, 7))
        with pytest.raises(JournalUnreadable, match="cannot be read") as caught:
            state.check_readable()
        assert caught.value.context.items() >= {"offset": 7, "key": key.decode()}.items()


def test_the_checkpoint_returns_the_records_of_one_kind_in_the_journals_order() -> None:
    rows = MemoryCheckpoint()
    for offset, name in enumerate(("b", "a")):
        rows.fold(StoredRecord(*requests.control_note(requests.Control(destination=name)), offset))
    rows.fold(StoredRecord(cursor_key("a"), b'{"format":1}', 9))
    found = records_of_kind(requests.CONTROL, rows)
    assert [requests.control_in(record).destination for record in found] == ["b", "a"]
