"""The position up to which a destination is published, followed in the journal.

Invariant: a cursor is in the Kafka transaction of the rows before it, and the journal is read to an end that
includes open transactions. A cursor is therefore never older than rows that were read before it.
"""

from __future__ import annotations

import time

from app.operator.validation.errors import PublishingStalled, SourceMoved
from connectors.kafka.reading import (
    Follower,
    Partition,
    StoredRecord,
    read_some,
    read_to_ends,
)
from connectors.mysql.position import Coordinates
from connectors.mysql.select.read_views import Seen, seen_at
from tables.history.codec import BASELINE, RESOLVED
from tables.journal_format import decoded, is_tombstone, quoted
from tables.state.cursor import CURSOR, Cursor
from tables.state.journal.records import VERSION
from tables.state.journal.state import JournalPartition
from tables.state.mapping_in_force import MAPPING
from tables.state.quarantine import QUARANTINE

STALLED_SECONDS = 60.0
"""The time after which a cursor that does not move is an error."""
_OTHER_DEFINITIONS = {one.name for one in (MAPPING, QUARANTINE, BASELINE, RESOLVED, VERSION)}


class PublishedPosition:
    """The last cursor of a destination."""

    def __init__(
        self, follower: Follower, journal: JournalPartition, cursor: Cursor, *, server_uuid: str
    ) -> None:
        """``cursor`` is the last cursor before what the follower reads from the journal's partition."""
        self._follower, self._journal = follower, journal
        self._partition: Partition = (journal.topic, journal.number)
        self.cursor = cursor
        self._server_uuid = server_uuid
        self.changes = 0
        """A number that increases when definitions of tables, or rules, may have changed."""
        self._moved = time.monotonic()

    async def settled(self) -> Seen:
        """Return what a SELECT has to see: everything before a cursor that is between two transactions.

        The cursor is not older than any row that is readable now.
        """
        await read_to_ends(self._follower, [self._partition], self._take)
        while self.cursor.resume is not None:
            await self._wait("the end of a large transaction")
        return seen_at(self._own().offset)

    async def reached(self, position: Coordinates) -> None:
        """Wait until all before a position of the source is published."""
        self._moved = time.monotonic()
        while self._own().offset.coordinates.order < position.order:
            await self._wait(str(position))

    def _own(self) -> Cursor:
        """Return the cursor; raise SourceMoved if it is of another server."""
        found = self.cursor.offset.server_uuid
        if found != self._server_uuid:
            raise SourceMoved(
                f"it reads the server {found} now", destination=self._journal.destination
            )
        return self.cursor

    async def _wait(self, goal: str) -> None:
        await read_some(self._follower, [self._partition], self._take)
        if time.monotonic() - self._moved > STALLED_SECONDS:
            raise PublishingStalled(
                f"it is published up to {self.cursor.offset.coordinates} for {STALLED_SECONDS:.0f} s, and not "
                f"up to {goal}",
                destination=self._journal.destination,
            )

    def _take(self, _partition: Partition, record: StoredRecord) -> None:
        name, _, rest = record.key.decode("utf-8", "replace").partition("/")
        if name == CURSOR.name and rest == self._journal.destination:
            if not is_tombstone(record):
                cursor = Cursor.from_json(decoded(record))
                if cursor.history != self.cursor.history:
                    self.changes += 1
                if cursor.offset != self.cursor.offset or cursor.resume != self.cursor.resume:
                    self._moved = time.monotonic()
                self.cursor = cursor
        elif name in _OTHER_DEFINITIONS:
            self.changes += rest.partition("/")[0] == quoted(self._journal.destination)
