"""The records rewritten by a journal repair, and their new contents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from app.operator import journal as journal_commands
from app.operator.journal import _Records, repair
from app.worker.destination.takeover.recovery import committed_state
from connectors.errors import JournalUnreadable
from connectors.kafka.reading import StoredRecord
from tables.history.codec import OLDEST
from tables.history.logical_schemas.decisions import (
    DECISIONS_PART,
    UNIT,
    Decision,
    Verb,
    note_of_decision,
)
from tables.journal_format import Entry
from tables.journal_kind import StatePart
from tables.state.journal import state as journal
from tables.state.journal.state import DestinationState, JournalPartition
from tables.state.merge_cursor import MERGE_PART, MergeCursor
from tables.state.merge_cursor import note_of as note_of_merge
from tables.state.quarantine import Quarantine, note_of
from tests.unit.tables.made import ORDERS, between
from tests.unit.tables.state.journal.test_rows import Written

CURSOR = journal.cursor_key("shop")


def found(records: list[StoredRecord]) -> _Records:
    one = _Records(DestinationState.with_history_from("shop", OLDEST))
    for record in records:
        one.take(record)
    return one


def test_each_is_written_again_as_the_last_one_of_its_key_that_can_be_read_the_cursor_last() -> (
    None
):
    written, quarantine = Written(), Quarantine()
    quarantine.destination = "shop"
    note = note_of(quarantine.add(ORDERS, "a test", between(120)))
    written.commit([note])
    end = written.journal.end
    newer = b'{"format":99}'
    bad = [StoredRecord(CURSOR, newer, end), StoredRecord(note[0], b"\xff", end + 1)]
    pairs = found([*written.journal.records, *bad]).pairs()
    assert [record for record, _ in pairs] == [bad[1], bad[0]]
    assert [good and good.value for _, good in pairs] == [
        note[1],
        written.journal.records[-1].value,
    ]


def test_what_a_later_record_of_the_key_replaces_needs_no_repair() -> None:
    written = Written()
    bad = StoredRecord(CURSOR, b"not json", 0)
    assert found([bad, *written.journal.records]).pairs() == []


def test_one_without_an_earlier_record_is_named_with_its_place() -> None:
    with pytest.raises(JournalUnreadable) as caught:
        found([StoredRecord(CURSOR, b"", 7)]).pairs()
    assert caught.value.context == {"destination": "shop", "offset": 7, "key": "cursor/shop"}


def test_those_of_other_destinations_are_none_of_ours() -> None:
    records = [StoredRecord(journal.cursor_key("shop-2"), b"not json", 7)]
    assert found(records).pairs() == []


async def test_a_destination_whose_records_can_all_be_read_keeps_its_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def taken_over(*_: Any, **__: Any) -> None:
        raise AssertionError("the leader is fenced")

    journal_of(monkeypatch, Written().journal.records)
    monkeypatch.setattr(journal_commands, "TransactionalProducer", taken_over)
    partition = JournalPartition(destination="shop", topic="j", number=2, options={})
    assert await repair(partition, worker="a", by="me", why="a test") == []


MERGED = MergeCursor(merge="merge.trade", topic="aq.s", offsets={"0": 9}, ts_ms=1)
DECIDED_ON = Decision(
    table=("trade", "orders"), id="d", verb=Verb.ACCEPT, by="ann", why="as is", ts_ms=1
)


@pytest.mark.parametrize(
    ("unit", "note", "part"),
    [
        ("merge.trade", note_of_merge(MERGED), MERGE_PART),
        (UNIT, note_of_decision(DECIDED_ON), DECISIONS_PART),
    ],
)
async def test_a_merge_and_logical_schemas_have_their_records_back(
    monkeypatch: pytest.MonkeyPatch, unit: str, note: Entry, part: StatePart[Any]
) -> None:
    records = [StoredRecord(*note, 0), StoredRecord(note[0], b"not json", 1)]
    journal_of(monkeypatch, records)
    partition = JournalPartition(destination=unit, topic="aq.__journal", number=2, options={})
    with pytest.raises(JournalUnreadable) as caught:
        await committed_state(partition)
    assert f"python -m app journal repair {unit} --why TEXT" in str(caught.value)
    assert f"destination={unit}, topic=aq.__journal, partition=2, " in str(caught.value)
    assert await repair(partition, worker="a", by="me", why="a test") == [(records[1], records[0])]
    state = await committed_state(partition)
    held, before = state.parts[part], journal.fold(unit, records[:1]).parts[part]
    # A decision has the offset of its record.
    assert str(held).replace("offset=3", "offset=0") == str(before)
    assert await repair(partition, worker="a", by="me", why="a test") == []


async def test_a_decision_without_an_earlier_record_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key, _ = note_of_decision(DECIDED_ON)
    records = [StoredRecord(key, b"not json", 0)]
    journal_of(monkeypatch, records)
    partition = JournalPartition(destination=UNIT, topic="aq.__journal", number=2, options={})
    assert await repair(partition, worker="a", by="me", why="a test") == [(records[0], None)]
    assert (await committed_state(partition)).parts[DECISIONS_PART].pending() == []


def journal_of(monkeypatch: pytest.MonkeyPatch, records: list[StoredRecord]) -> None:
    """These are the journal's, and those that a repair commits follow."""

    class Producer:
        def __init__(self, name: str, **_: Any) -> None:
            assert name.startswith("i.")

        async def init_transactions(self) -> None: ...
        async def discard(self) -> None: ...

        @asynccontextmanager
        async def transaction(self) -> AsyncIterator[Producer]:
            yield self

        async def send(
            self, _: str, *, key: bytes, value: bytes, partition: int
        ) -> asyncio.Future[SimpleNamespace]:
            assert partition == 2
            sent = asyncio.get_running_loop().create_future()
            sent.set_result(SimpleNamespace(offset=len(records)))
            records.append(StoredRecord(key, value, len(records)))
            return sent

    async def read(_: JournalPartition, take: Callable[[StoredRecord], object], **__: Any) -> None:
        for record in list(records):
            take(record)

    async def installation(*_: Any, **__: Any) -> str:
        return "i"

    monkeypatch.setattr(JournalPartition, "read", read)
    monkeypatch.setattr(journal_commands, "TransactionalProducer", Producer)
    monkeypatch.setattr(journal_commands, "installation_of", installation)
