"""Release of a quarantined table: its events are decoded by the operator's definition, in order.

Invariant: each event is decoded once and in stream order, so quarantined statements take effect
between the rows around them. If an event does not fit, the release ends before it, and the table
stays quarantined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.worker.pipeline.formats.registry import value_counter
from app.worker.pipeline.gather.gather import Gathering, weight
from app.worker.pipeline.gather.inserted_events import Inserting
from app.worker.pipeline.gather.items import Ddl, values_of
from app.worker.pipeline.gather.parked_event import ParkedEvent
from app.worker.pipeline.hidden_statement import hidden_table
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.stage import ChunkStage, StageSpec
from connectors.errors import AqueductError, DdlUnresolved, RuleImpossible
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import execution_of
from connectors.mysql.binlog.query_session import session_of
from connectors.mysql.binlog.statement_kind import Kind
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Database, Table, TableName
from connectors.mysql.ddl.parsed_statement import parse_statement
from connectors.mysql.position import Coordinates
from connectors.mysql.schema.table_map_completion import adopted
from tables.history.history import SchemaHistory
from tables.history.record import SchemaRecord
from tables.history.resolved_statement import UNKNOWN, fill, resolved
from tables.state.cursor import Cursor
from tables.state.quarantine import Entry, Outcome, Resolution
from wire.changes import ANNOUNCED


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Decoded events of the quarantine, and the progress up to them."""

    piece: Piece
    entry: Entry
    events: int
    """The number of given events that were decoded."""


class Release:
    """Decodes the quarantined events of one table, by one resolution."""

    def __init__(
        self, spec: StageSpec, resolution: Resolution, entry: Entry, history: SchemaHistory
    ) -> None:
        """``history``: has the databases and all other tables as of each statement that waits."""
        self._history = history
        self._charsets = spec.charsets
        self._resolution, self._server = resolution, spec.server
        self._entry = entry
        is_continued = entry.resolution == resolution.id and entry.outcome is Outcome.RELEASING
        has_definition = is_continued or resolution.keeps_definition
        self.table = entry.table if has_definition else resolution.table
        """The definition for the next event; None if the binlog itself gives it."""
        self._by_binlog = resolution.table is None and not resolution.keeps_definition
        self._is_reached = has_definition
        """Whether statements take effect from here on. An operator's definition describes the first
        rows, so it already includes the statements before them; the quarantine's own definition does not."""
        self.offset = entry.offset
        """The lowest offset of the next event in the quarantine topic."""
        # The ends of the events' transactions are already published; an event that does not fit is
        # refused, not sent to the dead letters.
        rules = replace(spec.rules, markers=False, part_markers=False, undecodable_limit=0)
        self._stage: ChunkStage = replace(spec, rules=rules, known={}).make()
        self._stage.tables.put(resolution.name, self.table)
        self._inserting = Inserting(mariadb=spec.mariadb)
        self._last: TableMap | None = None
        latest = spec.versions.get(resolution.name)
        self._nullable = {
            column.name: column.nullable for column in (latest.definition.columns if latest else ())
        }
        """Which columns may be NULL, by the latest event that shows it."""

    def decode(self, events: Sequence[ParkedEvent], cursor: Cursor) -> Released:
        """Decode the next events in order, as many as fit into one Kafka transaction.

        The outcome in the returned entry is REFUSED if an event does not fit the definition.
        """
        gathering = Gathering(self._stage.tables, self._stage.rules, value_counter)
        outcome, reason, name, done, size = Outcome.RELEASING, "", "", 0, 0
        for event in events:
            known = len(gathering.gathered.items)
            try:
                self._gather(event, gathering)
            except AqueductError as error:
                position = Coordinates(event.transaction.file, event.pos)
                outcome, reason = Outcome.REFUSED, f"{error.name} at {position}: {error.detail}"
                name = self._entry.error_after(error)
                break
            self.offset, done = event.offset + 1, done + 1
            size += sum(weight(item, values_of(item)) for item in gathering.gathered.items[known:])
            if size >= self._stage.rules.max_bytes:
                break
        entry = self.entry(outcome, reason, name)
        return Released(
            piece=self._stage.piece(gathering.gathered, cursor), entry=entry, events=done
        )

    def last(self, cursor: Cursor, at: Transaction) -> Piece:
        """Return the piece after all quarantined events: it announces the table's columns, unless a row did."""
        gathering = Gathering(self._stage.tables, self._stage.rules, value_counter)
        if self.table is not None and self._stage.is_other(self._resolution.name, self.table):
            gathering.announce(at, self._resolution.name, self.table, at.pos)
        return self._stage.piece(gathering.gathered, cursor)

    def definition(self, database: Database) -> Table | None:
        """Return the table's definition after all quarantined events, as given or as its last rows show it."""
        if self._by_binlog and self._last is not None:
            return adopted(self._last, self._charsets, database=database, nullable=self._nullable)
        return self.table

    def entry(self, outcome: Outcome, reason: str = "", error: str = "") -> Entry:
        """Return the journal entry of the progress; ``error``: the name of another error than the entry's."""
        table: Table | None = None
        if outcome is Outcome.RELEASING or (outcome is Outcome.REFUSED and self._is_reached):
            table = self.table
        elif outcome is Outcome.REFUSED:
            table = self._entry.table
        return replace(
            self._entry,
            offset=self.offset,
            resolution=self._resolution.id,
            outcome=outcome,
            reason=reason,
            table=table,
            given=None,
            lost=0,
            error=error or self._entry.error,
        )

    def _gather(self, event: ParkedEvent, gathering: Gathering) -> None:
        if event.query is not None:
            self._state(event, gathering)
            return
        table_map = self._last = self._inserting.event(event.rows, gathering)
        if not table_map.hides_not_null:
            self._nullable = {one.name or "": one.nullable for one in table_map.columns}
        self._is_reached = True

    def _state(self, event: ParkedEvent, gathering: Gathering) -> None:
        """Apply a statement between the rows: it is already on the DDL topic, and takes its effect here."""
        query = event.query
        assert query is not None
        if event.statement == Kind.TRUNCATE.value:
            route = self._stage.tables.route(event.name)
            if route is not None and route.deletes_rows:
                why = "its TRUNCATE waits, and truncates is deletes; set record or omit until it is released"
                raise RuleImpossible.of(event.name, why)
            emptied = (route,) if route is not None and route.records_truncates else ()
            at = event.pos, event.ordinal
            item = Ddl(
                event.transaction, Kind.TRUNCATE, query, *at, emptied, None, (), is_published=False
            )
            gathering.gathered.items.append(item)
            gathering.gathered.values += item.values
        elif self._is_reached and not self._by_binlog:
            before, self.table = self.table, self._after(event)
            self._stage.tables.put(event.name, self.table)
            has_rows = self._stage.book.latest(*event.name) or gathering.gathered.uses
            if has_rows and self.table is not None and self.table != before:
                # Also if a later statement alters it back: the rows have changed since.
                announced = announcing(event.transaction, event.name, event.transaction.id)
                gathering.announce(announced, event.name, self.table, event.pos)

    def _after(self, event: ParkedEvent) -> Table | None:
        """Return the definition after a statement; None if the table is gone."""
        query = event.query
        assert query is not None
        catalog = self._catalog(event)
        session = session_of(
            query.status,
            database=query.database,
            thread=query.thread,
            charsets=self._charsets,
            mariadb=self._server.mariadb,
        )
        # The history's execution: with another, a column that the statement adds would get another identity.
        execution = execution_of(query, event.transaction.id)
        parsed = replace(parse_statement(query.sql, self._server, session), execution=execution)
        found = resolved(parsed, catalog, may_quote=False)
        table = catalog.get(event.name)
        if table is UNKNOWN and self.table is not None:
            raise DdlUnresolved(found.reason or "", tables=found.unresolved)
        if table is None or table is UNKNOWN:
            # Of one that the history did not know either, rows describe themselves, or do not fit.
            return None
        return hidden_table(event.name, table, self._stage.rules.routes)

    def _catalog(self, event: ParkedEvent) -> Catalog:
        """Return all databases and tables right before a statement; this table is as its last rows have it."""
        catalog, record = Catalog(self._server), self._record(event)
        if record is not None:
            fill(catalog, self._history.after(record.number - 1))
        else:
            # The history began again since: a database is more likely to be as it is now than any table.
            for name, database in self._history.now().databases().items():
                catalog.put_database(name, database)
        if self.table is None:
            catalog.remove(event.name)
        else:
            catalog.put(event.name, self.table)
        return catalog

    def _record(self, event: ParkedEvent) -> SchemaRecord | None:
        """Return the history's record of a statement; the worker may have read it from another server."""
        at, start = event.transaction, Coordinates(event.transaction.file, event.pos)
        for record in reversed(self._history.records):
            position = record.position
            is_same = (
                position.start == start and at.id.startswith(f"{position.server_uuid}:")
                if at.gtid is None
                else position.gtid == at.gtid
            )
            if is_same and record.kind == "statement" and event.name in record.tables:
                return record
        return None


def announcing(at: Transaction, name: TableName, why: str) -> Transaction:
    """Return a transaction at the position of ``at``, for a record that announces a table's columns.

    ``why`` distinguishes it from other announcements of the table.
    """
    own = f"{ANNOUNCED}{why}:{'.'.join(name)}"
    found = Transaction(at.file, at.pos, None, 0, own, at.committed_ms, at.server_id)
    found.gtid = at.gtid
    return found
