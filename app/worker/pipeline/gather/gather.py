"""The first step of a decoder: the items of a portion, decoded and in order, but not yet numbered.

A chunk is cut by its bytes in the binlog. But records of small rows are a hundred times larger, and a
compressed transaction or a large event is never cut there. So the items of a chunk are cut again where they
suffice for one Kafka transaction: between transactions or within one, down to single rows.

Invariant: no other portion is needed here. Rows of tables that are not captured are only counted, and only if a
published row after them needs its ordinal. The items after a cut are numbered like those of another chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol

from app.worker.pipeline.changed_keys import added
from app.worker.pipeline.gather.captured_tables import (
    CapturedTable,
    CapturedTables,
    Unpublished,
)
from app.worker.pipeline.gather.items import (
    REMOVED,
    AlteredTable,
    Ddl,
    End,
    Gathered,
    Item,
    ParkedRows,
    Rows,
    TableUse,
    values_of,
    values_of_rows,
)
from app.worker.pipeline.gather.statement_changes import StatementJudge, listed, passed
from app.worker.pipeline.gather.undecodable_rows import DeadRows, refused, sifted
from app.worker.pipeline.rules import PublishingRules
from connectors.errors import (
    AqueductError,
    MalformedEvent,
    RowUnreadable,
    RuleImpossible,
    TopicUnusable,
    UnsupportedEvent,
)
from connectors.kafka.record_batches import PLACE
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import EventType, Query
from connectors.mysql.binlog.mariadb_events import FIRST_COMPRESSED_ROWS, plain_rows
from connectors.mysql.binlog.statement_kind import (
    Kind,
    emptied_by_server,
    statement_type,
    truncated_table,
)
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.definition import Table, TableChange, TableName
from connectors.mysql.landmark import Landmark
from connectors.mysql.lookup.fingerprint import FingerprintWindow, RecentTransactions
from connectors.mysql.rows.compiled import Row
from connectors.mysql.stream.prepared_xa import PreparedPosition
from tables.history.resolved_statement import ResolvedStatement
from tables.rules.routes.routes import Route

_tuple = tuple.__new__

_ALTER = "ALTER TABLE"
_ENVELOPE = 450
"""Approximate bytes of a record without its images; most of the volume of small rows."""


class Digests(Protocol):
    """Makes the object that digests the gathered transactions, up to the next cut."""

    def __call__(self, *, is_cut: bool) -> FingerprintWindow | RecentTransactions | None:
        """``is_cut``: whether the first transaction began before."""


class Gathering:
    """Gathers the items of one portion."""

    def __init__(
        self,
        tables: CapturedTables,
        rules: PublishingRules,
        *,
        limit: int | None = None,
        resolved: ResolvedStatement | None = None,
        passing: StatementJudge | None = None,
        digests: Digests | None = None,
        landmark: Callable[[Transaction], Landmark | None] | None = None,
        is_cut: bool = False,
        watched: Collection[TableName] = (),
        published_as: int | None = None,
    ) -> None:
        """``limit``: bytes of records from which the items are cut; None: they never are. ``landmark``: returns
        the transaction that ended last, as it is in the chunk. ``is_cut``: whether the portion begins within a
        transaction. ``watched``: the tables whose changed keys are recorded. ``published_as``: replaces the
        type of the rows' events.
        """
        self._tables = tables
        self._rules = rules
        self._limit = limit
        self._resolved = resolved
        """The effect of the statement at the end of the chunk."""
        self._passing = passing
        self._digests, self._landmark = digests, landmark
        self._watched = watched
        self._published_as = published_as
        self._query: str | None = None
        self._passed: list[tuple[TableMap, int, bytes]] = []
        """Rows events of tables that are not captured, not yet counted."""
        self.dead = 0
        """Count of undecodable rows."""
        self._done: list[Gathered] = []
        """What was gathered before the last cut."""
        self._current: Transaction | None = None
        """The transaction of the last rows."""
        self._is_within = False
        """Whether the last cut is within that transaction."""
        self._begin(is_cut=is_cut)

    def _begin(self, *, is_cut: bool) -> None:
        prints = None if self._digests is None else self._digests(is_cut=is_cut)
        self.gathered = Gathered(prints=prints)
        self._size = self._before = 0
        """Bytes of records since the cut, and the part of them before the open transaction."""
        self._uses: dict[TableName, TableUse] = {}
        self._savepoints: dict[str, int] = {}
        """For each savepoint of the open transaction, the count of items before it."""
        self._map: TableMap | None = None
        self._use: TableUse | None = None
        """The table of ``_map``; None if it is not captured."""
        self._unpublished: Unpublished | None = None
        """The table of ``_map``, if it is quarantined or given up."""

    def finished(self, open_: Transaction | None) -> list[Gathered]:
        """Return the items of each piece, at least one; ``open_``: the transaction open at the chunk's end."""
        if self.gathered.error is not None:
            open_ = None
        if open_ is not None:
            self.count_passed()
        return [*self._done, self._ended(open_)]

    def _ended(self, open_: Transaction | None) -> Gathered:
        gathered = self.gathered
        gathered.open = open_
        if self._landmark is not None and gathered.last is not None:
            gathered.landmark = self._landmark(gathered.last)
        return gathered

    def _cut(self, open_: Transaction | None) -> None:
        """Cut here; ``open_``: the transaction that is cut."""
        self.count_passed()
        self._done.append(self._ended(open_))
        self._is_within = open_ is not None
        self._begin(is_cut=self._is_within)

    def rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes, pos: int
    ) -> None:
        """Decode the rows of an event, or note that their table is not captured.

        Cut before them if the items reach the limit.
        """
        if (limit := self._limit) is not None:
            if transaction is not self._current:
                if self._size >= limit:
                    self._cut(None)
                self._current, self._before, self._is_within = transaction, self._size, False
            elif self._size - self._before >= limit:
                self._cut(transaction)
        if (prints := self.gathered.prints) is not None:
            prints.rows(table_map, event_type, body)
        if table_map is not self._map:
            self._enter_table(table_map, transaction, pos)
        use = self._use
        if use is None:
            self._pass_by(transaction, table_map, event_type, body, pos)
            return
        if self._passed:
            self.count_passed()
        if event_type >= FIRST_COMPRESSED_ROWS:
            event_type, body = plain_rows(event_type, body)
        try:
            rows = use.table.rows(event_type, body)
        except (MalformedEvent, RowUnreadable) as error:
            if isinstance(error, RowUnreadable) and not self._rules.undecodable_limit:
                raise
            name, query = use.table.name, self._query
            dead = DeadRows(transaction, name, table_map, event_type, body, "", pos, 0, query, "")
            self._sift(dead, error)
            return
        self._select(transaction, rows, event_type, pos)

    def _select(self, transaction: Transaction, rows: list[Row], event_type: int, pos: int) -> None:
        """Add the rows that the table's rules publish; the other rows have ordinals too."""
        assert self._use is not None
        selection, published_as = self._use.table.selection, self._published_as
        if selection is None:
            self._keep(transaction, rows, published_as or event_type, pos)
            return
        for run in selection.runs(rows, event_type):
            if run.rows:
                self._keep(transaction, run.rows, published_as or run.event_type, pos)
            else:
                self.gathered.ordinal += run.size

    def _keep(self, transaction: Transaction, rows: list[Row], event_type: int, pos: int) -> None:
        """Add rows of the table of ``_use``, with cuts between them if they exceed the limit."""
        use = self._use
        assert use is not None
        values, limit = values_of_rows(rows, event_type), self._limit
        if limit is not None:
            size = weight_of_rows(rows, values)
            if size >= 2 * limit and len(rows) > 1:
                self._keep_cut(transaction, rows, event_type, pos, -(-len(rows) * limit // size))
                return
            self._size += size
        gathered = self.gathered
        # A named tuple's own constructor costs more than all else here.
        gathered.items.append(
            _tuple(Rows, (transaction, use, rows, event_type, pos, gathered.ordinal, self._query))
        )
        gathered.ordinal += len(rows)
        gathered.values += values
        if self._watched and use.table.name in self._watched:
            added(gathered.changed, use.table.name, changed_keys(use.table, rows))

    def _keep_cut(
        self, transaction: Transaction, rows: list[Row], event_type: int, pos: int, some: int
    ) -> None:
        """Add the rows of one event, ``some`` at a time."""
        table_map, limit = self._map, self._limit
        assert table_map is not None
        assert limit is not None
        for at in range(0, len(rows), some):
            if self._size - self._before >= limit:
                self._cut(transaction)
                self._enter_table(table_map, transaction, pos)
            self._keep(transaction, rows[at : at + some], event_type, pos)

    def add_rows(
        self,
        transaction: Transaction,
        table_map: TableMap,
        rows: list[Row],
        event_type: int,
        pos: int,
    ) -> None:
        """Add decoded rows, as far as the table's rules publish them."""
        if table_map is not self._map:
            self._enter_table(table_map, transaction, pos)
        self._select(transaction, rows, event_type, pos)

    def add_deletes(
        self, transaction: Transaction, table_map: TableMap, rows: list[Row], pos: int
    ) -> None:
        """Add deletes of rows that subscribers have, if there are any."""
        if not rows:
            return
        if table_map is not self._map:
            self._enter_table(table_map, transaction, pos)
        self._keep(transaction, rows, REMOVED, pos)

    def _pass_by(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes, pos: int
    ) -> None:
        """Note rows of a table that is not published."""
        unpublished = self._unpublished
        if unpublished is Unpublished.QUARANTINED:
            self._park(transaction, table_map, event_type, body, pos)
            return
        self._passed.append((table_map, event_type, body))
        gathered = self.gathered
        (gathered.filtered if unpublished is None else gathered.given_up)[event_type] += 1

    def _sift(self, dead: DeadRows, error: AqueductError) -> None:
        """Add the rows of an event with undecodable rows, as far as the settings allow them."""
        assert self._use is not None
        limit, row = self._rules.undecodable_limit, 0
        transaction, kind, pos = dead.transaction, dead.event_type, dead.pos
        for part in sifted(self._use.table.rows, dead, error):
            if part.rows:
                self._select(transaction, part.rows, kind, pos)
            else:
                self.dead += 1
                if self.dead > limit:
                    raise refused(part, error, limit=limit, row=row)
                gathered = self.gathered
                gathered.items.append(part.of(dead, gathered.ordinal))
                gathered.ordinal += part.size
                if dead.name in self._watched:
                    added(gathered.changed, dead.name, None)
            row += part.size

    def _enter_table(self, table_map: TableMap, transaction: Transaction, pos: int) -> None:
        gathered = self.gathered
        if gathered.first is None:
            gathered.first = transaction
        self._map = self._use = self._unpublished = None
        table = self._tables.of(table_map)
        self._map = table_map
        if table is None or isinstance(table, Unpublished):
            self._unpublished = table
            return
        use = self._uses.get(table.name)
        if use is None or use.table is not table:
            use = self._uses[table.name] = TableUse(table, transaction, pos)
            gathered.uses.append(use)
        self._use = use

    def _park(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes, pos: int
    ) -> None:
        """Keep the rows of a quarantined table undecoded; they have ordinals too."""
        self.count_passed()
        gathered = self.gathered
        count = self._tables.count(table_map, event_type, body)
        event = (table_map.database, table_map.table), table_map, event_type, body, pos
        gathered.items.append(ParkedRows(transaction, *event, gathered.ordinal, count, self._query))
        gathered.ordinal += count
        self._size += len(body)
        if event[0] in self._watched:
            added(gathered.changed, event[0], None)

    def query(self, text: str) -> None:
        """Note the statement whose rows follow; without literals if any table's values are hidden."""
        if self._rules.statements:
            self._query = self._tables.hidden_text(text)

    def statement(self, transaction: Transaction, kind: Kind, query: Query, pos: int) -> None:
        """Note a statement, and the captured tables whose rows it removes."""
        gathered = self.gathered
        if gathered.first is None:
            gathered.first = transaction
        if gathered.prints is not None:
            gathered.prints.statement(query)
        self.count_passed()
        resolved = self._resolved
        truncated = self._truncated(query) if kind is Kind.TRUNCATE else None
        name = truncated.table if truncated is not None else None
        parks = self._tables.quarantined_among(resolved.record if resolved else None, name)
        if truncated is not None:
            emptied: tuple[Route, ...] = (truncated,)
            if truncated.deletes_rows and truncated.table not in parks:
                self._expect_deletes(truncated)
        else:
            emptied = dropped_routes(resolved, self._tables)
        emptied = tuple(one for one in emptied if one.records_truncates and one.table not in parks)
        is_published = (
            self._rules.publishes(statement_type(query.sql))
            and not (resolved and resolved.is_noise)
            and self._tables.publishes_statement(query)
        )
        shown = self._tables.hidden_query(query)
        item = Ddl(
            transaction, kind, shown, pos, gathered.ordinal, emptied, resolved, parks, is_published,
            query, altered=tuple(self._altered(resolved)),
        )  # fmt: skip
        gathered.items.append(item)
        gathered.values += item.values
        for watched in self._changed_by(resolved, truncated):
            added(gathered.changed, watched, None)

    def announce(self, transaction: Transaction, name: TableName, table: Table, pos: int) -> None:
        """Announce that a published table has these columns from here on, without a statement of the source.

        Nothing is added if only rows show how the table is published, or if ALTER TABLE is not published.
        """
        change = TableChange(name=name, old=table, new=table)
        resolved = ResolvedStatement(type="", logical=(change,))
        altered = tuple(self._altered(resolved))
        if not altered or not self._rules.publishes(_ALTER):
            return
        query = Query(thread=0, database=name[0], sql="", sql_mode=0, error_code=0)
        item = Ddl(
            transaction, Kind.DDL, query, pos, self.gathered.ordinal, (), resolved, (), is_published=True,
            altered=altered,
        )  # fmt: skip
        self.gathered.items.append(item)
        self.gathered.values += item.values

    def _altered(self, resolved: ResolvedStatement | None) -> Iterator[AlteredTable]:
        """Yield the captured tables that a statement altered or renamed."""
        origins: dict[TableName, TableName] = {}
        for change in resolved.logical_changes() if resolved is not None else ():
            if not isinstance(change, TableChange):
                continue
            if change.renamed_to is not None:
                origins[change.renamed_to] = origins.get(change.name, change.name)
            elif change.new is not None and (change.old is not None or change.renamed_from):
                before = change.renamed_from or change.name
                if table := self._tables.defined(change.name, change.new):
                    yield AlteredTable(table, origins.get(before, before))

    def _changed_by(
        self, resolved: ResolvedStatement | None, truncated: Route | None
    ) -> Iterator[TableName]:
        """Yield the watched tables that a statement may change; all of them where its effect is not known."""
        known = set(resolved.emptied) if resolved is not None else set()
        if resolved is not None and resolved.record is not None:
            known.update(resolved.record.concerned)
        if truncated is not None:
            known.add(truncated.table)
        yield from (name for name in self._watched if not known or name in known)

    def _expect_deletes(self, truncated: Route) -> None:
        """Raise RuleImpossible if the reader cannot have put deletes of a table's rows before its TRUNCATE."""
        if self._resolved is None or truncated.table not in self._resolved.emptied:
            why = "truncates is deletes, and the schema history does not know the table; choose record or omit"
            raise RuleImpossible.of(truncated.table, why)

    def _truncated(self, query: Query) -> Route | None:
        """Return the route of the table that a TRUNCATE empties; None if it is not captured."""
        resolved = self._resolved
        if resolved is not None and resolved.is_of_temporary:
            return None
        # The history has the name that the table's row events have.
        known = resolved.emptied[0] if resolved is not None and resolved.emptied else None
        name = known or truncated_table(query.sql, query.database)
        if name is None:
            raise UnsupportedEvent("a TRUNCATE statement whose table cannot be determined")
        route = None if self._tables.is_given_up(name) else self._tables.route(name)
        if route is not None and route.fault and not self._tables.is_quarantined(name):
            raise TopicUnusable.of(name, route.fault)
        return route

    def change(self, transaction: Transaction, query: Query) -> None:
        """Skip a change logged as a statement, if no captured table changed.

        A change by which a server logs that a table in memory is empty after its restart is a TRUNCATE.
        """
        gathered = self.gathered
        if gathered.first is None:
            gathered.first = transaction
        emptied = emptied_by_server(query.sql)
        if emptied is not None and self._tables.is_in_memory(emptied):
            self._empty(transaction, query, emptied)
            return
        gathered.statements.update(passed(self._passing, query))
        gathered.filtered[EventType.QUERY] += 1

    def _empty(self, transaction: Transaction, query: Query, name: TableName) -> None:
        """Add that all rows of a table are gone, though no client's statement removed them."""
        route = self._tables.route(name)
        assert route is not None
        if route.fault:
            raise TopicUnusable.of(name, route.fault)
        if route.deletes_rows:
            self._expect_deletes(route)
        self.count_passed()
        gathered = self.gathered
        routes = (route,) if route.records_truncates else ()
        at = transaction.pos, gathered.ordinal
        item = Ddl(transaction, Kind.TRUNCATE, query, *at, routes, None, (), is_published=False)
        gathered.items.append(item)
        gathered.values += item.values
        if name in self._watched:
            added(gathered.changed, name, None)

    def savepoint(self, name: str) -> None:
        """Note a savepoint: a rollback to it undoes the rows after it."""
        self._savepoints[name] = len(self.gathered.items)

    def undone(self, what: str, *, earlier: bool, savepoint: str | None = None) -> None:
        """Drop rows that were rolled back; their ordinals are not reused.

        Raise UnsupportedEvent if some of them are in an earlier chunk or before a cut, and so may be published.
        """
        gathered, earlier = self.gathered, earlier or self._is_within
        is_known = not earlier if savepoint is None else savepoint in self._savepoints
        since = self._savepoints.get(savepoint or "", gathered.whole_items)
        items = gathered.items[since:]
        kept = [item for item in items if not isinstance(item, Rows | ParkedRows | DeadRows)]
        if not is_known and (earlier or len(kept) < len(items)):
            names = {
                item.use.table.name if isinstance(item, Rows) else item.name
                for item in items
                if isinstance(item, Rows | ParkedRows | DeadRows)
            }
            error = UnsupportedEvent(what)
            if names:
                # Rows of other tables may be in earlier chunks.
                error.context["tables"] = listed(sorted(names))
            raise error
        gathered.values -= sum(map(values_of, items)) - sum(map(values_of, kept))
        gathered.items[since:] = kept
        for item in items:
            if isinstance(item, Rows):
                self._forget_keys(item)

    def undone_rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes
    ) -> None:
        """Note rows that were rolled back: later rows need their ordinals."""
        gathered = self.gathered
        if gathered.prints is not None:
            gathered.prints.rows(table_map, event_type, body)
        if gathered.first is None:
            gathered.first = transaction
        self._passed.append((table_map, event_type, body))

    def _forget_keys(self, undone: Rows) -> None:
        """Remove the keys of rows that were rolled back, which are the last of their table.

        A row with such a key that a SELECT returned is still the newest.
        """
        table = undone.use.table
        if keys := self.gathered.changed.get(table.name):
            del keys[len(keys) - len(changed_keys(table, undone.rows) or ()) :]

    def xa(self, transaction: Transaction, xid: str, *, is_prepared: bool) -> None:
        """Note the outcome of an XA transaction; its own transaction ends here too."""
        prepared = PreparedPosition(transaction.start, transaction.gtid) if is_prepared else None
        self.gathered.decisions.append((xid, prepared))

    def end(self, transaction: Transaction, pos: int) -> None:
        """Note the end of a transaction."""
        gathered, rules = self.gathered, self._rules
        if gathered.first is None:
            gathered.first = transaction
        if gathered.prints is not None:
            gathered.prints.end(transaction, pos)
        if rules.markers or (rules.part_markers and gathered.end_pos is None):
            # Only the first transaction that ends here can have begun in another chunk, and so have parts.
            gathered.items.append(End(transaction))
        gathered.end(transaction, pos)
        self._savepoints.clear()
        self._query = None
        if self._passed:
            self._passed.clear()

    def mark_end(self, transaction: Transaction) -> None:
        """Mark the end of a transaction that is not the source's."""
        if self._rules.markers:
            self.gathered.items.append(End(transaction))

    def count_passed(self) -> None:
        """Count the skipped rows, since later rows need their ordinals."""
        for table_map, event_type, body in self._passed:
            self.gathered.ordinal += self._tables.count(table_map, event_type, body)
        self._passed.clear()


def changed_keys(table: CapturedTable, rows: list[Row]) -> list[str] | None:
    """Return the keys that rows have or had, to recognize the same rows among those that a SELECT returned.

    Invariant: rows have the same key only if they are the same row. None: the records' keys do not ensure that.
    """
    if not table.identifies_rows:
        return None
    keys = [row[3] if row[2] is None else row[2] for row in rows]
    keys += [row[3] for row in rows if row[2] is not None and row[3] != row[2]]
    return [key for key in keys if key is not None]


def bare_keys(keys: Iterable[str]) -> set[str]:
    """Return keys as their records have them, without the part that chooses the partition."""
    return {key.partition(PLACE)[0] for key in keys}


def weight(item: Item, values: int) -> int:
    """Return the approximate bytes of an item's records; ``values``: its count of records with a value."""
    if isinstance(item, Rows):
        return weight_of_rows(item.rows, values)
    return len(item.body) if isinstance(item, ParkedRows | DeadRows) else 0


def weight_of_rows(rows: list[Row], values: int) -> int:
    """Return the approximate bytes of the records of rows."""
    return _ENVELOPE * values + sum([len(row[0] or "") + len(row[1] or "") for row in rows])


def dropped_routes(resolved: ResolvedStatement | None, tables: CapturedTables) -> tuple[Route, ...]:
    """Return the routes of the dropped and renamed tables whose rows are to be deleted, in order.

    Without a schema history there are none, since only the history knows which tables existed. Invariant: none
    is of a table that is replaced, or of a tool's shadow.
    """
    if resolved is None or resolved.is_noise:
        return ()
    names = [one.name for one in resolved.departed() if not tables.is_given_up(one.name)]
    routes = [tables.route(name) for name in names]
    return tuple(one for one in routes if one is not None and one.deletes_on_drop)
