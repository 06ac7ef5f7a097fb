"""The checkpoint in a Faust table: what its changelog holds is enough, at whatever point it is read."""

from __future__ import annotations

import asyncio
from collections import UserDict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal import faust_checkpoint
from tables.journal import state as journal
from tables.journal.checkpoint import resume_from
from tables.journal.faust_checkpoint import FaustCheckpoint
from tables.journal_format import Entry
from tables.quarantine import Quarantine, note_of
from tables.schema_history.codec.journal_records import checkpoint_records, gone_records
from tests.unit.tables.journal.test_rows import Written
from tests.unit.tables.made import ORDERS, between


class Table(UserDict[str, Any]):
    """A Faust table and its changelog, which may refuse what is sent."""

    changelog_topic_name = "changelog"

    def __init__(self) -> None:
        super().__init__()
        self.changelog: list[tuple[str, Any]] = []
        self.refused: set[str] = set()

    def send_changelog(self, partition: int, key: str, value: Any) -> asyncio.Future[None]:
        del partition
        sent: asyncio.Future[None] = _loop().create_future()
        if key in self.refused:
            sent.set_exception(OSError("no broker"))
        else:
            self.changelog.append((key, value))
            sent.set_result(None)
        return sent

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self.send_changelog(0, key, value)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self.send_changelog(0, key, None)

    def recovered(self, compacted: int, upto: int) -> Table:
        """Another worker's, which has read so much of the changelog, of which so much was compacted."""
        last = {key: at for at, (key, _) in enumerate(self.changelog)}
        table = Table()
        for at, (key, value) in enumerate(self.changelog[:upto]):
            if at < compacted and last[key] != at:
                continue
            if value is None:
                table.data.pop(key, None)
            else:
                table.data[key] = value
        return table


class App:
    """What a checkpoint asks of a Faust app."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def GlobalTable(self, *_: Any, **__: Any) -> Table:  # noqa: N802 - Faust's own
        return self._table


_LOOPS: list[asyncio.AbstractEventLoop] = []


def _loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        if not _LOOPS:
            _LOOPS.append(asyncio.new_event_loop())
        return _LOOPS[0]


@pytest.fixture(autouse=True, scope="module")
def loops_are_closed() -> Any:
    yield
    for loop in _LOOPS:
        loop.close()
    _LOOPS.clear()


def checkpoint_of(table: Table) -> FaustCheckpoint:
    return FaustCheckpoint(App(table), partitions=1)


def kept(table: Table, records: list[StoredRecord]) -> FaustCheckpoint:
    checkpoint = checkpoint_of(table)
    checkpoint.begin(0)
    for record in records:
        checkpoint.fold(record, 0)
    return checkpoint


def set_aside() -> list[Entry]:
    """A table that is quarantined."""
    quarantine = Quarantine()
    quarantine.destination = "shop"
    return [note_of(quarantine.add(ORDERS, "a test", between(120)))]


ACTS: tuple[Callable[[Written, int], Any], ...] = (
    lambda written, _: written.commit([]),
    lambda written, _: written.commit([]),
    lambda written, number: written.alter(200 + 100 * number),
    lambda written, number: written.checkpoint(201 + 100 * number),
    lambda written, _: written.commit(set_aside()),
    lambda written, _: written.commit(gone_records(heads=written.history.checkpoints[:-1])),
    lambda written, number: written.commit(
        checkpoint_records(written.history.checkpoint(between(150 + 100 * number), made_ms=0))
    ),
)


@settings(deadline=None, max_examples=150)
@given(acts=st.lists(st.sampled_from(ACTS), min_size=1, max_size=20), data=st.data())
def test_rows_that_are_read_before_they_have_recovered_give_the_same_state(
    acts: list[Callable[[Written, int], Any]], data: st.DataObject
) -> None:
    written = Written()
    for number, act in enumerate(acts):
        act(written, number)
    table = Table()
    kept(table, written.journal.records)
    end = len(table.changelog)
    compacted = data.draw(st.integers(0, end))
    rows = checkpoint_of(table.recovered(compacted, data.draw(st.integers(0, end))))
    state, start = resume_from("shop", rows)
    for record in written.journal.records:
        if record.offset >= start:
            state.apply(record)
    if not state.is_whole():
        # What `folded` does then.
        state = journal.fold("shop", written.journal.records)
    expected = journal.fold("shop", written.journal.records)
    assert state.cursor == expected.cursor
    assert state.quarantine.set_aside.keys() == expected.quarantine.set_aside.keys()
    history, wanted = state.history(), expected.history()
    assert history is not None
    assert wanted is not None
    assert history.now().tables() == wanted.now().tables()


def test_rows_that_were_not_folded_from_the_journals_beginning_are_none() -> None:
    written, table = Written(), Table()
    checkpoint = checkpoint_of(table)
    for record in written.journal.records[1:]:
        checkpoint.fold(record, 0)
    assert table.data
    assert checkpoint.rows == {}
    assert checkpoint.begin(0)
    for record in written.journal.records:
        checkpoint.fold(record, 0)
    assert resume_from("shop", checkpoint)[1] == written.journal.records[-1].offset + 1
    assert not checkpoint.begin(0)


def test_a_record_that_is_folded_again_brings_nothing_back_that_has_gone_since() -> None:
    written, table = Written(), Table()
    written.checkpoint(150)
    checkpoint = kept(table, written.journal.records)
    before = dict(table.data)
    # A worker was killed before Faust had committed how far it was.
    again = checkpoint_of(table.recovered(0, len(table.changelog)))
    assert not again.begin(0)
    for record in written.journal.records:
        again.fold(record, 0)
        assert again.rows == checkpoint.rows
    assert table.data == before


async def test_a_row_that_the_changelog_did_not_take_is_sent_again_with_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(faust_checkpoint, "_AGAIN_SECONDS", 0.0)
    written, table = Written(), Table()
    checkpoint = checkpoint_of(table)
    checkpoint.begin(0)
    table.refused = {"checkpoint/shop/1/head"}
    for record in written.journal.records:
        checkpoint.fold(record, 0)
    lost = checkpoint_of(table.recovered(0, len(table.changelog)))
    assert "checkpoint/shop/1/head" not in lost.rows
    for _ in range(10):
        await asyncio.sleep(0)
    table.refused = set()
    whole = checkpoint_of(Table())
    while "checkpoint/shop/1/head" not in whole.rows:
        await asyncio.sleep(0)
        whole = checkpoint_of(table.recovered(0, len(table.changelog)))
    assert whole.rows == checkpoint.rows
    first = next(at for at, one in enumerate(table.changelog) if one == ("begins/0", None))
    assert [key for key, _ in table.changelog[first:]].count("begins/0") >= 2
