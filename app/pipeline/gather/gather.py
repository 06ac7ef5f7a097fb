"""The first step of a decoder: what happens in a chunk, decoded and in order, but not yet numbered.

The law: nothing of another chunk is needed here. Rows of tables that nobody subscribes to are only counted, and
that only where a published row behind them needs its ordinal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from app.pipeline.gather.captured_tables import DroppedTable, ParkedTable, TableBook
from app.pipeline.gather.items import Ddl, End, Item, ParkedRows, Rows, Use, ValuesOf
from app.pipeline.gather.statement_changes import Passing, passed
from app.pipeline.gather.undecodable_rows import DeadRows, refused, sifted
from app.pipeline.piece import Decision, Run, add_run
from app.pipeline.rules import Rules
from app.pipeline.statement_effect import Applied
from connectors.errors import AqueductError, MalformedEvent, RowUnreadable, UnsupportedEvent
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import EventType, Query
from connectors.mysql.binlog.mariadb_events import FIRST_COMPRESSED_ROWS, plain_rows
from connectors.mysql.binlog.statement_kind import Kind, statement_type, truncated_table
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.lookup.fingerprint.fingerprint import Prints
from connectors.mysql.lookup.fingerprint.recent import Recents
from connectors.mysql.rows.compiled.generate import Row
from connectors.mysql.stream.prepared_xa import PreparedAt

_tuple = tuple.__new__

_ENVELOPE = 450
"""Bytes of a record beside its images, about: of small rows it is most of what is sent."""


class Gathering:
    """Takes note of what a chunk tells, for one chunk."""

    def __init__(
        self,
        tables: TableBook,
        rules: Rules,
        values_of: Callable[[str], ValuesOf],
        applied: Applied | None = None,
        prints: Prints | Recents | None = None,
        passing: Passing | None = None,
    ) -> None:
        """``values_of``: what counts the records of rows, by the name of their format."""
        self._values_of = values_of
        self.prints = prints
        """Digests transactions: all of them, where there are no GTIDs, or the last ones."""
        self._tables = tables
        self._rules = rules
        self._applied = applied
        """What the statement did with which the chunk ends."""
        self._parked: ParkedTable | None = None
        """What ``_map`` describes, if it is set aside."""
        self._is_given_up = False
        """Whether ``_map`` describes a table that was given up."""
        self._passed: list[tuple[TableMap, int, bytes]] = []
        self._map: TableMap | None = None
        self._use: Use | None = None
        """What ``_map`` describes; None where it is not captured."""
        self._query: str | None = None
        self.dead = 0
        """Rows that cannot be decoded."""
        self._passing = passing
        self.error: AqueductError | None = None
        self._begin()

    def _begin(self) -> None:
        """Have gathered nothing yet."""
        self._uses: dict[tuple[str, str], Use] = {}
        self.items: list[Item] = []
        self.uses: list[Use] = []
        """The tables in the order in which their rows first come."""
        self.first: Transaction | None = None
        """The first transaction of which anything was told."""
        self.ordinal = 0
        """Source rows so far of the transaction that is open, in this chunk."""
        self.values = 0
        """Records with a value, borders apart: what ``seq`` grows by."""
        self._run: tuple[str | None, int] = (None, 0)
        """What the last GTID begins with, and the first number of those that end with it without a gap."""
        self._last = 0
        self._runs: list[Run] = []
        self.decisions: list[Decision] = []
        """Of XA transactions, in the order of the binlog."""
        self.end_pos: int | None = None
        """Where the last transaction ended, if one did."""
        self.whole_items = 0
        """How many items there were then."""
        self.whole_values = 0
        self.last: Transaction | None = None
        self.filtered: Counter[int] = Counter()
        """Rows events of tables that are not captured, by type."""
        self.given_up: Counter[int] = Counter()
        """Rows events of tables that were given up, by type."""
        self.statements: Counter[tuple[str, str]] = Counter()
        """Statements that were passed by, by each table that they changed."""

    def rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes, pos: int
    ) -> None:
        """Decode the rows of an event, or note that they are nobody's."""
        if self.prints is not None:
            self.prints.rows(table_map, event_type, body)
        if table_map is not self._map:
            self._meet(table_map, transaction, pos)
        use = self._use
        if use is None:
            if self._parked is not None:
                self._park(transaction, table_map, event_type, body, pos)
                return
            self._passed.append((table_map, event_type, body))
            (self.given_up if self._is_given_up else self.filtered)[event_type] += 1
            return
        if self._passed:
            self.count_passed()
        if event_type >= FIRST_COMPRESSED_ROWS:
            event_type, body = plain_rows(event_type, body)
        try:
            rows = use.table.rows(event_type, body)
        except (MalformedEvent, RowUnreadable) as error:
            if isinstance(error, RowUnreadable) and not self._rules.poison_limit:
                raise
            name, query = use.table.name, self._query
            dead = DeadRows(transaction, name, table_map, event_type, body, "", pos, 0, query, "")
            self._sift(dead, error)
            return
        self._keep(transaction, rows, event_type, pos)

    def _keep(self, transaction: Transaction, rows: list[Row], event_type: int, pos: int) -> None:
        """Add rows of the table that ``_use`` is of."""
        assert self._use is not None
        # A named tuple's own constructor costs more than all else here.
        self.items.append(
            _tuple(Rows, (transaction, self._use, rows, event_type, pos, self.ordinal, self._query))
        )
        self.ordinal += len(rows)
        self.values += self._use.values_of(rows, event_type)

    def _sift(self, dead: DeadRows, error: AqueductError) -> None:
        """Take the rows of an event of which some cannot be decoded, as far as the settings allow that."""
        assert self._use is not None
        limit, row = self._rules.poison_limit, 0
        transaction, kind, pos = dead.transaction, dead.event_type, dead.pos
        for part in sifted(self._use.table.rows, dead, error):
            if part.rows:
                self._keep(transaction, part.rows, kind, pos)
            else:
                self.dead += 1
                if self.dead > limit:
                    raise refused(part, error, limit=limit, row=row)
                self.items.append(part.of(dead, self.ordinal))
                self.ordinal += part.size
            row += part.size

    def _meet(self, table_map: TableMap, transaction: Transaction, pos: int) -> None:
        if self.first is None:
            self.first = transaction
        self._map = self._use = self._parked = None
        table = self._tables.of(table_map)
        self._map, self._is_given_up = table_map, isinstance(table, DroppedTable)
        if table is None or isinstance(table, DroppedTable):
            return
        if isinstance(table, ParkedTable):
            self._parked = table
            return
        use = self._uses.get(table.name)
        if use is None or use.table is not table:
            count = self._values_of(table.route.format)
            use = self._uses[table.name] = Use(table, transaction, pos, values_of=count)
            self.uses.append(use)
        self._use = use

    def _park(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes, pos: int
    ) -> None:
        """Keep the rows of a table that is set aside as they are; they have their ordinals all the same."""
        self.count_passed()
        count = self._tables.count(table_map, event_type, body)
        event = (table_map.database, table_map.table), table_map, event_type, body, pos
        self.items.append(ParkedRows(transaction, *event, self.ordinal, count, self._query))
        self.ordinal += count

    def query(self, text: str) -> None:
        """The statement whose rows follow."""
        if self._rules.statements:
            self._query = text

    def statement(self, transaction: Transaction, kind: Kind, query: Query, pos: int) -> None:
        """Note a statement, and which captured table it empties."""
        if self.first is None:
            self.first = transaction
        if self.prints is not None:
            self.prints.statement(query)
        self.count_passed()
        truncated = None
        if kind is Kind.TRUNCATE:
            name = self._emptied() or truncated_table(query.sql, query.database)
            if name is None:
                raise UnsupportedEvent("a TRUNCATE statement whose table cannot be determined")
            truncated = None if self._tables.is_given_up(name) else self._tables.route(name)
        applied = self._applied
        emptied = truncated.table if truncated is not None else None
        parks = self._tables.set_aside(applied.record if applied else None, emptied)
        if emptied in parks:
            truncated = None
        told = self._rules.tells(statement_type(query.sql)) and not (applied and applied.is_noise)
        item = Ddl(transaction, kind, query, pos, self.ordinal, truncated, applied, parks, told)
        self.items.append(item)
        self.values += item.values

    def _emptied(self) -> tuple[str, str] | None:
        """The table that the history found emptied, by the name that its rows have."""
        applied = self._applied
        return applied.emptied[0] if applied is not None and applied.emptied else None

    def change(self, transaction: Transaction, query: Query) -> None:
        """Pass by a change that is written as a statement, where no captured table changed."""
        if self.first is None:
            self.first = transaction
        self.statements.update(passed(self._passing, query))
        self.filtered[EventType.QUERY] += 1

    def undone(self, what: str, *, earlier: bool) -> None:
        """Refuse what takes back rows that are published."""
        kept = self.items[self.whole_items :]
        if earlier or any(isinstance(item, Rows | ParkedRows | DeadRows) for item in kept):
            raise UnsupportedEvent(what)

    def xa(self, transaction: Transaction, xid: str, *, is_prepared: bool) -> None:
        """Note what became of an XA transaction; its own transaction ends here too."""
        place = PreparedAt(transaction.start, transaction.gtid) if is_prepared else None
        self.decisions.append((xid, place))

    def end(self, transaction: Transaction, pos: int) -> None:
        """Note that a transaction is whole."""
        if self.first is None:
            self.first = transaction
        if self.prints is not None:
            self.prints.end(transaction, pos)
        if self._rules.borders or (self._rules.borders_of_parts and self.end_pos is None):
            # Only the first that ends here can have begun in another chunk, and so be published in parts.
            self.items.append(End(transaction))
        number = self._last + 1
        if transaction.number != number or transaction.source != self._run[0]:
            self._end_run()
            self._run = (transaction.source, transaction.number)
        self._last = transaction.number
        self.last = transaction
        self.end_pos, self.whole_items, self.whole_values = pos, len(self.items), self.values
        self.ordinal = 0
        self._query = None
        if self._passed:
            self._passed.clear()

    @property
    def gtids(self) -> list[Run]:
        """Of the transactions that ended."""
        self._end_run()
        return self._runs

    def _end_run(self) -> None:
        source, first = self._run
        if source is not None:
            add_run(self._runs, (source, first, self._last))
        self._run = (None, 0)

    def count_passed(self) -> None:
        """Count the rows that were passed by: those behind them have ordinals."""
        for table_map, event_type, body in self._passed:
            self.ordinal += self._tables.count(table_map, event_type, body)
        self._passed.clear()

    def stopped(self, error: AqueductError) -> None:
        """Keep what was whole before an error."""
        self.error = error
        del self.items[self.whole_items :]
        self.values = self.whole_values
        held = {id(item.use) for item in self.items if isinstance(item, Rows)}
        self.uses = [use for use in self.uses if id(use) in held]


def weight(item: Item, values: int) -> int:
    """Bytes of the records of an item, about; ``values``: how many with a value it makes."""
    if isinstance(item, Rows):
        return weight_of_rows(item.rows, values)
    return len(item.body) if isinstance(item, ParkedRows | DeadRows) else 0


def weight_of_rows(rows: list[Row], values: int) -> int:
    """The same of rows."""
    return _ENVELOPE * values + sum([len(row[0] or "") + len(row[1] or "") for row in rows])
