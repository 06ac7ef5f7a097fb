"""A look at a part of a table: rows that were selected, and the topic read past them.

The worker publishes a server's transactions in the order of its binlog. Before a look, the topic is read up to
some offset; everything read is at or before a cursor, which is read next. The SELECTs begin once the server has
shown that they see everything before that cursor. After the SELECTs, the end of the binlog is determined, and
the topic is read once it is published past that end. If nothing is wrong, the image that a SELECT returned for
a key is therefore the key's last image before the look, or an image that the topic got during the look. A
merged topic is read once the merge has copied everything that was published until then; its records from before
the look are older still, and no later than that cursor.

Invariant: no lock is waited for, and no moment without writes is needed; a wrong row is found in the first look
at it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from app.operator.validation.errors import (
    NotComparable,
    PublishingStalled,
    SourceMoved,
    TableChanged,
)
from app.operator.validation.expected_rows import ExpectedRows
from app.operator.validation.folded_topic import FoldedTopic
from app.worker.destination.background import in_its_own_thread
from connectors.errors import SnapshotUnsupported, TableUnreadable
from connectors.kafka.reading import (
    Follower,
    Partition,
    StoredRecord,
    read_some,
    read_to_ends,
)
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import Coordinates
from connectors.mysql.select.chunk_reader import ChunkReader, DefinitionChanged, ReadChunk
from connectors.mysql.select.read_views import Seen, seen_at
from tables.history.codec import BASELINE, RESOLVED
from tables.journal_format import decoded, is_tombstone, quoted
from tables.state.cursor import CURSOR, Cursor
from tables.state.journal.records import VERSION
from tables.state.journal.state import JournalPartition
from tables.state.mapping_in_force import MAPPING
from tables.state.quarantine import QUARANTINE

LOOK_SECONDS = 3.0
"""The time for which chunks are read in one look."""
_AGAIN_SECONDS = 1.0
_MOST_ATTEMPTS = 5
_TRIED_SECONDS = 60.0
"""The time after which a failed read is not tried again, however few attempts there were."""

T = TypeVar("T")
After = Sequence[str] | None
Places = dict[Partition, int]
"""An offset in each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The part of a table that a look covered."""

    rows: int
    dead_letters: int
    """Rows that would be dead letters."""
    began: Places
    """The offsets from which the look read the topic."""
    last: After
    """The key of the last row."""
    is_last: bool
    """Whether no rows come after it."""


@dataclass(slots=True, kw_only=True)
class Looks:
    """Makes the looks at one table; ``folded`` has the rows that they select and the records that they read."""

    name: TableName
    reader: ChunkReader
    expected: ExpectedRows
    folded: FoldedTopic
    follower: Follower
    partitions: Sequence[Partition]
    """The partitions of the topic."""
    published: PublishedPosition
    take: Callable[[Partition, StoredRecord], object]
    changes: int
    """The value of ``published.changes`` at which the table is known to be as it is compared."""
    is_same: Callable[[], Awaitable[bool]]
    """Whether the table is still published by the definition and the rules that it is compared by."""
    caught_up: Callable[[], Awaitable[None]] | None = None
    """Waits until a merge has copied what the destination has published; None: its topics are not merged."""
    seconds: float = LOOK_SECONDS
    clock: Callable[[], float] = field(default=time.monotonic)

    async def at(self, after: After) -> Look:
        """Look at the rows after a key, as many as can be read in a few seconds.

        Raise TableChanged if its definition or its rules changed meanwhile, SnapshotUnsupported if the rows
        cannot be read exactly, TableUnreadable if they cannot be read now, NotComparable if the table is
        emptied each time.
        """
        return await self._look([after], seconds=self.seconds)

    async def samples(self, keys: Sequence[After]) -> Look:
        """Look at one chunk of rows after each of these keys; see ``at``."""
        return await self._look(keys, seconds=0.0)

    async def _look(self, starts: Sequence[After], *, seconds: float) -> Look:
        for _ in range(_MOST_ATTEMPTS):
            found = await self._once(starts, seconds)
            if not self.folded.is_emptied(self.name):
                return found
        raise NotComparable("it is truncated again and again")

    async def _once(self, starts: Sequence[After], seconds: float) -> Look:
        self.folded.begin_look()
        began = {one: await self.follower.position(one) for one in self.partitions}
        sees = await self.published.settled()
        rows = dead = 0
        until = self.clock() + seconds
        for start in starts:
            after, is_read = start, False
            while not is_read:
                chunk = await self._read(after, sees)
                selected, lost = self.expected.of(self.name, chunk)
                self.folded.select(selected)
                rows, dead, after = rows + len(selected), dead + lost, chunk.last or after
                is_read = chunk.is_last or self.clock() >= until
        await self.published.reached(chunk.high)
        if self.caught_up is not None:
            await self.caught_up()
        await read_to_ends(self.follower, self.partitions, self.take)
        await self._check_same()
        return Look(rows=rows, dead_letters=dead, began=began, last=after, is_last=chunk.is_last)

    async def _read(self, after: After, sees: Seen) -> ReadChunk:
        chunk = await self.tried(lambda: self.reader.read(after, sees))
        if chunk is None:
            raise NotComparable("it does not exist any more")
        return chunk

    async def tried(self, read: Callable[[], T]) -> T:
        """Read something of the table at the source, in a thread; try again if it cannot be read now.

        The new attempts wait for a statement on the table that is not published yet, and for a short problem of
        this table alone. An error of the server is raised at once.
        """
        attempt, until = 0, self.clock() + _TRIED_SECONDS
        while True:
            try:
                return await in_its_own_thread(read)
            except (DefinitionChanged, SnapshotUnsupported, TableUnreadable) as error:
                attempt += 1
                if attempt == _MOST_ATTEMPTS or self.clock() >= until:
                    raise _reason(error) from error
            await asyncio.sleep(_AGAIN_SECONDS)
            await self.published.settled()
            await self._check_same()

    async def _check_same(self) -> None:
        """Raise TableChanged if the table is published in another way since its definition was read."""
        changes = self.published.changes
        if changes != self.changes:
            if not await self.is_same():
                raise TableChanged("a statement or a rule changed it", self.name)
            self.changes = changes


def _reason(
    error: DefinitionChanged | SnapshotUnsupported | TableUnreadable,
) -> NotComparable | SnapshotUnsupported | TableUnreadable:
    if not isinstance(error, DefinitionChanged):
        return error
    return NotComparable(f"the source's table is not as its schema history has it: {error}")


# The position up to which a destination is published, followed in the journal.
#
# Invariant: a cursor is in the Kafka transaction of the rows before it, and the journal is read
# to an end that includes open transactions. A cursor is therefore never older than rows that were
# read before it.

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
