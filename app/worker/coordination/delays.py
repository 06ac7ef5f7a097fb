"""How long a worker waits before it takes a destination, requests it again, or hands it over.

Invariant: the time is passed in, never read; a wait counts only while its cause stays the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connectors.backoff import Backoff

OTHERS_TURN_SECONDS = 1.5
"""The time reserved for the assigned worker; after it, any worker takes a destination without a leader."""
_LONGEST_REST = 30.0
"""The longest rest after a destination was lost in a way that may happen again."""


@dataclass(slots=True)
class RestPeriods:
    """Destinations that were lost and are not requested for a while, which grows each time."""

    _until: dict[str, tuple[float, Backoff]] = field(default_factory=dict)
    """When the rest of each destination ends, and the backoff that gives its next rest."""

    def begin(self, name: str, now: float) -> None:
        """Record that a destination was lost."""
        until, backoff = self._until.get(name, (now, Backoff(1.0, _LONGEST_REST)))
        if now - until >= 2 * _LONGEST_REST:
            backoff.reset()
        self._until[name] = (now + backoff.pause(), backoff)

    def has(self, name: str, now: float) -> bool:
        """Return whether a destination is to be left alone."""
        return name in self._until and self._until[name][0] > now

    def ends(self, now: float) -> list[float]:
        """Return the times at which resting destinations may be requested again."""
        return [until for until, _ in self._until.values() if until > now]


@dataclass(slots=True)
class Vacancies:
    """Destinations without a leader, and since when."""

    _since: dict[str, float] = field(default_factory=dict)

    def seen(self, name: str, now: float) -> None:
        """Record that a destination has no leader."""
        self._since.setdefault(name, now)

    def filled(self, name: str) -> None:
        """Record that a destination has a leader."""
        self._since.pop(name, None)

    def is_anybodys(self, name: str, now: float) -> bool:
        """Return whether the turn of the assigned worker is over."""
        return now - self._since.get(name, now) > OTHERS_TURN_SECONDS

    def ends(self) -> list[float]:
        """Return the times from which any worker may take each destination."""
        return [since + OTHERS_TURN_SECONDS for since in self._since.values()]


@dataclass(slots=True)
class PlannedMoves:
    """Destinations led here that should be led elsewhere, and since when."""

    delay: float
    _since: dict[str, tuple[str, float]] = field(default_factory=dict)

    def due(self, led: Iterable[str], plan: Mapping[str, str], me: str, now: float) -> list[str]:
        """Return, in order, the destinations that one other worker should have led for the whole delay."""
        before, self._since = self._since, {}
        for name in led:
            better = plan.get(name, me)
            if better != me:
                known, since = before.get(name, ("", now))
                self._since[name] = (better, since if known == better else now)
        return sorted(name for name, (_, since) in self._since.items() if now - since >= self.delay)
