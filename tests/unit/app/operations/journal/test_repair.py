"""The records rewritten by a journal repair, and their new contents."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.operations.journal import repair as journal_repair
from app.operations.journal.repair import _Records, repair
from app.operations.journal_access import Journal
from connectors.errors import JournalUnreadable
from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal import state as journal
from tables.journal.partition import JournalPartition
from tables.journal.state import DestinationState
from tables.quarantine import Quarantine, note_of
from tables.schema_history.codec.fold import OLDEST
from tests.unit.tables.journal.test_rows import Written
from tests.unit.tables.made import ORDERS, between

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
    assert [good.value for _, good in pairs] == [note[1], written.journal.records[-1].value]


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
    async def read(_: JournalPartition, take: Callable[[StoredRecord], None]) -> None:
        for record in Written().journal.records:
            take(record)

    def taken_over(*_: Any, **__: Any) -> None:
        raise AssertionError("the leader is fenced")

    monkeypatch.setattr(JournalPartition, "read", read)
    monkeypatch.setattr(journal_repair, "TransactionalProducer", taken_over)
    partition = JournalPartition(destination="shop", topic="j", number=2, options={})
    plan = SimpleNamespace(name="shop", worker="a", journal=partition)
    journal_of = SimpleNamespace(plan=plan, options={}, topic="j", partition=2)
    assert await repair(cast(Journal, journal_of), by="me", why="a test") == ()
