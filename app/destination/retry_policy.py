"""What happens after an error: the one place that decides.

The law: an error that time may heal is tried again with growing pauses, any other waits for a person; a damaged
event at the same place three times is not healed by time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from app.service.status import State
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
"""Between two looks whether another worker still lives."""
_SAME_PLACE_LIMIT = 3
_MOST_PLACES = 64
_NOWHERE = "no position known"


@dataclass(frozen=True, slots=True)
class Decision:
    """The state to be in, and after how many seconds to begin anew; None means not by itself."""

    state: State
    pause: float | None


@dataclass(slots=True)
class ErrorPolicy:
    """Remembers what went wrong lately; one for each destination."""

    jitter: random.Random = field(default_factory=random.Random)
    _failures: int = 0
    _has_run: bool = False
    _has_conflict: bool = False
    _damaged: dict[str, int] = field(default_factory=dict)

    def succeeded(self) -> None:
        """Something was published, so the pauses begin anew.

        What is damaged at a known place stays counted: each run may publish what stands before it.
        """
        self._failures, self._has_run, self._has_conflict = 0, True, False
        self._damaged.pop(_NOWHERE, None)

    def decide(self, error: AqueductError) -> Decision:
        """What to do about an error that ended a run."""
        if isinstance(error, Fenced | AnotherWorkerLeads):
            # The next run leads only where the other worker is gone.
            return Decision(State.FENCED, _OTHER_SECONDS)
        if isinstance(error, ServerIdConflict) and not self._has_conflict:
            # A worker of another installation that has ended is listed until the server's next heartbeat to it.
            self._has_conflict = True
            return Decision(State.RETRYING, _OTHER_SECONDS)
        # What was in order once, as a grant that somebody took away, may be given back.
        may_heal = self._has_run and isinstance(error, PreflightError)
        if (error.retry is Retry.MANUAL and not may_heal) or self._is_stuck(error):
            return Decision(State.FAILED, None)
        pause = min(_FIRST_PAUSE * 2**self._failures, _LONGEST_PAUSE)
        # Capped, as a power of two outgrows a float in a night of failures.
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        return Decision(State.RETRYING, pause * self.jitter.uniform(0.5, 1.0))

    def _is_stuck(self, error: AqueductError) -> bool:
        if not isinstance(error, CorruptEvent | MalformedEvent | ReaderStalled):
            return False
        place = str(error.where.get("coordinates", _NOWHERE))
        self._damaged[place] = times = self._damaged.pop(place, 0) + 1
        while len(self._damaged) > _MOST_PLACES:
            del self._damaged[next(iter(self._damaged))]
        return times >= _SAME_PLACE_LIMIT
