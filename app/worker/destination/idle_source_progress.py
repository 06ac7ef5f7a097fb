"""The time up to which a destination is published while its source is idle, for a merge that waits.

Invariant: the source's clock is read before the end of its binlog, so all commits before that time are before
that end. Once the cursor has reached the end, all these commits are published.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from connectors.errors import AqueductError
from connectors.mysql.lookup.binlog_end import BinlogEnd, read_clock_and_end
from connectors.mysql.position import SourceOffset
from connectors.mysql.server.connection import SourceAddress

_SECONDS = 0.3
"""The interval of queries to the source."""
_LOST_SECONDS = 2.0
"""The same while the source does not answer."""
_IN_FLIGHT_MS = 200
"""On MariaDB, and at the beginning of a file, a commit may have its time before the end includes it."""
_MOST = 100


@dataclass(slots=True)
class CompletenessWatch:
    """The watch of one run."""

    address: SourceAddress
    stated: Callable[[int], int | None] = lambda time_ms: time_ms
    """Returns the time to state instead, while rows that were read are not published; None: state no time."""
    ask: Callable[[SourceAddress], tuple[int, BinlogEnd]] = read_clock_and_end
    _ends: deque[tuple[int, BinlogEnd]] = field(default_factory=lambda: deque(maxlen=_MOST))
    """Times, each with the end of the binlog at that time; the cursor has not reached these ends yet."""
    _complete_ms: int = 0
    _reported_ms: int = 0

    async def run(self) -> None:
        """Ask at intervals, until cancelled."""
        while True:
            try:
                time_ms, end = await asyncio.to_thread(self.ask, self.address)
            except AqueductError:
                # The run itself reports a source that is lost.
                await asyncio.sleep(_LOST_SECONDS)
                continue
            self._ends.append((time_ms - _IN_FLIGHT_MS, end))
            await asyncio.sleep(_SECONDS)

    def news(self, offset: SourceOffset) -> int | None:
        """Return the time, in ms, before which all commits are published; None if it has not advanced."""
        while self._ends and not self._ends[0][1].may_be_past(offset):
            self._complete_ms = max(self._complete_ms, self._ends.popleft()[0])
        if self._complete_ms <= self._reported_ms:
            return None
        stated = self.stated(self._complete_ms)
        if stated is None or stated <= self._reported_ms:
            return None
        self._reported_ms = stated
        return stated
