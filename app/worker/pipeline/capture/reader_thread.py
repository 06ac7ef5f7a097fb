"""The thread that reads one source and hands its chunks to decoders.

Invariant: the thread owns the connection, reports to the decoders why it ends, and never outlives the run that
started it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from app.failpoints import point
from app.worker.pipeline.capture.schema_tracker import SchemaTracker
from app.worker.pipeline.decoders.protocols import Decoders
from app.worker.pipeline.portions import CapturedChunk, Portion
from connectors.errors import AqueductError, MalformedEvent, ReaderStalled, SourceLost
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.lookup.skipped_transactions import TransactionSkipper
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.replica import Bell, BinlogStream
from tables.history.resolved_statement import ResolvedStatement

log = logging.getLogger(__name__)

STALL_SECONDS = 120.0
"""Seconds allowed for the work on one chunk before it is put, mainly for its statement."""


Deletes = Callable[[Coordinates, Transaction, ResolvedStatement], Iterator[Portion]]
"""Makes the deletes of the rows that a statement removes; they enter before the statement, at its start."""


class ReaderClosed(Exception):
    """The run ended while something was waited for."""


class Reader(threading.Thread):
    """Reads from an open stream until it breaks or the decoders take no more."""

    def __init__(
        self,
        stream: BinlogStream,
        decoders: Decoders,
        schema_tracker: SchemaTracker | None = None,
        skipped: TransactionSkipper[ResolvedStatement] | None = None,
        deletes: Deletes | None = None,
    ) -> None:
        super().__init__(name="binlog-reader", daemon=True)
        self._stream = stream
        self._decoders = decoders
        self._schema_tracker = schema_tracker
        self._skipped = skipped
        self._deletes = deletes
        self.inlet = Inlet()
        """The inlet for portions from outside the source."""
        self._working: tuple[float, Coordinates] | None = None
        """The start time and the position of the chunk in work."""

    def run(self) -> None:
        """Read the stream; report the error that ends it after everything that was read."""
        try:
            for chunk in self._stream.chunks(self._decoders.idle, interruption=self.inlet):
                point("read.chunk")
                self._working = (time.monotonic(), chunk.start)
                entered = [*self.inlet.before(chunk)]
                # Some portions are made only while they are put, which may take long.
                entering = chain.from_iterable(entered)
                if chunk.is_rest:
                    self._working = None
                    if not all(map(self._decoders.put, entering)):
                        return
                    continue
                effect = None if self._schema_tracker is None else self._schema_tracker.note(chunk)
                self._working = None
                # Deletes wait until everything before them is published, which may take long too.
                parts = self._parts(chunk, effect)
                if not all(map(self._decoders.put, chain(entering, parts))):
                    return
        except ReaderClosed:
            return
        except AqueductError as error:
            self._decoders.finish(error)
        except OSError as error:
            # A fault of this machine, not of the data: a retry may succeed.
            self._decoders.finish(SourceLost(f"{type(error).__name__}: {error}"))
        except Exception as error:
            log.debug("the reader failed", exc_info=True)
            self._decoders.finish(MalformedEvent(f"{type(error).__name__}: {error}"))

    def _parts(self, chunk: Chunk, effect: ResolvedStatement | None) -> Iterator[Portion]:
        """Yield a chunk as decoders get it, without skipped transactions."""
        if self._skipped is None:
            yield from self._deleted(chunk, effect)
            yield CapturedChunk(chunk, effect)
            return
        for part, own in self._skipped.parts(chunk, effect):
            if part is chunk:
                yield from self._deleted(chunk, effect)
            yield CapturedChunk(part, own)

    def _deleted(self, chunk: Chunk, effect: ResolvedStatement | None) -> Iterator[Portion]:
        """Yield the deletes of the rows that the statement at the end of a chunk removes."""
        if self._deletes is None or self._schema_tracker is None or effect is None:
            return
        if (transaction := self._schema_tracker.transaction) is not None:
            yield from self._deletes(chunk.start, transaction, effect)

    def check(self) -> None:
        """Raise ReaderStalled if the thread is stuck; a thread cannot be killed, so it is abandoned."""
        working = self._working
        if working is not None and time.monotonic() - working[0] > STALL_SECONDS:
            raise ReaderStalled(
                f"for {time.monotonic() - working[0]:.0f} s", coordinates=working[1]
            )

    def stop(self) -> None:
        """End the thread and the decoders; neither reads nor waits for room after this."""
        self._decoders.close()
        self._stream.close()
        if self.is_alive():
            self.join(timeout=5)


# The inlet of the stream, where portions from outside the source enter.
#
# Invariant: portions enter between two transactions of the source, in the order in which they
# were handed in. A portion enters at the first such position that is read after it was handed in
# and that is not before its own position. A waiting portion enters even if the source is idle.

Entering = Callable[[Coordinates], Iterable[Portion]]
"""Makes one portion or several, in the reader's thread, once their position is known.

They enter directly after each other: the stream waits until all of them are made, however long that takes.
"""


class Inlet:
    """Filled by any thread, emptied by the reader's thread; see Interruption."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Entering, Coordinates | None]] = deque()
        self._bell = Bell()

    def hand_in(self, entering: Entering, *, not_before: Coordinates | None = None) -> None:
        """Add portions after those handed in earlier; they enter at ``not_before`` or later."""
        self._waiting.append((entering, not_before))
        self._bell.ring()

    def before(self, chunk: Chunk) -> Iterator[Iterable[Portion]]:
        """Yield what enters before a chunk, as handed in; nothing if the chunk begins within a transaction."""
        while self._waiting and chunk.begins_between:
            entering, least = self._waiting[0]
            if least is not None and chunk.start.order < least.order:
                return
            self._waiting.popleft()
            yield entering(chunk.start)

    @property
    def is_wanted(self) -> bool:
        """Whether a portion waits."""
        return bool(self._waiting)

    def fileno(self) -> int:
        """The descriptor that a new portion makes readable."""
        return self._bell.fileno()

    def noticed(self) -> None:
        """Make the descriptor unreadable."""
        self._bell.noticed()
