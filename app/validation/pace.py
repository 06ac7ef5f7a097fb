"""The pace of reading: a limit on rows per second, and a pause while the source is busy.

Invariant: it is asked before each SELECT, and only delays it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

ThreadsRunning = Callable[[], Awaitable[int]]
"""Returns the number of sessions that the source executes statements of."""

BUSY_SECONDS = 1.0
"""The interval between two looks at a busy source."""


class Pace:
    """Delays the reading of one validation."""

    def __init__(
        self,
        threads_running: ThreadsRunning,
        *,
        rows_per_second: float | None,
        most_threads: int,
        busy: Callable[[int], object] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """``most_threads``: above that, reading pauses; ``busy`` receives their number when it begins to."""
        self._threads_running, self._busy = threads_running, busy
        self._rate, self._most = rows_per_second, most_threads
        self._clock, self._sleep = clock, sleep
        self._next = 0.0
        """The time at which the next rows may be read."""

    async def may_read(self) -> None:
        """Wait until the next rows may be read."""
        delay = self._next - self._clock()
        if delay > 0:
            await self._sleep(delay)
        is_reported = False
        while (threads := await self._threads_running()) > self._most:
            if not is_reported:
                self._busy(threads)
                is_reported = True
            await self._sleep(BUSY_SECONDS)

    def has_read(self, rows: int) -> None:
        """Count rows, so that the next ones come at the wanted rate."""
        if self._rate is not None:
            self._next = max(self._next, self._clock()) + rows / self._rate
