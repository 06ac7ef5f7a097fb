"""What a run publishes before it reads anything newer.

The run publishes the events of quarantined tables that are released, and the columns of tables that the current
mapping publishes in another form.

A resolution by the binlog takes its definition from a waiting row. If no row waits, because the row that
caused the quarantine is still to be read or the table was given up, the resolution stays pending; a
later run tries it, once a row waits. A new version of the mapping resolves the tables that rules of the mapping
quarantined, by the definition that was in force for their first waiting event.

Invariant: the progress is in the journal, written in the Kafka transaction of the rows before it. A
worker that dies during a release resumes it there, and nothing is published twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

from app.failpoints import point
from app.worker.pipeline.gather.captured_tables import Schema
from app.worker.pipeline.gather.gather import Gathering, weight
from app.worker.pipeline.gather.inserted_events import Inserting
from app.worker.pipeline.gather.items import Ddl, values_of
from app.worker.pipeline.gather.parked_event import ParkedEvent, key_of, parked_of
from app.worker.pipeline.hidden_statement import hidden_table
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.publish.publisher import OF_TOPICS, Publisher
from app.worker.pipeline.stage import ChunkStage, StageSpec
from connectors.errors import (
    AqueductError,
    DdlUnresolved,
    HistoryTooShort,
    KafkaLost,
    PositionUnknown,
    RuleImpossible,
    WitnessesDiffer,
)
from connectors.kafka.reading import read_in_pieces
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
from tables.history.position import HistoryPosition
from tables.history.record import SchemaRecord
from tables.history.resolved_statement import UNKNOWN, fill, resolved
from tables.rules.routes.routes import Route
from tables.state.cursor import Cursor
from tables.state.quarantine import Entry, Outcome, Quarantine, Resolution, note_of
from wire.changes import ANNOUNCED
from wire.topics import quarantine_topic

log = logging.getLogger(__name__)

_DEFAULTS = Database(charset="utf8mb4", collation="utf8mb4_general_ci")
"""For a database that the history does not know."""


class QuarantineRelease:
    """Publishes the quarantined events of one destination's tables."""

    def __init__(
        self,
        publisher: Publisher,
        history: SchemaHistory,
        spec: StageSpec,
        *,
        options: Mapping[str, Any],
        server_id: int,
    ) -> None:
        self._publisher = publisher
        self._history = history
        self.spec = spec
        """The decoders' parameters, with the table versions announced here; reading continues after these."""
        self._options, self._server_id = options, server_id
        self.rows = 0
        """The number of published changes."""
        self.postponed: dict[TableName, str] = {}
        """By table: the ids of resolutions by the binlog for which no row waits yet."""

    async def release(self, quarantine: Quarantine) -> None:
        """Try each resolution that was not tried yet."""
        for resolution in quarantine.pending():
            entry = quarantine.entries[resolution.name]
            if resolution.gives_up:
                take = self._give_up
            elif await self._lacks_row(resolution, entry):
                take = self._postpone
            else:
                take = self._one
            entry = quarantine.entries[resolution.name] = await take(resolution, entry)
            destination, table = resolution.destination, ".".join(resolution.name)
            if resolution.name in self.postponed:
                log.info(
                    "%s: table %s stays quarantined until its first row is read, whose definition it "
                    "takes", destination, table,
                )  # fmt: skip
            elif entry.is_given_up:
                log.warning(
                    "%s: table %s is given up by %s: %s waiting event(s) and their changes are lost",
                    destination, table, resolution.by, entry.lost,
                )  # fmt: skip
            elif entry.is_quarantined:
                log.error("%s: table %s stays quarantined: %s", destination, table, entry.reason)
            else:
                log.info("%s: table %s is back", destination, table)

    async def _lacks_row(self, resolution: Resolution, entry: Entry) -> bool:
        """Return whether the definition is to come from a row of the binlog, and no row waits yet."""
        is_known = resolution.table is not None or resolution.keeps_definition
        if is_known or entry.outcome is Outcome.RELEASING:
            return False
        async with aclosing(self._waiting(resolution, entry.offset)) as waiting:
            async for events in waiting:
                if any(event.query is None for event in events):
                    return False
        return True

    async def _postpone(self, resolution: Resolution, entry: Entry) -> Entry:
        """Leave the resolution pending; from here on, the events of a table that was given up wait too."""
        self.postponed[resolution.name] = resolution.id
        if not entry.is_given_up:
            return entry
        # Its rows were dropped; from here on they wait.
        again = replace(
            entry,
            outcome=Outcome.WAITING,
            since=self._now(entry.since),
            given=None,
            lost=0,
        )
        return await self._publish(self._nothing(), again)

    async def announce(self, known: Mapping[TableName, Schema]) -> None:
        """Publish new versions of tables whose columns the mapping publishes in another form, or no more.

        This does not wait for a row: values that a mask covers must disappear from subscribers' tables at once.
        ``known`` has the captured tables, as in their history.
        """
        versions, routes = self.spec.versions, self.spec.rules.routes
        mapped = [
            (name, table)
            for name, table in known.items()
            if isinstance(table, Table)
            and (latest := versions.get(name)) is not None
            and (route := routes.of(name)) is not None
            and latest.stated is not None
            and (latest.stated != route.stated or (route.mapped and route.mapped.rules.columns))
        ]
        stage = replace(self.spec, known=known).make() if mapped else None
        for name, table in mapped:
            assert stage is not None
            if not stage.is_other(name, table):
                continue
            gathering = Gathering(stage.tables, stage.rules)
            at = self._announcing(name)
            gathering.announce(at, name, table, at.pos)
            piece = stage.piece(gathering.gathered, self._publisher.cursor)
            await self._publisher.publish(piece)
            self._learn(piece)

    def _announcing(self, name: TableName) -> Transaction:
        """Return the transaction of a record that announces a table's columns as this run begins."""
        cursor, now = self._publisher.cursor, time.time_ns() // 1_000_000
        start = cursor.offset.coordinates
        at = Transaction(start.file, start.pos, None, 0, "", now, self._server_id)
        return announcing(at, name, f"{cursor.destination}:{cursor.epoch}")

    async def _one(self, resolution: Resolution, entry: Entry) -> Entry:
        release = Release(self.spec, resolution, entry, self._history)
        async for events in self._waiting(resolution, release.offset):
            while events:
                try:
                    released = await asyncio.to_thread(
                        release.decode, events, self._publisher.cursor
                    )
                except WitnessesDiffer as error:
                    # The whole batch is refused, for its schema for example; nothing of it was published.
                    reason = f"{error.name}: {error.detail}"
                    refused = replace(
                        entry,
                        resolution=resolution.id,
                        outcome=Outcome.REFUSED,
                        reason=reason,
                        error=entry.error_after(error),
                    )
                    return await self._publish(self._nothing(), refused)
                events = events[released.events :]
                point("release.decoded")
                entry = await self._publish(released.piece, released.entry)
                point("release.published")
                if entry.outcome is Outcome.REFUSED:
                    return entry
        piece = release.last(self._publisher.cursor, self._announcing(resolution.name))
        piece.tables.history += self._resolved(resolution, release, entry)
        return await self._publish(piece, release.entry(Outcome.RELEASED))

    async def _give_up(self, resolution: Resolution, entry: Entry) -> Entry:
        """Skip the quarantined events; they stay in the quarantine topic."""
        offset, lost = entry.offset, 0
        async for events in self._waiting(resolution, offset):
            offset, lost = events[-1].offset + 1, lost + len(events)
        given_up = replace(
            entry,
            outcome=Outcome.GIVEN_UP,
            offset=offset,
            resolution=resolution.id,
            reason="",
            table=None,
            is_by_rule=False,
            is_by_topic=False,
            refused={},
            given=resolution.given,
            lost=lost,
        )
        piece = self._nothing()
        piece.tables.history += self._history.resolve(
            resolution.name, None, self._now(entry.since), resolution.given
        )
        return await self._publish(piece, given_up)

    def _now(self, since: HistoryPosition) -> HistoryPosition:
        return HistoryPosition.between(self._publisher.cursor.offset, ts_ms=since.ts_ms)

    async def _waiting(
        self, resolution: Resolution, start: int
    ) -> AsyncGenerator[list[ParkedEvent]]:
        key, keys = key_of(resolution.name), self.spec.rules.routes.keys
        topic = quarantine_topic(self.spec.rules.prefix, resolution.destination)
        async with aclosing(read_in_pieces(self._options, topic, 0, start=start)) as pieces:
            async for records in pieces:
                events = [
                    parked_of(
                        record.key, record.value, dict(record.headers), record.offset, keys=keys
                    )
                    for record in records
                    if record.key == key
                ]
                if events:
                    yield events

    def _resolved(
        self, resolution: Resolution, release: Release, entry: Entry
    ) -> list[SchemaRecord]:
        """Return the records for the history.

        The given definition is valid from the position of the quarantine, or from now on if the table was
        given up before. The definition after all released events is valid from now on, if an operator or rows
        gave the one before them. If the quarantine had it, it is the history's, which has those events too.
        """
        history, name, given = self._history, resolution.name, resolution.given
        now = self._now(entry.since)
        records: list[SchemaRecord] = []
        if resolution.table is not None:
            since = now if entry.is_given_up else entry.since
            # A history that began again after that position has nothing to correct there.
            with suppress(HistoryTooShort, PositionUnknown):
                records += history.resolve(name, resolution.table, since, given)
        final = release.definition(history.now().database(name[0]) or _DEFAULTS)
        is_given = final is not None and not resolution.keeps_definition
        if is_given and history.find(*name) != final:
            records += history.resolve(name, final, now, given)
        return records or list(history.resolve(name, None, now, given))

    def _nothing(self) -> Piece:
        cursor = self._publisher.cursor
        return Piece(
            coordinates=cursor.offset.coordinates,
            resume=cursor.resume,
            seq=cursor.seq,
            version_count=cursor.versions,
        )

    async def _publish(self, piece: Piece, entry: Entry) -> Entry:
        piece.notes.append(note_of(entry))
        if piece.signals:
            log.warning(
                "%s: %d row(s) of the signal table that waited in the quarantine make no requests: insert them "
                "again if they are wanted", entry.destination, len(piece.signals),
            )  # fmt: skip
        try:
            await self._publisher.publish(piece)
        except (*OF_TOPICS, KafkaLost) as error:
            raise await self._publisher.of_tables(
                error, piece.topics, lambda _: [entry.name], is_waiting=True
            ) from error
        self._learn(piece)
        return entry

    def _learn(self, piece: Piece) -> None:
        versions = {(one.database, one.table): one for one in piece.tables.versions}
        self.spec = replace(self.spec, versions={**self.spec.versions, **versions})
        self.rows += piece.counts.rows.total()


# Release of a quarantined table: its events are decoded by the operator's definition, in order.
#
# Invariant: each event is decoded once and in stream order, so quarantined statements take effect
# between the rows around them. If an event does not fit, the release ends before it, and the
# table stays quarantined.


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
        gathering = Gathering(self._stage.tables, self._stage.rules)
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
        gathering = Gathering(self._stage.tables, self._stage.rules)
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
        route = self._stage.tables.route(event.name)
        if event.statement == Kind.TRUNCATE.value:
            self._empty(event, route, gathering)
            return
        if event.departed is not None and route is not None and route.deletes_on_drop:
            # The rows that are published next are of another table.
            self._empty(event, route, gathering)
        if self._is_reached and not self._by_binlog:
            before, self.table = self.table, self._after(event)
            self._stage.tables.put(event.name, self.table)
            has_rows = self._stage.book.latest(*event.name) or gathering.gathered.uses
            if has_rows and self.table is not None and self.table != before:
                # Also if a later statement alters it back: the rows have changed since.
                announced = announcing(event.transaction, event.name, event.transaction.id)
                gathering.announce(announced, event.name, self.table, event.pos)

    def _empty(self, event: ParkedEvent, route: Route | None, gathering: Gathering) -> None:
        """Publish that all rows of the table are gone, unless that is to be omitted. Raise RuleImpossible."""
        if route is not None and route.deletes_rows:
            what = "TRUNCATE" if event.departed is None else "DROP or RENAME"
            why = f"its {what} waits, and truncates is deletes; set record or omit until it is released"
            raise RuleImpossible.of(event.name, why)
        assert event.query is not None
        item = Ddl(
            event.transaction,
            Kind.TRUNCATE,
            event.query,
            event.pos,
            event.ordinal + (event.departed or 0),
            (route,) if route is not None and route.records_truncates else (),
            None,
            (),
            is_published=False,
        )
        gathering.gathered.items.append(item)
        gathering.gathered.values += item.values

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
