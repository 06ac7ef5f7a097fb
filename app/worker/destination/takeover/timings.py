"""Phases of a takeover with their times, logged so that an operator sees where it waited.

Invariant: it only observes; times are monotonic and count from the start of the takeover or of the
new run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Phases:
    """The phases of one run."""

    clock: Callable[[], float] = time.monotonic
    _began: float = -1.0
    _reached: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def reached(self, phase: str) -> float:
        """Record the end of a phase; return seconds since the beginning."""
        seconds = self.clock() - self._began
        self._reached.append((phase, seconds))
        return seconds

    def to_text(self) -> str:
        """All phases, each with the seconds until its end."""
        return ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in self._reached)
