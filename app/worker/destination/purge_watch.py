"""Watch of the time until the source purges unread binlog, beside the run and after it failed.

Invariant: it queries rarely, over its own connection, and never stops anything: a failed query is logged
once, and the last figures are kept.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from app import metrics
from app.worker.status import TO_PUBLISH, DestinationStatus, Purge
from connectors.errors import (
    AqueductError,
)
from connectors.mysql.lookup.binlog_retention import Retention, created_at, read_retention
from connectors.mysql.position import Coordinates
from connectors.mysql.server.connection import SourceAddress

log = logging.getLogger(__name__)

_ASK_SECONDS = 60.0
"""The interval between two checks."""
_LOW = 6 * 3600.0
"""The time below which a warning is logged."""
_WINDOW = 10
"""The number of checks over which speeds are measured."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One check, from which speeds are computed."""

    at: float
    lag: float
    """The lag of our position in seconds."""
    space_left: float
    written: int
    """Bytes that the source wrote since the first check."""


@dataclass(slots=True)
class PurgeWatch:
    """The watch of one destination on this worker."""

    status: DestinationStatus
    address: Callable[[], SourceAddress | None]
    """The source read now or last; None before the first."""
    seconds: float = _ASK_SECONDS
    _looks: deque[Observation] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    _creation_times: dict[str, float] = field(default_factory=dict)
    _end: Coordinates | None = None
    _is_warned: bool = False
    _has_failed: bool = False

    async def run(self) -> None:
        """Check at intervals, until cancelled."""
        while True:
            address = self.address()
            if self.status.state not in TO_PUBLISH:
                if self.status.purge is not None:
                    self.status.purge = None
                    self._looks.clear()
            elif address is not None and self.status.cursor is not None:
                await self._look(address)
            await asyncio.sleep(self.seconds if self._looks else min(self.seconds, 5.0))

    async def _look(self, address: SourceAddress) -> None:
        try:
            await asyncio.to_thread(self._check, address)
            self._has_failed = False
        except AqueductError as error:
            if not self._has_failed:
                log.warning(
                    "%s: how long the source keeps its binlog is not known: %s",
                    self.status.name, error,
                )  # fmt: skip
            self._has_failed = True

    def _check(self, address: SourceAddress) -> None:
        cursor = self.status.cursor
        assert cursor is not None
        position, retention, now = cursor.offset.coordinates, read_retention(address), time.time()
        if not retention.binlogs:
            return
        if not retention.holds(position):
            self._publish(Purge(seconds_stopped=0.0, seconds=0.0))
            return

        def creation_time(file: str) -> float:
            if file not in self._creation_times:
                self._creation_times = {file: created_at(address, file)}
            return self._creation_times[file]

        seconds_left = retention.seconds_left(position, now, creation_time)
        written = self._written(retention)
        self._looks.append(
            Observation(now, self._lag(retention, now), retention.space_left(position), written)
        )
        self._publish(until_purged(seconds_left, list(self._looks)))

    def _written(self, retention: Retention) -> int:
        end, self._end = self._end, Coordinates(*retention.binlogs[-1])
        if end is None or not self._looks or not retention.holds(end):
            return 0
        return self._looks[-1].written + retention.bytes_from(end) - end.pos

    def _lag(self, retention: Retention, now: float) -> float:
        """The lag of our position in seconds; 0 at the end of the binlog."""
        cursor, committed_ms = self.status.cursor, self.status.committed_ms
        assert cursor is not None
        if retention.is_end(cursor.offset.coordinates):
            return 0.0
        if committed_ms:
            return max(0.0, now - committed_ms / 1000)
        last = self._looks[-1] if self._looks else None
        return last.lag + now - last.at if last is not None else 0.0

    def _publish(self, purge: Purge) -> None:
        name = self.status.name
        if self.status.state not in TO_PUBLISH:
            return  # the query began before this worker stopped leading
        self.status.purge = purge
        metrics.UNTIL_PURGED.labels(name).set(purge.seconds)
        metrics.UNTIL_PURGED_STOPPED.labels(name).set(purge.seconds_stopped)
        is_low = min(purge.seconds, purge.seconds_stopped) < _LOW
        if is_low and not self._is_warned:
            log.warning(
                "%s: the source may purge what is still to be read in %.1f h, and in %.1f h if nothing were "
                "read any more; read faster, or keep its binlogs longer",
                name, purge.seconds / 3600, purge.seconds_stopped / 3600,
            )  # fmt: skip
        self._is_warned = is_low


def until_purged(seconds_left: float, looks: list[Observation]) -> Purge:
    """The time until the position is purged, by age and by space, at the speeds of these checks.

    By age: the limit approaches by a second per second, and reading moves away from it. By space:
    writing brings the limit nearer; what was read is part of the space left.
    """
    first, last = looks[0], looks[-1]
    passed = last.at - first.at
    if passed <= 0:
        return Purge(seconds_stopped=seconds_left, seconds=math.inf if seconds_left else 0.0)
    losing = min(1.0, (last.lag - first.lag) / passed)
    by_age = seconds_left / losing if losing > 0 else math.inf
    return Purge(
        seconds_stopped=min(
            seconds_left, _until_full(last, (last.written - first.written) / passed)
        ),
        seconds=min(by_age, _until_full(last, (first.space_left - last.space_left) / passed)),
    )


def _until_full(last: Observation, speed: float) -> float:
    """Seconds until the remaining space is full, at a speed in bytes per second."""
    if math.isinf(last.space_left) or not speed > 0:
        return math.inf
    return last.space_left / speed
