"""Tables come back, at the beginning of a run: before anything newer is read, what waited for them is published.

The law: how far that is stands in the journal, written in the Kafka transaction of the rows before it; so a worker
that dies in the midst of it goes on where it was, and nothing is published twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from app.pipeline.parked import Parked, key_of, parked_of
from app.pipeline.piece import Piece
from app.pipeline.stage import StageSpec
from app.publisher import Publisher
from app.release import Release
from connectors.kafka.reading import read_in_pieces
from connectors.wire import quarantine_topic
from tables import journal
from tables.history import SchemaHistory
from tables.quarantine import Outcome, Progress, Quarantine, Resolution
from tables.schema_record import SchemaRecord, Unresolved

log = logging.getLogger(__name__)


class Releasing:
    """Publishes what waited for tables of one destination."""

    def __init__(
        self,
        publisher: Publisher,
        history: SchemaHistory,
        spec: StageSpec,
        *,
        options: Mapping[str, Any],
    ) -> None:
        self._publisher = publisher
        self._history = history
        self._spec = spec
        self._options = options
        self.rows = 0
        """Changes that were published."""

    async def release(self, quarantine: Quarantine) -> None:
        """Try each resolution that was not tried yet."""
        for resolution in quarantine.pending():
            begun = quarantine.progress.get(resolution.name)
            progress = await self._one(resolution, begun)
            quarantine.progress[resolution.name] = progress
            table = ".".join(resolution.name)
            if progress.outcome is Outcome.RELEASED:
                log.info("%s: table %s is back", resolution.destination, table)
            else:
                log.error(
                    "%s: table %s stays set aside: %s",
                    resolution.destination,
                    table,
                    progress.reason,
                )

    async def _one(self, resolution: Resolution, begun: Progress | None) -> Progress:
        release = Release(self._spec, resolution, begun=begun)
        if not isinstance(self._history.state(*resolution.name), Unresolved):
            refused = release.progress(Outcome.REFUSED, "it is not set aside")
            return await self._publish(self._nothing(), refused)
        async for events in self._waiting(resolution, release.offset):
            released = await asyncio.to_thread(release.decode, events, self._publisher.cursor)
            await self._publish(released.piece, released.progress)
            if released.progress.outcome is Outcome.REFUSED:
                return released.progress
        piece = self._nothing()
        piece.history.append(self._resolved(resolution, release))
        return await self._publish(piece, release.progress(Outcome.RELEASED))

    async def _waiting(self, resolution: Resolution, start: int) -> AsyncIterator[list[Parked]]:
        """The events that wait for a table, in their order."""
        key = key_of(resolution.name)
        topic = quarantine_topic(self._spec.rules.prefix, resolution.destination)
        async for records in read_in_pieces(self._options, topic, 0, start=start):
            events = [
                parked_of(record.key, record.value, dict(record.headers), record.offset)
                for record in records
                if record.key == key
            ]
            if events:
                yield events

    def _resolved(self, resolution: Resolution, release: Release) -> SchemaRecord:
        """The history's record: what the table is once nothing waits for it."""
        return self._history.resolve(resolution.name, release.definition)

    def _nothing(self) -> Piece:
        cursor = self._publisher.cursor
        return Piece(
            coordinates=cursor.offset.coordinates,
            resume=cursor.resume,
            seq=cursor.seq,
            version_count=cursor.versions,
        )

    async def _publish(self, piece: Piece, progress: Progress) -> Progress:
        piece.notes.append(journal.quarantine_record(progress))
        await self._publisher.publish(piece)
        self.rows += piece.rows.total()
        return progress
