"""The clock that says when a SELECT begins.

Invariant: the time is not after the SELECT's view of the data by that clock.
"""

from __future__ import annotations

import time
from typing import Any, Protocol


class ReadClock(Protocol):
    """The time at which a SELECT begins; called in the reader's thread."""

    def asked(self, cursor: Any, /) -> int:
        """Return it, in milliseconds since 1970, right before the SELECT in the same session."""

    def drop(self) -> None:
        """Take note that the SELECT has no rows for now."""


class WorkerClock:
    """This machine's clock."""

    def asked(self, _cursor: Any, /) -> int:
        return time.time_ns() // 1_000_000

    def drop(self) -> None:
        """See ReadClock."""
