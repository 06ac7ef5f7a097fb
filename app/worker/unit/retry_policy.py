"""Retry policy: the only decision on what follows an error.

Invariant: a transient error is retried with growing pauses; any other error waits for an operator. An
event that is damaged three times at the same position is not transient.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from app.worker.status import State
from connectors.backoff import Backoff
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

    backoff: Backoff = field(default_factory=lambda: Backoff(0.5, 30.0, Random()))  # noqa: S311 - jitter
    _has_run: bool = False
    _has_conflict: bool = False
    _damaged: dict[str, int] = field(default_factory=dict)

    def succeeded(self) -> None:
        """Reset the pauses after something was published.

        Damage at a known position stays counted: each run may publish the transactions before it.
        """
        self.backoff.reset()
        self._has_run, self._has_conflict = True, False
        self._damaged.pop(_NOWHERE, None)

    def decide(self, error: AqueductError) -> Decision:
        """The decision on an error that ended a run."""
        if isinstance(error, Fenced | AnotherWorkerLeads):
            # The next run leads only if the other worker is gone.
            return Decision(State.FENCED, _OTHER_SECONDS)
        if isinstance(error, ServerIdConflict) and not self._has_conflict:
            # The server lists an ended worker of another installation until it sends that worker a heartbeat.
            self._has_conflict = True
            return Decision(State.RETRYING, _OTHER_SECONDS)
        # Privileges that were once sufficient, and then revoked, may be granted again.
        may_heal = self._has_run and isinstance(error, PreflightError)
        if (error.retry is Retry.MANUAL and not may_heal) or self._is_stuck(error):
            return Decision(State.FAILED, None)
        return Decision(State.RETRYING, self.backoff.pause())

    def _is_stuck(self, error: AqueductError) -> bool:
        if not isinstance(error, CorruptEvent | MalformedEvent | ReaderStalled):
            return False
        position = str(error.context.get("coordinates", _NOWHERE))
        self._damaged[position] = times = self._damaged.pop(position, 0) + 1
        while len(self._damaged) > _MOST_POSITIONS:
            del self._damaged[next(iter(self._damaged))]
        return times >= _SAME_POSITION_LIMIT
