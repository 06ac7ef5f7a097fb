"""Backoff: pauses between attempts, which double from a first pause up to a longest.

Invariant: a Backoff reads no clock and does not sleep; its owner waits, and resets it after a success.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random


@dataclass(slots=True)
class Backoff:
    """The pauses of one loop, in seconds."""

    first: float
    longest: float
    jitter: Random | None = None
    """Shortens each pause by up to half, at random: callers that failed together must not retry together."""
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        self._next = self.first

    def pause(self) -> float:
        """Return the pause after another failure."""
        pause, self._next = self._next, min(2 * self._next, self.longest)
        return pause if self.jitter is None else pause * self.jitter.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin with the first pause again."""
        self._next = self.first
