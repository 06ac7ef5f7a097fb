"""How long the wall clock has run evenly, which distinguishes what is old from what a step made old.

Files and markers have times of the wall clock. If it steps forward by a day, all of them seem a day older, and
readers may still need them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

_STEP: float = 30.0
"""Seconds from which on a difference to the monotonic clock is a step, and no correction of its rate."""


@dataclass(slots=True)
class SteadyClock:
    """Compares the wall clock with the monotonic one each time that it is asked."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    _ahead: float | None = None
    _stepped: float = float("-inf")

    def seconds(self) -> float:
        """The seconds since the last step that was seen, at most; infinite without one."""
        now = self.monotonic()
        ahead = self.wall() - now
        if self._ahead is not None and abs(ahead - self._ahead) > _STEP:
            self._stepped = now
        self._ahead = ahead
        return now - self._stepped
