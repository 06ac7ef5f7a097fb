"""The clock that gives the time at which a SELECT begins.

Invariant: by this clock, the time is not after the SELECT's view of the data.
"""

from __future__ import annotations

import time
from typing import Any, Protocol


class ReadClock(Protocol):
    """Gives the time at which a SELECT begins; called in the reader's thread."""

    def asked(self, cursor: Any, /) -> int:
        """Return the time, in milliseconds since 1970; called right before the SELECT, in its session."""

    def drop(self) -> None:
        """Discard the last time: its SELECT failed because of locks, and will be repeated."""


class WorkerClock:
    """This machine's clock."""

    def asked(self, _cursor: Any, /) -> int:
        return time.time_ns() // 1_000_000

    def drop(self) -> None:
        """See ReadClock."""
