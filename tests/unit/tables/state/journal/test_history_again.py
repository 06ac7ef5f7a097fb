"""A schema history that begins again in a journal with an older one, whole or damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from connectors.errors import JournalTooNew, JournalUnreadable
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import Table
from tables.history.codec import (
    NEWEST,
    OLDEST,
    checkpoint_key,
    checkpoint_records,
    history_records,
    record_key,
)
from tables.history.history import SchemaHistory
from tables.history.record import Given, SchemaCheckpoint
from tables.journal_format import Entry, tombstone
from tables.state.cursor import Cursor
from tables.state.history_retention import Retention
from tables.state.journal.checkpoint import MemoryCheckpoint, resume_from
from tables.state.journal.state import DestinationState, cursor_key, encoded
from tables.state.operator_requests import RECOVERY_PART, HistoryRecovery, recovery_note
from tests.unit.tables.made import (
    ORDERS,
    SERVER,
    SHOP,
    UTF8,
    WrittenJournal,
    applied,
    at,
    between,
    names_of,
    offset,
    table,
)

GIVEN = Given(by="anna", ts_ms=1, source="server")
BASES = pytest.mark.parametrize("base", [NEWEST, OLDEST])


class Past:
    """A journal with a history: a baseline, statements, and a checkpoint after the second of them."""

    def __init__(self, statements: int = 3) -> None:
        self.written, self.rows = WrittenJournal(), MemoryCheckpoint()
        self.history = SchemaHistory()
        self.history.init("shop")
        self.begin(self.history, {"orders": table()})
        for number in range(1, statements + 1):
            self.alter(self.history, 100 + 100 * number, f"old{number}")
            if number == 2:
                made = self.history.checkpoint(between(350), made_ms=0)
                self.write(checkpoint_records(made))

    def begin(self, history: SchemaHistory, tables: dict[str, Table], pos: int = 100) -> None:
        found = {("shop", name): one for name, one in tables.items()}
        made = history.baseline(found, {"shop": UTF8}, between(pos), SERVER)
        self.write(checkpoint_records(made), count=history.count)

    def alter(self, history: SchemaHistory, pos: int, column: str) -> None:
        record = applied(history, pos, f"ALTER TABLE orders ADD {column} INT")
        self.write(history_records(record), count=history.count)

    def write(
        self, entries: Iterable[Entry], *, count: int | None = None, is_folded: bool = True
    ) -> None:
        """One transaction, with a cursor."""
        count = self.history.count if count is None else count
        cursor = Cursor(
            destination="shop", installation="i", epoch=1, seq=1, versions=0, offset=offset(900),
            history=count,
        )  # fmt: skip
        begin = len(self.written.records)
        self.written.write([*entries, (cursor_key("shop"), encoded(cursor.to_json()))])
        for record in self.written.records[begin:] if is_folded else ():
            self.rows.fold(record)

    def state(self, base: int = NEWEST) -> DestinationState:
        state = DestinationState.with_history_from("shop", base)
        for record in self.written.compacted():
            state.apply(record)
        return state

    def again(self) -> DestinationState:
        """The state with which the history begins again."""
        state = self.state(OLDEST)
        state.begin_history_again()
        return state


def begun_again(past: Past, *, is_folded: bool = True) -> SchemaHistory:
    """Begin the history again as a run does, in one transaction."""
    state = past.again()
    state.check_readable()
    history = state.history()
    assert history is not None
    assert not history.has_begun
    made = history.baseline({ORDERS: table("new")}, {"shop": UTF8}, between(900), SERVER, made_ms=0)
    notes = [*map(tombstone, state.removed), *checkpoint_records(made)]
    past.write(notes, count=history.count, is_folded=is_folded)
    return history


def present(state: DestinationState) -> list[str]:
    state.check_readable()
    assert state.is_whole()
    history = state.history()
    assert history is not None
    return names_of(history.find(*ORDERS))


@BASES
def test_a_history_that_begins_again_is_never_mixed_with_the_one_before(base: int) -> None:
    past = Past(statements=6)
    history = begun_again(past)
    assert present(past.state(base)) == ["id", "new"]
    # Nor later, when it has as many steps as the first one had.
    for number in range(1, 8):
        past.alter(history, 900 + 100 * number, f"new{number}")
        expected = ["id", "new", *(f"new{one}" for one in range(1, number + 1))]
        assert present(past.state(base)) == expected
    assert present(resume_from("shop", past.rows)[0]) == expected


@BASES
def test_steps_after_the_cursor_are_not_those_of_the_new_history(base: int) -> None:
    past = Past()
    later = at(700)
    record = past.history.apply(later, "shop", "ALTER TABLE orders ADD never INT", SHOP)
    assert record is not None
    past.write(history_records(record), count=record.number - 1)
    history = begun_again(past)
    assert present(past.state(base)) == ["id", "new"]
    past.alter(history, 1000, "c")
    assert present(past.state(base)) == ["id", "new", "c"]


@BASES
def test_without_a_history_the_next_one_continues_the_numbers_of_checkpoints(base: int) -> None:
    past = Past(statements=6)
    # No history was kept for a while, so the cursor counts none.
    none = Cursor(
        destination="shop", installation="i", epoch=1, seq=1, versions=0, offset=offset(900)
    )
    past.written.write([(cursor_key("shop"), encoded(none.to_json()))])
    state = past.state()
    assert state.history() is None
    history = state.new_history()
    made = history.baseline({ORDERS: table("new")}, {"shop": UTF8}, between(900), SERVER, made_ms=0)
    past.write(checkpoint_records(made), count=history.count)
    names = ["id", "new"]
    for number in range(1, 4):
        past.alter(history, 900 + 100 * number, f"new{number}")
        names.append(f"new{number}")
        assert present(past.state(base)) == names


def statement_key(past: Past) -> bytes:
    return record_key(past.history.records[2])


DAMAGE: dict[str, Callable[[Past], bytes]] = {
    "statement": statement_key,
    "head": lambda _: checkpoint_key("shop", 2, "head"),
    "stray": lambda _: b"checkpoint/shop/one/head",
    "short": lambda _: b"checkpoint/shop/7",
    "other": lambda _: b"history/shop/x",
}


@pytest.mark.parametrize("value", [b"", b"not json", b'{"format":1}', b'{"format":1,"number":3}'])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_of_the_history_stops_a_start_until_it_begins_again(
    damage: str, value: bytes
) -> None:
    past = Past()
    key = DAMAGE[damage](past)
    past.write([(key, value)])
    for base in (NEWEST, OLDEST):
        state = past.state(base)
        state.is_whole()
        with pytest.raises(JournalUnreadable) as caught:
            state.check_readable()
        assert caught.value.context["key"] == key.decode()
    # Faust's table does not have these records yet.
    begun_again(past, is_folded=False)
    for base in (NEWEST, OLDEST):
        assert present(past.state(base)) == ["id", "new"]
    state, start = resume_from("shop", past.rows)
    for record in past.written.records:
        if record.offset >= start:
            state.apply(record)
    assert present(state) == ["id", "new"]
    # What may be forgotten is found again too, and the rows are left by what replaces them.
    retention = Retention("shop")
    for record in past.written.records:
        retention.take(record)
    retention.expired(0)
    for record in past.written.records:
        past.rows.fold(record)
    assert key.decode() not in past.rows.rows


def test_damage_of_all_else_and_a_newer_format_are_damage_still() -> None:
    past = Past()
    past.write([(statement_key(past), b'{"format":99}')])
    with pytest.raises(JournalTooNew, match="format 99"):
        past.again().check_readable()
    past = Past()
    past.write([(b"quarantine/shop/shop/orders", b"{}")])
    with pytest.raises(JournalUnreadable):
        past.again().check_readable()


def test_content_of_a_checkpoint_that_cannot_be_read_is_an_error_with_its_key() -> None:
    past = Past(statements=0)
    key = checkpoint_key("shop", 1, 0)
    wrong = (
        b'{"format":1,"checkpoint":1,"part":0,"items":[["table",["shop","orders"],["no table",1]]]}'
    )
    past.written.write([(key, wrong)])
    state = past.state()
    assert state.is_whole()
    with pytest.raises(JournalUnreadable, match="a checkpoint of the schema history") as caught:
        state.history()
    assert caught.value.context["key"] == "checkpoint/shop/1/head"
    past.written.write([(key, b"not json" * 20)])
    with pytest.raises(JournalUnreadable) as caught:
        past.state().history()
    assert caught.value.context["key"] == key.decode()
    begun_again(past)
    for base in (NEWEST, OLDEST):
        assert present(past.state(base)) == ["id", "new"]


def test_damage_that_a_checkpoint_replaces_is_none() -> None:
    past = Past(statements=1)
    past.write([(record_key(past.history.records[0]), b'{"format":1,"number":1,"ts_ms":1}')])
    state = past.state()
    assert not state.is_whole()
    made = past.history.checkpoint(between(350), made_ms=0)
    for key, value in checkpoint_records(made):
        state.apply(StoredRecord(key, value, past.written.end))
    assert present(state) == ["id", "old1"]


def test_definitions_that_were_given_for_the_old_history_are_not_met_again() -> None:
    past = Past()
    # It is for a position that is still to be read: the cursor is before it.
    given = past.history.resolve(ORDERS, table("wrong"), at(400), GIVEN)
    for record in given:
        past.write(history_records(record), count=past.history.count)
    state = past.again()
    assert [record_key(record) for record in given] == list(state.removed)
    history = begun_again(past)
    read = past.state().history()
    assert read is not None
    for one in (history, read):
        made = one.checkpoint(between(950), made_ms=0)
        assert isinstance(made, SchemaCheckpoint)
        assert made.given == ()


def test_the_last_recovery_is_in_the_journal() -> None:
    past = Past()
    assert past.state().parts[RECOVERY_PART].last is None
    first = HistoryRecovery(destination="shop", at="b.000001:4", why="w", ts_ms=1)
    past.write([recovery_note(first)])
    assert past.state().parts[RECOVERY_PART].last == first
    past.write([(b"recovery/shop/last", b'{"format":1}')])
    with pytest.raises(JournalUnreadable):
        past.state().check_readable()
    with pytest.raises(JournalUnreadable):
        past.again().check_readable()
