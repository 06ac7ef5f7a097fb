"""Topics created before the rows that need them, concurrently with publishing.

Invariant: this only saves time. A topic that it cannot make is made or reported as an error when needed.
A topic that was written to before is never created again. No table with a shadow's name has its topic made
before a row needs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping

from app.worker.pipeline.gather.captured_tables import CapturedTables
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.publish.publisher import Publisher
from connectors.backoff import Backoff
from connectors.errors import AqueductError, Retry
from connectors.mysql.ddl.definition import Table, TableChange

log = logging.getLogger(__name__)

_PORTION = 200
"""Topics per request, so that newer ones need not wait for all older ones."""


class TopicPreparation:
    """Makes topics for one run of a destination."""

    def __init__(self, publisher: Publisher, tables: CapturedTables) -> None:
        """``tables``: the captured tables; owned by this object."""
        self._publisher, self._tables = publisher, tables
        self._loop = asyncio.get_running_loop()
        self._wanted: dict[str, int] = {}
        """Topics to create, each with its partition count."""
        self._requested: set[str] = set()
        self._woken = asyncio.Event()

    def begin(self, tables: Iterable[tuple[str, str]]) -> None:
        """Request the topics of these tables, if captured; called before any piece is seen."""
        self._want(self._certain(tables))

    def seen(self, piece: Piece) -> None:
        """From any thread: request the topics that a piece needs, and those of tables created in it."""
        found = piece.topics
        for record in piece.tables.history:
            self._tables.learn(record)
            found |= self._certain(
                change.name
                for change in record.changes
                if isinstance(change, TableChange) and isinstance(change.new, Table)
            )
        if not found.keys() <= self._requested:
            self._requested |= found.keys()
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                self._loop.call_soon_threadsafe(self._want, found)

    def _certain(self, names: Iterable[tuple[str, str]]) -> dict[str, int]:
        """Return the topics of the tables that are captured as long as they keep their names.

        A tool may swap tables in two steps, between which the main table of its shadows does not exist. So the
        topic of any table with a shadow's name waits for a row.
        """
        tables = self._tables
        routes = [
            tables.route(name)
            for name in names
            if not tables.may_be_shadow(name) and not tables.is_quarantined(name)
        ]
        return {one.topic: one.partitions for one in routes if one is not None and not one.fault}

    def _want(self, topics: Mapping[str, int]) -> None:
        self._wanted |= topics
        if self._wanted:
            self._woken.set()

    async def make_all(self) -> None:
        """Create requested topics, as long as the run lasts."""
        backoff = Backoff(1.0, 30.0)
        while True:
            await self._woken.wait()
            portion = dict(list(self._wanted.items())[-_PORTION:])
            try:
                await self._publisher.prepare(portion)
                backoff.reset()
            except AqueductError as error:
                log.info(
                    "%s: topics are not created in advance: %s",
                    self._publisher.cursor.destination,
                    error,
                )
                if error.retry is Retry.TIMED:
                    await asyncio.sleep(backoff.pause())
                    continue
            for name in portion:
                self._wanted.pop(name, None)
            if not self._wanted:
                self._woken.clear()
