"""How long the source has had changes that are not published, watched beside the run and while it has failed.

It also sees a binlog that ends before what was read from it, which a connection that waits does not notice.

Invariant: it asks the source for its end over a connection of its own and takes time by this worker's clock, so
it holds where nothing is captured, where nothing is read, and whatever the source's clock says.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from app import metrics
from app.service.status import AT_WORK, DestinationStatus, State
from connectors.errors import AqueductError
from connectors.mysql.lookup.unread import BinlogEnd, read_end
from connectors.mysql.position import SourceOffset
from connectors.mysql.server.facts import SourceAddress

SECONDS = 10.0
"""Between two looks, and how exact the figure is."""
_MOST = 1000


@dataclass(slots=True)
class Unread:
    """Ends of one source that were seen, each with the moment, as far as they are not reached."""

    _seen: deque[tuple[float, BinlogEnd]] = field(default_factory=lambda: deque(maxlen=_MOST))
    _source: str = ""

    def seconds(self, now: float, offset: SourceOffset, end: BinlogEnd | None) -> float:
        """For how long the source has been past an offset; ``end`` is None where it did not answer."""
        if offset.server_uuid != self._source:
            self._seen.clear()
            self._source = offset.server_uuid
        if end is not None and (not self._seen or self._seen[-1][1] != end):
            if len(self._seen) == _MOST:
                # The oldest one counts; of those between, any may go.
                del self._seen[_MOST // 2]
            self._seen.append((now, end))
        while self._seen and not self._seen[0][1].is_past(offset):
            self._seen.popleft()
        return now - self._seen[0][0] if self._seen else 0.0


@dataclass(slots=True)
class LagWatch:
    """Of one destination on this worker."""

    status: DestinationStatus
    address: Callable[[], SourceAddress | None]
    """Of the source that is read, or was read last; None before the first."""
    went_back: Callable[[], None]
    """Called where the binlog ends before the cursor."""
    _unread: Unread = field(default_factory=Unread)
    _reported: SourceOffset | None = None
    """The cursor's offset that was past the end last: where the next run proves it, that is no news."""

    async def run(self) -> None:
        """Look from time to time, until cancelled."""
        while True:
            address, before = self.address(), self._running_at()
            if address is not None and self.status.state in AT_WORK:
                try:
                    end = await asyncio.to_thread(read_end, address)
                except AqueductError:
                    end = None  # the run says so; what was not reached before grows older
                self._show(end)
                if before is not None and end is not None:
                    self._hold_against(before, end)
            await asyncio.sleep(SECONDS)

    def _running_at(self) -> SourceOffset | None:
        """The cursor's offset while the source is read; None where no run would notice a call."""
        cursor = self.status.cursor
        return cursor.offset if cursor is not None and self.status.state is State.RUNNING else None

    def _hold_against(self, before: SourceOffset, end: BinlogEnd) -> None:
        """Call where an end that was asked for later is before the offset."""
        if end.is_before(before) and before != self._reported:
            self._reported = before
            self.went_back()

    def _show(self, end: BinlogEnd | None) -> None:
        cursor = self.status.cursor
        if cursor is not None and self.status.state in AT_WORK:
            seconds = self._unread.seconds(time.monotonic(), cursor.offset, end)
            self.status.unread_seconds = seconds
            metrics.UNREAD.labels(self.status.name).set(seconds)
