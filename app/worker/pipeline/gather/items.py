"""The gathered items of a piece, in binlog order: rows, statements, and the ends of transactions.

Invariant: nothing here is numbered; a table's version is known only once its portion is numbered. Items up to
the end of the last whole transaction are kept; an error drops the rest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from app.worker.pipeline.gather.captured_tables import CapturedTable
from app.worker.pipeline.gather.undecodable_rows import DeadRows
from app.worker.pipeline.piece import Decision, GtidInterval, add_run
from connectors.errors import AqueductError
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.mariadb_events import plain_rows
from connectors.mysql.binlog.statement_kind import Kind
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.landmark import Landmark
from connectors.mysql.lookup.fingerprint import FingerprintWindow, RecentTransactions
from connectors.mysql.rows.compiled import Row
from connectors.mysql.rows.counter import row_boundaries
from connectors.mysql.rows.decoder import UPDATES
from tables.history.resolved_statement import ResolvedStatement
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion

SELECTED = -1
"""In place of an event's type, for rows that a SELECT returned."""
REMOVED = -2
"""In place of an event's type, for deletes of rows that subscribers have and the source does not."""
_UPDATES = frozenset(map(int, UPDATES))
"""Event types whose rows have two images, as plain numbers."""


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
    """The begin or the end of a replacement of all rows of a table."""

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
    """The routes of the captured tables whose rows it removes, where subscribers are informed of that."""
    resolved: ResolvedStatement | None
    """Its effect on tables, if a schema history is kept."""
    parks: tuple[tuple[str, str], ...]
    """The quarantined tables that it affects; it is parked with their rows."""
    is_published: bool
    """Whether it is published on the DDL topic."""
    parked: Query | None = None
    """The statement with its literals, for the quarantine, where ``query`` hides them."""
    replacement: Replacement | None = None
    """If it is no statement: rows that replace those of the emptied table follow, or all of them have come."""
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
        """The versions, from the statement on, of the published tables that it altered or renamed."""
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

    def after(self, count: int) -> ParkedRows:
        """Return the event without its first ``count`` rows; a compressed event is unpacked."""
        event_type, body = plain_rows(self.event_type, self.body)
        boundaries = row_boundaries(self.table_map, event_type, body)
        return self._replace(
            event_type=event_type,
            body=body[: boundaries[0]] + body[boundaries[count] :],
            ordinal=self.ordinal + count,
            rows=self.rows - count,
        )


class End(NamedTuple):
    """The end of a transaction."""

    transaction: Transaction


Item = Rows | Ddl | ParkedRows | DeadRows | End


class TableUse:
    """A table as used by rows of this piece, from its first rows on."""

    __slots__ = ("pos", "table", "transaction", "version")

    def __init__(self, table: CapturedTable, transaction: Transaction, pos: int) -> None:
        self.table = table
        self.transaction = transaction
        self.pos = pos
        self.version: TableVersion
        """Set when the portion is numbered."""


def values_of_rows(rows: list[Row], event_type: int) -> int:
    """Return the count of records with a value: one for each row, two for a row whose key changed."""
    if event_type not in _UPDATES:
        return len(rows)
    return len(rows) + sum([row[2] != row[3] for row in rows])


def values_of(item: Item) -> int:
    """Return the count of records with a value, without transaction markers."""
    if isinstance(item, Rows):
        return values_of_rows(item.rows, item.event_type)
    return item.values if isinstance(item, Ddl) else 0


class GtidRuns:
    """Collects GTIDs, in the order of the binlog, as runs of consecutive numbers.

    Invariant: a transaction costs one comparison here, as long as numbers are consecutive.
    """

    __slots__ = ("_first", "_runs", "last", "source")

    def __init__(self) -> None:
        self._runs: list[GtidInterval] = []
        self.source: str | None = None
        """The source part of the last GTID; None if the last transaction has none."""
        self._first = self.last = 0
        """The first and last number of the current run; a caller extends it by setting ``last``."""

    def add(self, source: str | None, number: int) -> None:
        """Add the GTID of a transaction; ``source`` is None if it has none."""
        if number != self.last + 1 or source != self.source:
            self._close()
            self.source, self._first = source, number
        self.last = number

    def found(self) -> list[GtidInterval]:
        """Return all runs."""
        self._close()
        return self._runs

    def _close(self) -> None:
        if self.source is not None:
            add_run(self._runs, (self.source, self._first, self.last))
        self.source = None


@dataclass(slots=True, kw_only=True, eq=False)
class Gathered:
    """Items and counts, from the first transaction to the last."""

    prints: FingerprintWindow | RecentTransactions | None = None
    """Digests transactions: all of them if they have no GTIDs, else only the last."""
    items: list[Item] = field(default_factory=list)
    uses: list[TableUse] = field(default_factory=list)
    """The tables in the order of their first rows."""
    first: Transaction | None = None
    """The first transaction with any item."""
    last: Transaction | None = None
    """The last transaction that ended."""
    ordinal: int = 0
    """Source rows so far of the open transaction, among these items."""
    values: int = 0
    """Records with a value, without transaction markers; ``seq`` grows by this."""
    end_pos: int | None = None
    """The end position of the last transaction, if one ended."""
    whole_items: int = 0
    """Count of items at that position."""
    whole_values: int = 0
    gtids: GtidRuns = field(default_factory=GtidRuns)
    """GTIDs of the transactions that ended."""
    decisions: list[Decision] = field(default_factory=list)
    """Decisions on XA transactions, in the order of the binlog."""
    filtered: Counter[int] = field(default_factory=Counter)
    """Rows events of tables that are not captured, by type."""
    given_up: Counter[int] = field(default_factory=Counter)
    """Rows events of tables that were given up, by type."""
    statements: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Statements that were skipped, by each table that they changed."""
    changed: dict[TableName, list[str] | None] = field(default_factory=dict)
    """The keys of changed rows of watched tables; None: any row may have changed."""
    open: Transaction | None = None
    """The transaction open at the end."""
    landmark: Landmark | None = None
    """The last transaction that ended, as it is in the chunk."""
    error: AqueductError | None = None
    """The error right after the last whole transaction, which ends the stream."""

    def end(self, transaction: Transaction, pos: int) -> None:
        """Record the end of a transaction."""
        runs, number = self.gtids, transaction.number
        if number == runs.last + 1 and transaction.source == runs.source:
            # Inlined, since small transactions are many and a call would cost more.
            runs.last = number
        else:
            runs.add(transaction.source, number)
        self.last = transaction
        self.end_pos, self.whole_items, self.whole_values = pos, len(self.items), self.values
        self.ordinal = 0

    def stop(self, error: AqueductError) -> None:
        """Keep the whole transactions before an error."""
        self.error = error
        del self.items[self.whole_items :]
        self.values = self.whole_values
        self.keep_used()

    def trim(self, skip: int) -> None:
        """Drop the first rows of the first transaction, which an earlier run has published."""
        kept: list[Item] = []
        for item in self.items:
            if item.transaction is self.first and not isinstance(item, End):
                published = skip - item.ordinal
                if isinstance(item, Rows) and 0 < published < len(item.rows):
                    item = item._replace(rows=item.rows[published:], ordinal=skip)
                elif isinstance(item, ParkedRows) and 0 < published < item.rows:
                    # Its table was quarantined after a part that ended within the event.
                    item = item.after(published)
                elif published > 0:
                    continue
            kept.append(item)
        self.whole_items = max(0, self.whole_items - (len(self.items) - len(kept)))
        self.items = kept
        self.values = sum(map(values_of, kept))
        self.keep_used()

    def keep_used(self) -> None:
        """Remove the tables of which no rows remain."""
        held = {id(item.use) for item in self.items if isinstance(item, Rows)}
        self.uses = [use for use in self.uses if id(use) in held]
