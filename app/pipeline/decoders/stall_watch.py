"""Which decoder makes no progress though it has work, as a process that is frozen or swapped out does not.

Invariant: only the decoder whose piece is next in order is judged, since the others may wait for it, and those
that have not started; one that uses its CPU works, however long that takes. Time in which the worker itself was
frozen does not count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

STALL_SECONDS = 15.0
"""Without a message and without using the CPU. A chunk takes less than a second of it."""
_LEAST_CPU_SECONDS = 0.2
"""What counts as work in that time: a stopped process uses none, one that only swaps uses little."""
_LONGEST_GLANCE = 2.0
"""Of the time between two looks no more counts: the worker may have been frozen itself."""
_TICKS = os.sysconf("SC_CLK_TCK")
_TIMES = slice(11, 13)
"""User and system time, among the fields of /proc/<pid>/stat after the name."""


def cpu_seconds(pid: int) -> float | None:
    """How much CPU a process has used; None where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[_TIMES])) / _TICKS
    except (OSError, ValueError):
        return None


@dataclass(slots=True)
class StallWatch:
    """Looks at one decoder at a time, again and again."""

    limit: float = STALL_SECONDS
    clock: Callable[[], float] = time.monotonic
    cpu: Callable[[int], float | None] = cpu_seconds
    _subject: tuple[int, object] | None = None
    _still: float = 0.0
    """Seconds for which the subject made no progress."""
    _looked: float = field(default=0.0)
    _used: float | None = None
    """The CPU that it had used when its progress was seen last."""

    def stalled(self, pid: int, progress: object) -> float | None:
        """Seconds without progress, once they are too many; ``progress`` changes with each message."""
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
        """Nobody has work."""
        self._subject = None
