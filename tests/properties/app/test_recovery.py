"""Taking over from the journal: whatever was written, kept and lost, a run begins with the same state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.worker.destination.takeover.recovery import folded
from connectors.errors import HistoryTooShort
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import TableName
from tables.history import codec as history_fold
from tables.history.codec import (
    checkpoint_records,
    history_records,
    rewound_records,
)
from tables.history.history import SchemaHistory
from tables.history.record import SchemaRecord
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.history_retention import Retention
from tables.state.journal import state as journal
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.journal.state import DestinationState
from tests.properties.examples import examples
from tests.unit.tables.made import (
    LATIN,
    SERVER,
    SHOP,
    WrittenJournal,
    at,
    begun,
    between,
    offset,
    table,
)

MOST = examples(60)
PART_BYTES = 300
"""So small that each checkpoint has several parts, and a statement that changes several tables, too."""
EXPIRE_MS = 300
STEP = 100

STREAM = (
    "ALTER TABLE orders ADD c{n} INT",
    "ALTER TABLE log ADD c{n} INT",
    "CREATE TABLE t{n} (id INT)",
    "ALTER TABLE orders ADD odd{n} NO_SUCH_TYPE_AT_ALL",
    "CREATE TABLE IF NOT EXISTS log (id INT)",
    "DROP TABLE IF EXISTS log",
    "CREATE TABLE log (k INT)",
    "RENAME TABLE orders TO swapped, log TO orders, swapped TO log",
    "CREATE DATABASE d{n} CHARACTER SET latin1",
    "CREATE TABLE u{n} LIKE orders",
    "CREATE VIEW v{n} AS SELECT 1",
)
"""What comes, again and again; some of it makes tables unknown, and some of it is refused."""


@pytest.fixture(autouse=True, scope="module")
def few_wait() -> Iterator[None]:
    """Of the records that a later checkpoint may come to hold; so some are read in time, and some are not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_fold, "_UNREAD", 3)
        yield


def statement(number: int) -> str:
    return STREAM[(number * 7) % len(STREAM)].format(n=number)


def position_of(number: int) -> int:
    return 1000 + STEP * number


def present(history: SchemaHistory) -> tuple[Any, ...]:
    now = history.now()
    return (
        history.count,
        now.tables(),
        now.databases(),
        now.unresolved(),
        sorted(now.dropped()),
    )


class Worker:
    """What a worker writes, and a twin of its history that never forgets anything by a crash."""

    def __init__(self) -> None:
        self.journal = WrittenJournal()
        self.rows = MemoryCheckpoint()
        self.history = SchemaHistory()
        self.twin = begun("orders", "log", position=between(900))
        self.next = 0
        self.epoch = 1
        self.history.init("shop")
        tables = self.twin.now().tables()
        first = self.history.baseline(
            tables, self.twin.now().databases(), between(900), SERVER, made_ms=900
        )
        self.commit(self.parts(first))

    @staticmethod
    def parts(checkpoint: Any) -> list[Entry]:
        return checkpoint_records(checkpoint, limit=PART_BYTES)

    @property
    def position(self) -> int:
        """The cursor: after the last statement."""
        return position_of(self.next) - 1

    def commit(self, entries: list[Entry]) -> None:
        """A transaction: its records, and the cursor last."""
        cursor = Cursor(
            destination="shop",
            installation="i",
            epoch=self.epoch,
            seq=self.epoch,
            versions=0,
            offset=offset(self.position),
            history=self.history.count,
        )
        self.journal.write(
            [*entries, (journal.cursor_key("shop"), journal.encoded(cursor.to_json()))]
        )

    # --- what may happen -------------------------------------------------------------------------

    def proceed(self, more: int) -> None:
        """Some statements of the stream, in one transaction."""
        entries: list[Entry] = []
        for _ in range(1 + more % 3):
            sql, position = statement(self.next), at(position_of(self.next))
            record = self.history.apply(position, "shop", sql, SHOP)
            assert record == self.twin.apply(position, "shop", sql, SHOP)
            entries += history_records(record, limit=PART_BYTES) if record else []
            self.next += 1
        self.commit(entries)

    def checkpoint(self, _: int) -> None:
        made = self.history.checkpoint(between(self.position), made_ms=self.position)
        self.twin.checkpoint(between(self.position), made_ms=self.position)
        self.commit(self.parts(made))

    def checkpoint_broken_off(self, more: int) -> None:
        """Only some of its parts were written; the next one has another number all the same."""
        made = self.history.checkpoint(between(self.position), made_ms=self.position)
        parts = self.parts(made)
        self.journal.write(parts[: more % len(parts)])
        self.crash(more)

    def resolve(self, more: int) -> None:
        unresolved = sorted(self.history.now().unresolved().items())
        if not unresolved:
            return
        name, state = unresolved[more % len(unresolved)]
        try:
            records = self.history.resolve(name, table("given"), state.last)
        except HistoryTooShort:
            return
        self.twin.resolve(name, table("given"), state.last)
        self.commit(written(records))

    def widen(self, more: int) -> None:
        news: Mapping[TableName, Any] = {("wide", f"w{more}"): table("w")}
        records = self.history.add_baseline(news, {"wide": LATIN}, between(self.position))
        self.twin.add_baseline(news, {"wide": LATIN}, between(self.position))
        self.commit(written(records))

    def start_again(self, _: int) -> None:
        tables, databases = self.history.now().tables(), self.history.now().databases()
        made = self.history.baseline(tables, databases, between(self.position), SERVER)
        self.twin.baseline(tables, databases, between(self.position), SERVER)
        self.commit(self.parts(made))

    def go_back(self, more: int) -> None:
        """To any position that the journal still has; for that it is read from the oldest checkpoint on."""
        self.history = self.recovered(whole_history=True)
        number = more % (self.next + 1)
        asked = offset(position_of(number) - 1)
        try:
            rewound = self.history.rollback(asked)
        except HistoryTooShort:
            return
        self.twin.rollback(asked)
        self.next = number
        self.commit(rewound_records(rewound))

    def forget(self, _: int) -> None:
        retention = Retention("shop")
        for record in self.journal.records:
            retention.take(record)
        expired = retention.expired(EXPIRE_MS)
        if expired.checkpoint is not None and expired.entries:
            self.commit(expired.entries)

    def crash(self, more: int) -> None:
        """A new run: the tables' rows may lag, or lack anything."""
        for record in self.journal.records[: len(self.journal.records) - more % 7]:
            self.rows.fold(record)
        if more % 3 == 0:
            for key in [*self.rows.rows][more % 5 :: 4]:
                del self.rows.rows[key]
        self.epoch += 1
        self.history = self.recovered()

    # --- what is read again ----------------------------------------------------------------------

    def recovered(self, records: list[StoredRecord] | None = None, **how: bool) -> SchemaHistory:
        state = self.read(self.rows, self.journal.records if records is None else records, **how)
        assert state.is_whole()
        history = state.history()
        assert history is not None
        return history

    @staticmethod
    def read(rows: MemoryCheckpoint, records: list[StoredRecord], **how: bool) -> DestinationState:
        async def read(state: DestinationState, start: int) -> None:
            for record in records:
                if record.offset >= start:
                    state.apply(record)

        return asyncio.run(folded("shop", rows, read, **how))


def written(records: tuple[SchemaRecord, ...]) -> list[Entry]:
    return [entry for record in records for entry in history_records(record, limit=PART_BYTES)]


def test_a_definition_given_from_a_later_checkpoint_on_holds_from_an_earlier_one() -> None:
    worker = Worker()
    worker.proceed(2)
    worker.checkpoint(0)
    worker.proceed(1)
    worker.proceed(2)
    worker.checkpoint(0)
    worker.proceed(0)
    # The journal begins with the first of the two from now on, where the table is unresolved already.
    worker.forget(0)
    worker.crash(1)
    assert ("shop", "orders") in worker.history.now().unresolved()
    worker.resolve(sorted(worker.history.now().unresolved()).index(("shop", "orders")))
    worker.go_back(4)
    assert worker.history.now().unresolved() == {}
    assert present(worker.history) == present(worker.twin)


ACTS = (
    Worker.proceed,
    Worker.proceed,
    Worker.proceed,
    Worker.checkpoint,
    Worker.checkpoint_broken_off,
    Worker.resolve,
    Worker.widen,
    Worker.start_again,
    Worker.go_back,
    Worker.forget,
    Worker.crash,
)
acts = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 200)), min_size=6, max_size=30)


@settings(deadline=None, max_examples=MOST)
@given(acts=acts, data=st.data())
def test_rows_and_the_journals_tail_give_the_same_history_as_the_whole_journal(
    acts: list[tuple[Any, int]], data: st.DataObject
) -> None:
    worker = Worker()
    for act, more in acts:
        act(worker, more)
    expected = present(worker.twin)
    assert present(worker.history) == expected
    # Whatever rows there are, of whatever moment.
    for record in worker.journal.records[: data.draw(st.integers(0, len(worker.journal.records)))]:
        worker.rows.fold(record)
    for key in data.draw(
        st.lists(st.sampled_from(sorted(worker.rows.rows)), max_size=4)
        if worker.rows.rows
        else st.just([])
    ):
        worker.rows.rows.pop(key, None)
    assert present(worker.recovered()) == expected
    # Nothing but the journal; and the journal as a broker may leave it.
    last = {record.key: record.offset for record in worker.journal.records}
    less = [
        record
        for record in worker.journal.records
        if last[record.key] == record.offset or data.draw(st.booleans())
    ]
    worker.rows = MemoryCheckpoint()
    for records in (worker.journal.records, less):
        assert present(worker.recovered(records)) == expected
        assert present(worker.recovered(records, whole_history=True)) == expected


@settings(deadline=None, max_examples=MOST)
@given(acts=acts)
def test_every_place_that_is_kept_shows_what_it_showed(acts: list[tuple[Any, int]]) -> None:
    worker = Worker()
    for act, more in acts:
        act(worker, more)
    worker.rows = MemoryCheckpoint()
    whole = worker.recovered(whole_history=True)
    oldest = whole.checkpoints[0].position.start.pos
    for number in range(worker.next + 1):
        asked = offset(position_of(number) - 1)
        if asked.coordinates.pos < oldest:
            with pytest.raises(HistoryTooShort):
                whole.at(asked)
            continue
        assert whole.at(asked).tables() == worker.twin.at(asked).tables()
        assert whole.at(asked).unresolved() == worker.twin.at(asked).unresolved()
