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
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from app.failpoints import point
from app.worker.pipeline.formats.registry import value_counter
from app.worker.pipeline.gather.captured_tables import Schema
from app.worker.pipeline.gather.gather import Gathering
from app.worker.pipeline.gather.parked_event import ParkedEvent, key_of, parked_of
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.publish.publisher import OF_TOPICS, Publisher
from app.worker.pipeline.stage import StageSpec
from app.worker.schemas.parked_replay import Release, announcing
from connectors.errors import HistoryTooShort, KafkaLost, PositionUnknown, WitnessesDiffer
from connectors.kafka.reading import read_in_pieces
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.ddl.definition import Database, Table, TableName
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.history.record import SchemaRecord
from tables.state.quarantine import Entry, Outcome, Quarantine, Resolution, note_of
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
        """Publish new versions of tables whose columns the mapping publishes in another form from now on.

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
            and latest.stated not in (None, route.stated)
        ]
        stage = replace(self.spec, known=known).make() if mapped else None
        for name, table in mapped:
            assert stage is not None
            if not stage.is_other(name, table):
                continue
            gathering = Gathering(stage.tables, stage.rules, value_counter)
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
        """Return the position at which the run begins."""
        return HistoryPosition.between(self._publisher.cursor.offset, ts_ms=since.ts_ms)

    async def _waiting(
        self, resolution: Resolution, start: int
    ) -> AsyncGenerator[list[ParkedEvent]]:
        """Yield the quarantined events of a table, in their order."""
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
