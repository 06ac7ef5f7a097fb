"""The reading of one table's existing rows, chunk after chunk.

Invariant: chunks enter the stream in the order of their keys, and after a refused chunk all later chunks
are refused too. So all rows that the journal records as read are published without a gap, whatever ends
the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from app import metrics
from app.failpoints import point
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.emptied_tables import EmptiedTables
from app.worker.destination.snapshot.entries import Committed, Entries
from app.worker.destination.snapshot.read_times import LaneTimes
from app.worker.pipeline.capture.reader_thread import Entering
from app.worker.pipeline.changed_keys import NOT_PUBLISHED, QUARANTINED
from app.worker.pipeline.portions import Portion, SelectedRows
from connectors.errors import (
    AqueductError,
    MappingError,
    SnapshotUnsupported,
    SourceLost,
    SourceRefused,
    SpoolFull,
    TableUnreadable,
)
from connectors.mysql.position import Coordinates
from connectors.mysql.select.chunk_reader import ChunkReader, DefinitionChanged, ReadChunk
from connectors.mysql.select.read_views import Seen, seen_at
from connectors.mysql.select.spool import Spool
from tables.state.snapshots.resume_key import ResumeKeys
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot, gone, note_of
from wire.changes import reading_id

log = logging.getLogger(__name__)

DEPTH = 4
"""Chunks of a table in progress at once: one chunk is read while others are decoded and committed."""
_AGAIN_SECONDS = 0.5
_MOST_SECONDS = 60.0
_LOST_SECONDS = 5.0
_QUARANTINED_SECONDS = 10.0
_ROOM_SECONDS, _FULL_SECONDS = 10.0, 3600.0
"""The interval of checks whether a spool's folder has room, and the time after which the table is FAILED."""
_DIFFERS_SECONDS = 10.0
"""The time after which a table that differs from its schema history is reported. Before that, a statement on
the table may still be on its way."""
_COMPARE = (
    "A statement that the stream has not reached yet is waited for. If there is none, run `python -m app "
    "schema check`; after one that was not logged, begin the history again by snapshot.mode recovery."
)


@dataclass(slots=True)
class _UnderWay:
    """A chunk that was handed in."""

    since: int
    begins: int
    after: TableSnapshot
    """The table's state once the chunk is committed."""
    committed: asyncio.Future[Committed]
    read: int | None
    """The number of the read whose rows the chunk has."""
    rows: SelectedSpool | None = None
    """The chunk's rows, if they are several portions."""

    def close(self) -> None:
        """Enter no more of the chunk's rows."""
        if self.rows is not None:
            self.rows.close()


class TableReading:
    """Reads one table to its end."""

    def __init__(
        self,
        snapshot: TableSnapshot,
        reader: ChunkReader,
        entries: Entries,
        *,
        server_id: int,
        sees: Seen,
        show: Callable[[TableSnapshot], None],
        turns: asyncio.Semaphore,
        times: LaneTimes,
        resume_keys: ResumeKeys,
        emptied: EmptiedTables | None = None,
    ) -> None:
        """``sees``: the transactions from before changed keys are recorded; the first SELECT must see them.

        ``turns``: held by each read of a chunk. ``times``: the times of the reads, queried by the reader.
        ``resume_keys``: how the last row's key is stored. ``emptied``: deletes the rows that subscribers have.
        """
        self._times, self._resume_keys, self._emptied = times, resume_keys, emptied
        self._snapshot, self._reader, self._entries = snapshot, reader, entries
        self._server_id, self._sees, self._show, self._turns = server_id, sees, show, turns
        self._since = 0
        """The generation of the last chunk that was committed."""
        self._attempt = entries.number()
        self._again_seconds = _AGAIN_SECONDS
        self._is_stopping = False
        self._wait: asyncio.Timeout | None = None
        """What ``stop`` ends; None while nothing is waited for that it may end."""
        self._is_published = True
        self._unreadable: str | None = None
        """Why rows that were read cannot be decoded."""
        self._reported: str | None = None
        """The error that prevents reading now."""
        self._is_quarantined = False
        """Whether the last rows were refused because the table is quarantined."""
        self._differs_since: float | None = None
        """Since when the server's table differs from its history."""
        self._full_since: float | None = None
        """Since when the spool's folder has no room, by the monotonic clock; None if it has room."""
        self._under_way: deque[_UnderWay] = deque()

    def stop(self) -> None:
        """Read no more; ``run`` ends once the chunks under way are committed."""
        self._is_stopping = True
        if self._wait is not None:
            self._wait.reschedule(0)
        self._reader.close()

    async def run(self) -> None:
        """Read until the end of the table is published, the reading is stopped, or the run ends."""
        try:
            await self._run()
        finally:
            for one in self._under_way:
                one.close()

    async def _run(self) -> None:
        while self._snapshot.replaces and self._is_published and not self._is_stopping:
            self._under_way.append(self._empty())
            if not await self._settled():
                await self._refused()
        reached, ended = self._snapshot, False
        while reached.is_pending or self._under_way:
            while not ended and not self._is_stopping and len(self._under_way) < DEPTH:
                one = await self._next(reached)
                if one is None:
                    break
                self._under_way.append(one)
                reached, ended = one.after, not one.after.is_pending
                if ended:
                    self._reader.rest()
            if not self._under_way:
                if self._is_stopping:
                    break
                reached, ended = self._snapshot, False
                continue
            if not await self._settled():
                await self._refused()
                reached, ended = self._snapshot, False
        self._times.drop()
        self._reader.close()

    def _empty(self) -> _UnderWay:
        """Hand in a portion that removes all rows of the subscribers; later changes are published after it."""
        before = self._snapshot
        # If some rows of the table were published, the portion needs a name that none of them has.
        chunks = before.chunks + 1 if before.chunks else 0
        after = replace(
            before,
            replaces=False,
            replacing=True,
            state=SnapshotState.READING,
            chunks=chunks,
            rows=0,
        )
        return self._entering(after, None, empties=True, is_read=False)

    async def _next(self, reached: TableSnapshot) -> _UnderWay | None:
        """Read the next chunk and hand it in; None if it has to be tried again."""
        point("snapshot.before")
        if not self._is_published or self._unreadable is not None:
            return self._hand_in(reached, None, error=self._unreadable)
        try:
            last = self._resume_keys.read(reached.after)
            if not await self._has_turn():
                return None
            try:
                chunk = await in_its_own_thread(lambda: self._reader.read(last, self._sees))
            finally:
                self._turns.release()
        except DefinitionChanged as error:
            self._times.drop()
            self._differs(error)
            await self._sleep(_AGAIN_SECONDS)
            return None
        except SpoolFull as error:
            self._times.drop()
            self._full_since = self._full_since or time.monotonic()
            if time.monotonic() - self._full_since >= _FULL_SECONDS:
                return self._hand_in(reached, None, error=f"{error.name}: {error}")
            self._trouble(error)
            await self._sleep(_ROOM_SECONDS)
            return None
        except SnapshotUnsupported as error:
            self._times.drop()
            return self._hand_in(reached, None, error=f"{error.name}: {error}")
        except (SourceLost, SourceRefused, TableUnreadable, MappingError) as error:
            self._times.drop()
            if self._is_stopping:
                return None
            # The stream has its own connection, which may be healthy, and needs no key that is missing here.
            self._trouble(error)
            await self._sleep(_LOST_SECONDS)
            return None
        if not self._is_quarantined:
            self._trouble(None)
        self._differs_since = self._full_since = None
        point("snapshot.read")
        return self._hand_in(reached, chunk)

    async def _has_turn(self) -> bool:
        """Wait for a turn, which the caller ends; return False, without a turn, if the reading is stopped."""
        has_turn = False
        async with self._until_stopped():
            has_turn = await self._turns.acquire()
        if has_turn and self._is_stopping:
            self._turns.release()
        return has_turn and not self._is_stopping

    async def _sleep(self, seconds: float) -> None:
        async with self._until_stopped():
            await asyncio.sleep(seconds)

    @contextlib.asynccontextmanager
    async def _until_stopped(self) -> AsyncIterator[None]:
        """End what the block waits for once the reading is stopped."""
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0 if self._is_stopping else None) as self._wait:
                    yield
        finally:
            self._wait = None

    def _differs(self, error: DefinitionChanged) -> None:
        """Report that the server's table differs from its definition, once that has lasted."""
        name, now = ".".join(self._snapshot.name), time.monotonic()
        log.debug("%s: %s", name, error)
        since = self._differs_since = self._differs_since or now
        if now - since >= _DIFFERS_SECONDS:
            why = f"the source's table is not as its schema history has it: {error}"
            self._trouble(TableUnreadable(why, table=name, remedy=_COMPARE))

    def _trouble(self, error: AqueductError | None) -> None:
        """Report what prevents reading, once."""
        found = None if error is None else f"{error.name}: {error}"
        if found is not None and found != self._reported:
            table = ".".join(self._snapshot.name)
            log.error(
                "%s: existing rows of %s cannot be read now: %s",
                self._snapshot.destination,
                table,
                found,
            )
        self._report(found)

    def _report(self, found: str | None) -> None:
        """Show why the table cannot be read to its end now; None: it can."""
        if found != self._reported:
            self._reported = found
            self._show(replace(self._snapshot, error=found))

    def _hand_in(
        self, reached: TableSnapshot, chunk: ReadChunk | None, *, error: str | None = None
    ) -> _UnderWay:
        """Hand in a chunk; None: the reading ends, as the table does not exist or cannot be read."""
        now = time.time_ns() // 1_000_000
        if error is not None:
            state = SnapshotState.FAILED
        elif chunk is None:
            state = SnapshotState.GONE
        else:
            state = reached.ended if chunk.is_last else SnapshotState.READING
        if chunk is not None and chunk.spool is not None:
            # Without a key, nothing shows which rows of the table were published before.
            return self._enter_all(replace(reached, ts_ms=now), chunk, chunk.spool)
        last = reached.after if chunk is not None else None
        if chunk is not None and chunk.last is not None:
            last = self._resume_keys.stored(chunk.last)
        before = gone(reached) if state is SnapshotState.GONE else reached
        after = replace(
            before,
            state=state,
            after=last,
            chunks=reached.chunks + 1,
            estimated_rows=chunk.estimate
            if chunk and chunk.estimate is not None
            else reached.estimated_rows,
            rows=reached.rows + (chunk.rows if chunk is not None else 0),
            ts_ms=now,
            error=reached.unlogged if error is None and state is SnapshotState.FAILED else error,
            replacing=reached.replacing and state is SnapshotState.READING,
            removes=() if chunk is not None and chunk.is_last else before.removes,
        )
        return self._entering(after, chunk, removes=reached.removes, replaced=reached.replacing)

    def _enter_all(self, reached: TableSnapshot, chunk: ReadChunk, spool: Spool) -> _UnderWay:
        """Hand in all rows of a table, which replace its published rows."""
        number, since = self._entries.number(), self._since
        rows = SelectedSpool(
            spool,
            chunk,
            replace(reached, after=None, rows=0, error=None),
            number=number,
            since=since,
            attempt=self._attempt,
            server_id=self._server_id,
        )
        return self._handed(
            number, rows.entering, chunk.high, since=since, after=rows.after, rows=rows
        )

    def _entering(
        self,
        after: TableSnapshot,
        chunk: ReadChunk | None,
        *,
        empties: bool = False,
        is_read: bool = True,
        removes: tuple[str, ...] = (),
        replaced: bool = False,
    ) -> _UnderWay:
        """Hand in a chunk, or a portion without rows; ``after``: the table's state after the commit."""
        number, since = self._entries.number(), self._since
        kept = min([since, *(one.since for one in self._under_way)])
        attempt = self._attempt
        if chunk is not None:
            read_ms = chunk.began_ms
        else:
            read_ms = self._times.without_select() if empties else after.ts_ms

        def entering(start: Coordinates) -> Iterable[Portion]:
            rows = SelectedRows(
                start=start,
                table=after.name,
                read=reading_id(after.id, after.name, after.chunks),
                id=number,
                read_ms=read_ms,
                server_id=self._server_id,
                attempt=attempt,
                since=since,
                begins=number,
                kept=kept,
                table_map=chunk.table_map if chunk is not None else b"",
                blocks=chunk.blocks if chunk is not None else (),
                note=note_of(after),
                empties=empties,
                is_read=is_read,
                removes=removes if chunk is not None and chunk.is_last else (),
                replaced=replaced and chunk is not None and chunk.is_last,
            )
            if not empties or self._emptied is None:
                return (rows,)
            gone = self._emptied.replaced(start, after, (read_ms, self._server_id))
            return chain(gone, [rows])

        high = chunk.high if chunk is not None else None
        return self._handed(number, entering, high, since=since, after=after)

    def _handed(
        self,
        number: int,
        entering: Entering,
        high: Coordinates | None,
        *,
        since: int,
        after: TableSnapshot,
        rows: SelectedSpool | None = None,
    ) -> _UnderWay:
        """Hand in portions that enter at a position that is not before ``high``."""
        committed = self._entries.hand_in(number, entering, not_before=high)
        point("snapshot.handed")
        return _UnderWay(
            since=since,
            begins=number,
            after=after,
            committed=committed,
            read=self._times.hand_in(),
            rows=rows,
        )

    async def _settled(self) -> bool:
        """Wait for the commit of the oldest chunk; return whether its rows were published."""
        one = self._under_way[0]
        committed = await one.committed
        self._under_way.popleft().close()
        point("snapshot.committed")
        self._learn(one, committed)
        entered = committed.entered
        if entered.unreadable is not None:
            self._unreadable = entered.unreadable
            return False
        if entered.refused is not None:
            self._is_published = entered.refused != NOT_PUBLISHED
            self._wait_again(one, entered.refused)
            log.info("%s: rows are read again: %s", ".".join(one.after.name), entered.refused)
            return False
        if removes := self._snapshot.removes:
            log.info(
                "%s: %d of %d row(s) that only subscribers had are deleted; the source has the others",
                ".".join(one.after.name), entered.removed, len(removes),
            )  # fmt: skip
        self._is_quarantined = False
        self._snapshot = one.after
        name, table = one.after.destination, ".".join(one.after.name)
        metrics.SNAPSHOT_ROWS.labels(name, table).inc(entered.rows)
        self._show(one.after)
        return True

    async def _refused(self) -> None:
        """Wait for the chunks after a refused one, which are refused too."""
        self._attempt = self._entries.number()
        while self._under_way:
            one = self._under_way.popleft()
            self._learn(one, await one.committed)
        # A quarantined table is refused until it is released.
        await self._sleep(self._again_seconds)

    def _wait_again(self, one: _UnderWay, reason: str) -> None:
        """Set the wait before rows are read again: for all rows of a table, as long as reading them took."""
        self._again_seconds = _AGAIN_SECONDS
        self._is_quarantined = reason == QUARANTINED
        if self._is_quarantined:
            # Once the quarantine is resolved, a new run begins.
            self._again_seconds = _QUARANTINED_SECONDS
            why = f"{reason}: `python -m app schema quarantine {one.after.destination}` shows what to do"
            self._report(f"{TableUnreadable.__name__}: {why}")
        elif one.rows is not None:
            self._again_seconds = min(max(_AGAIN_SECONDS, one.rows.seconds), _MOST_SECONDS)
            self._report(f"{reason}; all its rows are read again")

    def _learn(self, one: _UnderWay, committed: Committed) -> None:
        self._times.publish(one.read)
        self._since = one.begins
        self._sees = seen_at(committed.cursor.offset)


class SelectedSpool:
    """The rows of one SELECT, until they are committed or refused.

    The first portion states that all earlier rows of the table are gone. If the table changed since the
    SELECT, this portion and all others are refused. Otherwise all portions enter, since nothing else of the
    stream comes between them. So only the end of a run can leave a part of the rows published. The journal
    then states that the table's rows are to be replaced: the next run begins with the record that all rows
    are gone.

    Invariant: a portion is read from the spool once a decoder takes it. No two portions have the same name,
    whatever was killed.
    """

    def __init__(
        self,
        spool: Spool,
        chunk: ReadChunk,
        before: TableSnapshot,
        *,
        number: int,
        since: int,
        attempt: int,
        server_id: int,
    ) -> None:
        """``before``: the table's state, without any of these rows."""
        self._spool, self._chunk, self._before = spool, chunk, before
        self._number, self._since = number, since
        self._attempt, self._server_id = attempt, server_id
        self.seconds = time.time() - chunk.began_ms / 1000
        """How long reading the rows took."""
        self.after = self._state(len(spool), chunk.rows)
        """The table's state once all portions are committed."""

    def close(self) -> None:
        """Enter no more, and remove the rows."""
        self._spool.close()

    def entering(self, start: Coordinates) -> Iterator[SelectedRows]:
        """Yield the portions that enter at a position."""
        rows = 0
        for at in range(len(self._spool)):
            blocks = self._spool.blocks(at)
            if blocks is None:
                # The first portion was refused, or the run has ended.
                return
            rows += self._spool.rows_of(at)
            state = self._state(at + 1, rows)
            yield SelectedRows(
                start=start,
                table=state.name,
                read=reading_id(state.id, state.name, state.chunks),
                id=self._number,
                read_ms=self._chunk.began_ms,
                server_id=self._server_id,
                attempt=self._attempt,
                since=self._since,
                begins=self._number,
                kept=self._since,
                table_map=self._chunk.table_map,
                blocks=blocks,
                note=note_of(state),
                empties=at == 0,
                is_last=at + 1 == len(self._spool),
                replaced=at + 1 == len(self._spool),
            )

    def _state(self, portions: int, rows: int) -> TableSnapshot:
        """Return the table's state after some of the portions."""
        is_last = portions == len(self._spool)
        estimate = self._chunk.estimate
        return replace(
            self._before,
            state=self._before.ended if is_last else SnapshotState.READING,
            error=self._before.unlogged if is_last else None,
            # Rows that a killed run leaves are removed first, even if the table has a key by then.
            replaces=not is_last,
            replacing=False,
            chunks=self._before.chunks + portions,
            rows=rows,
            estimated_rows=self._before.estimated_rows if estimate is None else estimate,
        )
