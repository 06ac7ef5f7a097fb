"""Retry policy: the only decision on what follows an error.

Invariant: a transient error is retried with growing pauses, any other waits for an operator; an
event that is damaged three times at the same position is not transient.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from app.worker.status import State
from connectors.errors import (
    AnotherWorkerLeads,
    AqueductError,
    CorruptEvent,
    Fenced,
    MalformedEvent,
    PreflightError,
    ReaderStalled,
    Retry,
    ServerIdConflict,
)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_MOST_DOUBLINGS = 16
_OTHER_SECONDS = 5.0
"""The interval of checks whether another worker is still alive."""
_SAME_POSITION_LIMIT = 3
_MOST_POSITIONS = 64
_NOWHERE = "no position known"


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state, and the seconds until the next run; None means not by itself."""

    state: State
    pause: float | None


@dataclass(slots=True)
class ErrorPolicy:
    """The recent errors of one destination."""

    jitter: random.Random = field(default_factory=random.Random)
    _failures: int = 0
    _has_run: bool = False
    _has_conflict: bool = False
    _damaged: dict[str, int] = field(default_factory=dict)

    def succeeded(self) -> None:
        """Reset the pauses after something was published.

        Damage at a known position stays counted: each run may publish the transactions before it.
        """
        self._failures, self._has_run, self._has_conflict = 0, True, False
        self._damaged.pop(_NOWHERE, None)

    def decide(self, error: AqueductError) -> Decision:
        """The decision on an error that ended a run."""
        if isinstance(error, Fenced | AnotherWorkerLeads):
            # The next run leads only if the other worker is gone.
            return Decision(State.FENCED, _OTHER_SECONDS)
        if isinstance(error, ServerIdConflict) and not self._has_conflict:
            # The server lists an ended worker of another installation until its next heartbeat to it.
            self._has_conflict = True
            return Decision(State.RETRYING, _OTHER_SECONDS)
        # Privileges that were once sufficient, and then revoked, may be granted again.
        may_heal = self._has_run and isinstance(error, PreflightError)
        if (error.retry is Retry.MANUAL and not may_heal) or self._is_stuck(error):
            return Decision(State.FAILED, None)
        pause = min(_FIRST_PAUSE * 2**self._failures, _LONGEST_PAUSE)
        # Capped, as a power of two overflows a float in a night of failures.
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        return Decision(State.RETRYING, pause * self.jitter.uniform(0.5, 1.0))

    def _is_stuck(self, error: AqueductError) -> bool:
        if not isinstance(error, CorruptEvent | MalformedEvent | ReaderStalled):
            return False
        position = str(error.context.get("coordinates", _NOWHERE))
        self._damaged[position] = times = self._damaged.pop(position, 0) + 1
        while len(self._damaged) > _MOST_POSITIONS:
            del self._damaged[next(iter(self._damaged))]
        return times >= _SAME_POSITION_LIMIT
