"""The journal's checkpoint: the records that become rows, and the offset to resume from."""

from __future__ import annotations

import pytest

from connectors.errors import JournalUnreadable
from connectors.kafka.reading import StoredRecord
from tables.history.codec import checkpoint_records, history_records, tombstones
from tables.history.history import SchemaHistory
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.journal import state as journal
from tables.state.journal.checkpoint import MemoryCheckpoint, resume_from
from tables.state.journal.state import DestinationState
from tables.state.quarantine import Quarantine, note_of
from tests.unit.tables.made import (
    ORDERS,
    SERVER,
    UUID,
    WrittenJournal,
    applied,
    between,
    names_of,
    offset,
    table,
)


class Written:
    """A journal of a history, transaction by transaction."""

    def __init__(self) -> None:
        self.journal = WrittenJournal()
        self.rows = MemoryCheckpoint()
        self.history = SchemaHistory()
        self.history.init("shop")
        first = self.history.baseline({ORDERS: table()}, {}, between(100), SERVER)
        self.commit(checkpoint_records(first, limit=50))

    def commit(self, entries: list[Entry]) -> int:
        """The offset of the transaction's first record."""
        cursor = Cursor(
            destination="shop",
            installation="i",
            epoch=1,
            seq=len(self.journal.records),
            versions=0,
            offset=offset(100),
            history=self.history.count,
        )
        start = self.journal.end
        key = journal.cursor_key("shop")
        self.journal.write([*entries, (key, journal.encoded(cursor.to_json()))])
        return start

    def alter(self, pos: int) -> int:
        record = applied(self.history, pos, f"ALTER TABLE orders ADD c{pos} INT")
        return self.commit(history_records(record))

    def checkpoint(self, pos: int) -> int:
        made = self.history.checkpoint(between(pos), made_ms=0)
        return self.commit(checkpoint_records(made, limit=50))

    def keep(self, upto: int | None = None) -> None:
        """Let the rows be those of the journal up to an offset."""
        for record in self.journal.records:
            if upto is None or record.offset < upto:
                self.rows.fold(record)

    def kinds(self) -> set[str]:
        return {"/".join(key.split("/")[::2][:2]) for key in self.rows.rows}

    def resumed(self) -> tuple[DestinationState, int]:
        state, start = resume_from("shop", self.rows)
        for record in self.journal.records:
            if record.offset >= start:
                state.apply(record)
        return state, start


def test_the_newest_checkpoint_and_the_records_after_it_are_rows() -> None:
    written = Written()
    written.alter(200)
    written.keep()
    assert written.kinds() == {"cursor", "checkpoint/1", f"history/{UUID}"}


def test_rows_are_of_the_newest_checkpoint_alone_once_its_head_came() -> None:
    written = Written()
    written.alter(200)
    second = written.checkpoint(250)
    written.keep(upto=second + 1)
    assert written.kinds() == {"cursor", "checkpoint/1", "checkpoint/2", f"history/{UUID}"}
    written.keep()
    assert written.kinds() == {"cursor", "checkpoint/2"}


def test_the_fold_resumes_at_the_cursors_row_however_old_the_checkpoint_is() -> None:
    written = Written()
    for _ in range(50):
        last = written.commit([])
    written.keep()
    state, start = written.resumed()
    assert (start, state.is_whole()) == (last + 1, True)


def test_the_fold_resumes_at_the_cursors_row_though_statements_followed_the_checkpoint() -> None:
    written = Written()
    written.alter(200)
    for _ in range(50):
        last = written.commit([])
    written.keep()
    state, start = written.resumed()
    assert (start, state.is_whole()) == (last + 1, True)
    history = state.history()
    assert history is not None
    assert names_of(history.find(*ORDERS)) == ["id", "c200"]


def test_a_row_later_than_the_cursors_hides_nothing_between_the_two() -> None:
    """Rows of a checkpoint may be there before older rows of other kinds are."""
    written = Written()
    at_first = written.commit([])
    quarantine = Quarantine()
    quarantine.destination = "shop"
    written.commit([note_of(quarantine.add(ORDERS, "a test", between(120)))])
    written.checkpoint(150)
    for record in written.journal.records:
        if record.offset <= at_first or record.key.startswith(b"checkpoint/"):
            written.rows.fold(record)
    state, _ = written.resumed()
    assert set(state.quarantine.quarantined) == {ORDERS}


def test_an_older_checkpoint_stays_while_the_newer_one_lacks_a_part() -> None:
    written = Written()
    second = written.checkpoint(250)
    for record in written.journal.records:
        if record.offset != second:
            written.rows.fold(record)
    assert written.kinds() == {"cursor", "checkpoint/1", "checkpoint/2"}
    state, start = written.resumed()
    assert state.is_whole()
    assert start == 0


def test_what_is_gone_is_no_row() -> None:
    written = Written()
    written.checkpoint(250)
    head = written.history.checkpoints[-1]
    written.commit(tombstones(heads=[head]))
    written.keep()
    assert "checkpoint/shop/2/head" not in written.rows.rows


def test_without_all_rows_of_the_history_the_fold_begins_at_the_newest_checkpoints_first_part() -> (
    None
):
    written = Written()
    written.alter(200)
    first_part = written.checkpoint(250)
    for pos in (300, 400):
        written.alter(pos)
    written.keep()
    for key in [*written.rows.rows]:
        if key.startswith("history/"):
            del written.rows.rows[key]
    state, start = resume_from("shop", written.rows)
    # The cursor's own row is later by far, but records of the history stand before it.
    assert start == first_part
    assert not state.is_whole()
    state, _ = written.resumed()
    assert state.is_whole()
    history = state.history()
    assert history is not None
    assert names_of(history.find(*ORDERS)) == ["id", "c200", "c300", "c400"]


def test_a_checkpoint_whose_parts_went_with_earlier_transactions_is_whole_all_the_same() -> None:
    written = Written()
    made = written.history.checkpoint(between(150), made_ms=0)
    *parts, head = checkpoint_records(made, limit=50)
    first_part = written.commit(parts)
    written.alter(200)
    written.commit([head])
    last = written.alter(300) + 1
    written.keep()
    state, start = written.resumed()
    assert (start, state.is_whole()) == (last + 1, True)
    assert first_part < start


def test_rows_without_the_cursors_checkpoint_are_thrown_away() -> None:
    written = Written()
    written.keep()
    del written.rows.rows["checkpoint/shop/1/head"]
    assert resume_from("shop", written.rows) == (DestinationState("shop"), 0)


def test_rows_of_a_checkpoint_past_the_cursors_row_are_not_used() -> None:
    written = Written()
    written.alter(200)
    written.keep()
    old = written.rows.rows[journal.cursor_key("shop").decode()]
    written.alter(300)
    written.checkpoint(350)
    written.keep()
    written.rows.rows[journal.cursor_key("shop").decode()] = old
    assert resume_from("shop", written.rows) == (DestinationState("shop"), 0)


def test_a_cursor_from_before_there_was_a_history_continues_as_ever() -> None:
    rows = MemoryCheckpoint()
    old = Cursor(
        destination="shop", installation="i", epoch=1, seq=1, versions=0, offset=offset(100)
    )
    value = old.to_json()
    del value["history"], value["check"]
    rows.fold(StoredRecord(journal.cursor_key("shop"), journal.encoded(value), 7))
    state, start = resume_from("shop", rows)
    assert (state.cursor, start, state.is_whole(), state.history()) == (old, 8, True, None)


def test_a_history_without_one_of_its_records_is_not_whole() -> None:
    written = Written()
    lost = written.alter(200)
    written.alter(300)
    state = DestinationState("shop")
    for record in written.journal.records:
        if record.offset != lost:
            state.apply(record)
    assert not state.is_whole()
    assert "counts 2 records of the schema history" in state.lack()


def test_what_else_the_journal_says_stays_when_the_history_was_taken_out() -> None:
    written = Written()
    written.keep()
    state, _ = written.resumed()
    quarantine = state.quarantine
    history = state.history()
    assert history is not None
    assert state.history() is history
    assert state.quarantine is quarantine
    assert state.is_whole()


def test_rows_of_other_destinations_are_none_of_ours() -> None:
    written = Written()
    written.keep()
    assert resume_from("shop-2", written.rows) == (DestinationState("shop-2"), 0)


def test_a_part_that_is_too_large_for_a_row_is_left_to_the_journal() -> None:
    written = Written()
    wide = table(*(f"a_column_with_a_rather_long_name_{number:05}" for number in range(9000)))
    anew = written.history.baseline({ORDERS: wide}, {}, between(200), SERVER)
    written.commit(checkpoint_records(anew))
    written.keep()
    assert "checkpoint/shop/2/0" not in written.rows.rows
    state, start = written.resumed()
    assert (start, state.is_whole()) == (0, True)


@pytest.mark.parametrize("value", [b"not json", b"\xff\xfe", b"[]", b""])
@pytest.mark.parametrize("key", ["cursor/shop", "quarantine/shop/shop/t", "checkpoint/shop/9/head"])
def test_a_record_that_cannot_be_read_is_a_row_that_its_destination_alone_refuses(
    key: str, value: bytes
) -> None:
    written = Written()
    written.journal.write([(key.encode(), value)])
    offset_of_it = written.journal.end - 3
    if key != "cursor/shop":
        written.commit([])
    written.keep()
    state, _ = written.resumed()
    with pytest.raises(JournalUnreadable) as caught:
        state.check_readable()
    assert caught.value.context["offset"] == offset_of_it
    other, _ = resume_from("shop-2", written.rows)
    other.check_readable()
