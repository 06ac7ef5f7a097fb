"""The watch for stalled decoders, which have work and make no progress, such as a frozen or swapped process.

Invariant: only the decoder whose piece is next in order is checked, since others may wait for it, and those
that have not started. One that uses CPU is working, however long it takes. Time in which the worker was
frozen itself does not count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

STALL_SECONDS = 15.0
"""Limit without a message and without CPU use. A chunk takes less than a second of CPU."""
_LEAST_CPU_SECONDS = 0.2
"""Minimum that counts as work in that time: a stopped process uses none, a swapping one little."""
_LONGEST_GLANCE = 2.0
"""The most that counts of the time between two checks: the worker may have been frozen itself."""
_TICKS = os.sysconf("SC_CLK_TCK")
_TIMES = slice(11, 13)
"""User and system time, among the fields of /proc/<pid>/stat after the name."""


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU time of a process; None where the system does not report it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[_TIMES])) / _TICKS
    except (OSError, ValueError):
        return None


@dataclass(slots=True)
class StallWatch:
    """Checks one decoder at a time, periodically."""

    limit: float = STALL_SECONDS
    clock: Callable[[], float] = time.monotonic
    cpu: Callable[[int], float | None] = cpu_seconds
    _subject: tuple[int, object] | None = None
    _still: float = 0.0
    """Seconds for which the subject made no progress."""
    _looked: float = field(default=0.0)
    _used: float | None = None
    """The CPU time of the subject at its last progress."""

    def stalled(self, pid: int, progress: object) -> float | None:
        """Return the seconds without progress once too many; ``progress`` changes with each message."""
        now, used = self.clock(), self.cpu(pid)
        if self._subject != (pid, progress) or self._works(used):
            self._subject, self._still, self._used = (pid, progress), 0.0, used
        else:
            self._still += min(now - self._looked, _LONGEST_GLANCE)
        self._looked = now
        return self._still if self._still >= self.limit else None

    def _works(self, used: float | None) -> bool:
        if used is None or self._used is None:
            return False
        return used - self._used >= _LEAST_CPU_SECONDS

    def rest(self) -> None:
        """Reset: no decoder has work."""
        self._subject = None
