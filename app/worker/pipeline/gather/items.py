"""The items of a portion, in binlog order: rows, statements, and the ends of transactions.

Invariant: nothing here is numbered; a table's version is known only once its portion is numbered.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from app.worker.pipeline.gather.captured_tables import CapturedTable
from app.worker.pipeline.gather.undecodable_rows import DeadRows
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.statement_kind import Kind
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.rows.compiled.generate import Row
from tables.history.resolved_statement import ResolvedStatement
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion

SELECTED = -1
"""In place of an event's type: of rows that a SELECT returned."""
REMOVED = -2
"""The same: of rows that a SELECT did not return, and that subscribers have."""
ValuesOf = Callable[[list[Row], int], int]
"""Returns the count of records with a value that the rows of an event of this type make."""


class Rows(NamedTuple):
    """The rows of one event."""

    transaction: Transaction
    use: TableUse
    rows: list[Row]
    event_type: int
    pos: int
    ordinal: int
    """The first row's ordinal among the transaction's source rows in this piece."""
    query: str | None


class Replacement(Enum):
    """A point of the replacement of all rows of a table."""

    BEGINS = "begins"
    ENDS = "ends"


class AlteredTable:
    """A captured table after a statement that altered or renamed it."""

    __slots__ = ("number", "table", "was")

    def __init__(self, table: CapturedTable, was: TableName) -> None:
        self.table = table
        self.was = was
        """Its name before the statement."""
        self.number: int | None = None
        """Its version from the statement on, set when the portion is numbered; None if no row of it was
        published."""


class Ddl(NamedTuple):
    """A statement."""

    transaction: Transaction
    kind: Kind
    query: Query
    pos: int
    ordinal: int
    emptied: tuple[Route, ...]
    """The routes of the captured tables of which it removes all rows, as subscribers are to see."""
    resolved: ResolvedStatement | None
    """Its effect on tables, if a schema history is kept."""
    parks: tuple[tuple[str, str], ...]
    """The quarantined tables that it affects; it is parked with their rows."""
    is_published: bool
    """Whether it is published on the DDL topic."""
    parked: Query | None = None
    """The statement with its literals, for the quarantine, where ``query`` hides them."""
    replacement: Replacement | None = None
    """Of no statement: rows of the emptied table follow that are to replace those before, or all have come."""
    altered: tuple[AlteredTable, ...] = ()
    """The captured tables that it altered or renamed."""

    @property
    def values(self) -> int:
        """Count of its records with a value."""
        if self.replacement is Replacement.ENDS:
            return 0
        return int(self.is_published) + len(self.emptied)

    @property
    def versions(self) -> dict[TableName, int]:
        """The versions from it on of the tables that it altered or renamed, as far as they are published."""
        return {one.table.name: one.number for one in self.altered if one.number is not None}


class ParkedRows(NamedTuple):
    """The rows of one event of a quarantined table, not decoded."""

    transaction: Transaction
    name: tuple[str, str]
    table_map: TableMap
    event_type: int
    body: bytes
    pos: int
    ordinal: int
    rows: int
    """Count of rows."""
    query: str | None


class End(NamedTuple):
    """The end of a transaction."""

    transaction: Transaction


Item = Rows | Ddl | ParkedRows | DeadRows | End


class TableUse:
    """A table as used by rows of this piece, from its first rows on."""

    __slots__ = ("pos", "table", "transaction", "values_of", "version")

    def __init__(
        self, table: CapturedTable, transaction: Transaction, pos: int, *, values_of: ValuesOf
    ) -> None:
        self.table = table
        self.transaction = transaction
        self.pos = pos
        self.values_of = values_of
        self.version: TableVersion
        """Set when the portion is numbered."""


def values_of(item: Item) -> int:
    """Return the count of records with a value, without transaction markers."""
    if isinstance(item, Rows):
        return item.use.values_of(item.rows, item.event_type)
    return item.values if isinstance(item, Ddl) else 0
