"""Watch of the source's unpublished changes and their age, beside the run and after it failed.

It also detects a binlog that ends before the cursor, which a waiting connection does not notice.

Invariant: it queries the binlog's end over its own connection and uses this worker's clock, so it
is correct even if nothing is captured or read, and independent of the source's clock.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from app import metrics
from app.worker.status import TO_PUBLISH, DestinationStatus, State
from connectors.errors import AqueductError
from connectors.mysql.lookup.binlog_end import BinlogEnd, read_end
from connectors.mysql.position import SourceOffset
from connectors.mysql.server.facts import SourceAddress

SECONDS = 10.0
"""The interval between two checks, and the accuracy of the age."""
_MOST = 1000


@dataclass(slots=True)
class PendingEnds:
    """Ends of one source's binlog that the cursor has not reached, each with its time."""

    _seen: deque[tuple[float, BinlogEnd]] = field(default_factory=lambda: deque(maxlen=_MOST))
    _source: str = ""

    def seconds(self, now: float, offset: SourceOffset, end: BinlogEnd | None) -> float:
        """Seconds since the source passed an offset; ``end`` is None if it did not answer."""
        if offset.server_uuid != self._source:
            self._seen.clear()
            self._source = offset.server_uuid
        if end is not None and (not self._seen or self._seen[-1][1] != end):
            if len(self._seen) == _MOST:
                # The oldest end counts; any end in between may be dropped.
                del self._seen[_MOST // 2]
            self._seen.append((now, end))
        while self._seen and not self._seen[0][1].is_past(offset):
            self._seen.popleft()
        return now - self._seen[0][0] if self._seen else 0.0


@dataclass(slots=True)
class LagWatch:
    """The watch of one destination on this worker."""

    status: DestinationStatus
    address: Callable[[], SourceAddress | None]
    """The source read now or last; None before the first."""
    went_back: Callable[[], None]
    """Called if the binlog ends before the cursor."""
    _unread: PendingEnds = field(default_factory=PendingEnds)
    _reported: SourceOffset | None = None
    """The last cursor offset that was past the end; reported once, as the next run proves it."""

    async def run(self) -> None:
        """Check at intervals, until cancelled."""
        while True:
            address, before = self.address(), self._running_at()
            if address is not None and self.status.state in TO_PUBLISH:
                try:
                    end = await asyncio.to_thread(read_end, address)
                except AqueductError:
                    end = None  # reported by the run; ends not reached grow older
                self._show(end)
                if before is not None and end is not None:
                    self._compare(before, end)
            await asyncio.sleep(SECONDS)

    def _running_at(self) -> SourceOffset | None:
        """The cursor's offset while the source is read; None if there is no run to react to ``went_back``."""
        cursor = self.status.cursor
        return cursor.offset if cursor is not None and self.status.state is State.RUNNING else None

    def _compare(self, before: SourceOffset, end: BinlogEnd) -> None:
        """Call ``went_back`` if an end that was queried later is before the offset."""
        if end.is_before(before) and before != self._reported:
            self._reported = before
            self.went_back()

    def _show(self, end: BinlogEnd | None) -> None:
        cursor = self.status.cursor
        if cursor is not None and self.status.state in TO_PUBLISH:
            seconds = self._unread.seconds(time.monotonic(), cursor.offset, end)
            self.status.unread_seconds = seconds
            metrics.UNREAD.labels(self.status.name).set(seconds)
            if seconds > (self.status.lag_seconds or 0.0):
                # Otherwise the lag would stay that of the last commit, however long ago it was.
                self.status.lag_seconds = seconds
                metrics.LAG.labels(self.status.name).set(seconds)
