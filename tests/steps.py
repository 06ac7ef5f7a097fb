"""What a reader reports of chunks, recorded as steps that a test can look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from connectors.errors import AqueductError, UnsupportedEvent
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.mariadb_events import plain_rows
from connectors.mysql.binlog.statement_kind import Kind
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.transaction_reader import TransactionReader


@dataclass(frozen=True, slots=True)
class Rows:
    """A rows event, not yet decoded; ``query`` is the last statement whose text was read before it."""

    transaction: Transaction
    table_map: TableMap
    event_type: int
    body: bytes
    start: Coordinates
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that is DDL or TRUNCATE."""

    transaction: Transaction
    kind: Kind
    query: Query
    start: Coordinates


@dataclass(frozen=True, slots=True)
class Change:
    """A change of rows that is written as a statement."""

    transaction: Transaction
    query: Query


@dataclass(frozen=True, slots=True)
class Xa:
    """The state of an XA transaction: it was prepared, or decided."""

    transaction: Transaction
    xid: str
    is_prepared: bool


@dataclass(frozen=True, slots=True)
class End:
    """The end of a transaction."""

    transaction: Transaction
    end: Coordinates


Step = Rows | Statement | Change | Xa | End


class Recorded:
    """Records all that is reported to it, in order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._query: str | None = None

    def rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes, pos: int
    ) -> None:
        place = Coordinates(transaction.file, pos)
        event_type, body = plain_rows(event_type, body)
        self.steps.append(Rows(transaction, table_map, event_type, body, place, self._query))

    def query(self, text: str) -> None:
        self._query = text

    def statement(self, transaction: Transaction, kind: Kind, query: Query, pos: int) -> None:
        place = Coordinates(transaction.file, pos)
        self.steps.append(Statement(transaction, kind, query, place))

    def change(self, transaction: Transaction, query: Query) -> None:
        self.steps.append(Change(transaction, query))

    def savepoint(self, name: str) -> None:
        """Not recorded."""

    def undone(self, what: str, *, earlier: bool, savepoint: str | None = None) -> None:  # noqa: ARG002
        raise UnsupportedEvent(what)

    def undone_rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes
    ) -> None:
        """Not recorded."""

    def xa(self, transaction: Transaction, xid: str, *, is_prepared: bool) -> None:
        self.steps.append(Xa(transaction, xid, is_prepared))

    def end(self, transaction: Transaction, pos: int) -> None:
        self.steps.append(End(transaction, Coordinates(transaction.file, pos)))
        self._query = None


def steps_of(chunks: Iterable[Chunk], reader: TransactionReader) -> Iterator[Step]:
    """The steps of some chunks, in order; those before an error come before it."""
    for chunk in chunks:
        recorded = Recorded()
        try:
            reader.read(chunk, recorded)
        except AqueductError:
            yield from recorded.steps
            raise
        yield from recorded.steps
