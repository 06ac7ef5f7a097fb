"""Gathers rows that a SELECT returned, and their keys.

Invariant: the rows are decoded, filtered and masked like inserted rows of the binlog, and the key of each row
is known until it is numbered. A row is deleted at the subscribers only if a SELECT that covers its key returned
no row with that key that the rules publish.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from app.worker.pipeline.changed_keys import NOT_PUBLISHED, QUARANTINED, Everything
from app.worker.pipeline.gather.captured_tables import CapturedTable, CapturedTables
from app.worker.pipeline.gather.delete_records import RemovedRow, removed_rows
from app.worker.pipeline.gather.gather import Gathering, bare_keys, changed_keys
from app.worker.pipeline.gather.items import (
    SELECTED,
    Ddl,
    End,
    Item,
    Replacement,
    Rows,
    values_of,
)
from app.worker.pipeline.rules import PublishingRules
from connectors.errors import SnapshotUnsupported, TopicUnusable, WitnessesDiffer
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.statement_kind import Kind
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.select.packets import PacketEncoder
from tables.rules.routes.routes import Route


class SelectGathering:
    """Gathers the rows of one read of one table."""

    def __init__(self, tables: CapturedTables, rules: PublishingRules) -> None:
        self._tables, self._rules = tables, rules
        self._gathering = Gathering(tables, rules, published_as=SELECTED)
        self.gathered = self._gathering.gathered
        self.refused: str | None = None
        """Why none of the rows can be published."""
        self.unreadable: SnapshotUnsupported | None = None
        """Why the rows cannot be read at all."""

    def all(
        self, transaction: Transaction, table_map: TableMap, blocks: tuple[bytes, ...], pos: int
    ) -> None:
        """Decode the packets of rows of the table."""
        try:
            table = self._tables.of(table_map)
        except WitnessesDiffer as error:
            self.refused = f"its definition changed: {error.detail}"
            return
        if not isinstance(table, CapturedTable):
            self.refused = NOT_PUBLISHED if table is None else QUARANTINED
            return
        try:
            for block in blocks:
                self._block(transaction, table, table_map, block, pos)
        except SnapshotUnsupported as error:
            self.unreadable = error

    def _block(
        self,
        transaction: Transaction,
        table: CapturedTable,
        table_map: TableMap,
        block: bytes,
        pos: int,
    ) -> None:
        rows = table.packets.rows(block)
        if rows is None:
            for body in PacketEncoder(table_map).bodies(block):
                self._gathering.rows(transaction, table_map, PacketEncoder.event_type, body, pos)
            return
        self._gathering.add_rows(transaction, table_map, rows, PacketEncoder.event_type, pos)

    def remove(
        self, transaction: Transaction, table_map: TableMap, keys: Collection[str], pos: int
    ) -> None:
        """Add a delete for each of these keys that none of the added rows has."""
        if not keys or self.refused is not None:
            return
        table = self._tables.of(table_map)
        assert isinstance(table, CapturedTable)
        # The key of a row that cannot be decoded is not known.
        if self._gathering.dead or not table.route.publishes_all or not table.has_row_keys:
            return
        items = [item for item in self.gathered.items if isinstance(item, Rows)]
        there = bare_keys(key for item in items for key in changed_keys(table, item.rows) or ())
        gone = (RemovedRow(key, None) for key in keys if key not in there)
        self._gathering.add_deletes(transaction, table_map, removed_rows(table, gone), pos)

    def delete(
        self, transaction: Transaction, table_map: TableMap, rows: Iterable[RemovedRow], pos: int
    ) -> None:
        """Add deletes of these rows, unless the table is quarantined: the statement that removed them waits."""
        table = self._tables.of(table_map)
        if isinstance(table, CapturedTable):
            self._gathering.add_deletes(transaction, table_map, removed_rows(table, rows), pos)

    def end_of_parts(self, transaction: Transaction, *, is_first: bool) -> None:
        """Mark the end of a transaction with its last part, which may be its only one."""
        if self.gathered.items and (
            self._rules.markers or (self._rules.part_markers and not is_first)
        ):
            self.gathered.items.append(End(transaction))

    def empty(self, transaction: Transaction, name: TableName, pos: int) -> None:
        """Add that all rows of a table are gone, as a TRUNCATE would, if the rules publish such records."""
        route = self._tables.route(name)
        if route is None or self._tables.is_given_up(name):
            self.refused = NOT_PUBLISHED
        elif self._tables.quarantined_among(None, name):
            self.refused = QUARANTINED
        elif route.fault:
            raise TopicUnusable.of(name, route.fault)
        elif route.records_truncates:
            item = _replacement(transaction, route, pos, Replacement.BEGINS)
            self.gathered.items.append(item)
            self.gathered.values += item.values
            self.gathered.ordinal += 1

    def replaced(self, transaction: Transaction, name: TableName, pos: int) -> None:
        """Add that all rows of a replacement have come, unless they were refused."""
        route = self._tables.route(name)
        if self.refused is None and route is not None and route.records_truncates:
            self.gathered.items.append(_replacement(transaction, route, pos, Replacement.ENDS))

    def finish(self, transaction: Transaction) -> None:
        """Mark the end of what was added, or drop it if it was refused."""
        if self.unreadable is not None:
            self.refuse(f"{self.unreadable.name}: {self.unreadable}")
        elif self.refused is not None:
            self.refuse(self.refused)
        elif self.gathered.items:
            self._gathering.mark_end(transaction)

    def drop(self, changed: set[str] | Everything) -> int:
        """Drop the rows whose keys changed and return their count; refuse all if the keys are not known."""
        gathered, dropped = self.gathered, 0
        if isinstance(changed, Everything):
            self.refuse("rows of it changed, and which ones is not known")
            return 0
        if self.refused is not None or not changed:
            return 0
        kept: list[Item] = []
        for item in gathered.items:
            if not isinstance(item, Rows):
                kept.append(item)
                continue
            keys = changed_keys(item.use.table, item.rows)
            if keys is None:
                self.refuse("rows of it changed, and it has no key that identifies them")
                return 0
            rows = [row for row, key in zip(item.rows, keys, strict=True) if key not in changed]
            dropped += len(item.rows) - len(rows)
            if rows:
                kept.append(item if len(rows) == len(item.rows) else item._replace(rows=rows))
        if dropped:
            has_rows = any(isinstance(one, Rows) for one in kept)
            # The end of a replacement holds even if no row remains.
            gathered.items = kept if has_rows else [one for one in kept if _ends(one)]
            gathered.values = sum(map(values_of, gathered.items))
            gathered.keep_used()
        return dropped

    def refuse(self, reason: str) -> None:
        """Publish none of the rows."""
        gathered = self.gathered
        self.refused = reason
        gathered.items, gathered.values = [], 0
        gathered.keep_used()


def _replacement(transaction: Transaction, route: Route, pos: int, what: Replacement) -> Ddl:
    """Return an item of a replacement; only its transaction and its route are used, as it is no statement."""
    query = Query(thread=0, database=route.table[0], sql="", sql_mode=0, error_code=0)
    emptied = (route,)
    return Ddl(
        transaction, Kind.TRUNCATE, query, pos, 0, emptied, None, (), False, replacement=what
    )


def _ends(item: Item) -> bool:
    return isinstance(item, Ddl) and item.replacement is Replacement.ENDS
