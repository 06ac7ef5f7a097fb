"""How far a takeover came, and when: what an operator reads in the log where a destination stood still.

The law: it watches and changes nothing; times are of a clock that never goes back, from the moment this worker
was to lead or to begin anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Phases:
    """Of one run."""

    clock: Callable[[], float] = time.monotonic
    _began: float = -1.0
    _reached: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def reached(self, phase: str) -> float:
        """Note that a phase is behind us; seconds since the beginning."""
        seconds = self.clock() - self._began
        self._reached.append((phase, seconds))
        return seconds

    def told(self) -> str:
        """All of them, each with the seconds after which it was through."""
        return ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in self._reached)
