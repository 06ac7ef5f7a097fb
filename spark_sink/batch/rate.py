"""The limit of the rate at which changes are merged: a pause after each batch.

Spark bounds a batch, not how soon the next one follows.

Invariant: over a batch and its pause, the mean rate is at most the limit. A stop ends the pause.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from spark_sink.source.offsets import Offsets
from spark_sink.warehouse.ledger import spans


class _Event(Protocol):
    def wait(self, timeout: float, /) -> object: ...

    def set(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class RateLimit:
    """The limit in offsets per second; 0 is none."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    stopped: _Event = field(default_factory=threading.Event)

    def pause(self, began: float, start: Offsets, until: Offsets) -> None:
        """Waits as long as a batch of the offsets [start, until) that began at that time was too fast."""
        if self.per_second <= 0:
            return
        offsets = sum(end - first for first, end in spans(start, until).values())
        left = offsets / self.per_second - (self.clock() - began)
        if left > 0:
            self.stopped.wait(left)

    def stop(self) -> None:
        """Ends the pause, and all later ones."""
        self.stopped.set()
