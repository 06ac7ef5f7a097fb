"""Up to when the warehouse is complete, from what Kafka held at known times.

Invariant: the time only moves forward where all that Kafka held then is applied; where Kafka is not seen, or
nothing is applied, it stays, so that its age grows. It is never after now: if the clock is set back, so is it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from spark_sink.source.offsets import Offsets

_MOST: int = 720


@dataclass(slots=True)
class Freshness:
    """Samples of Kafka's ends that are not yet applied, oldest first."""

    complete_until: float = 0.0
    _last: Offsets = field(default_factory=dict)
    """What Kafka held when it was last seen."""
    _samples: deque[tuple[float, Offsets]] = field(default_factory=deque)

    def seen(self, at: float, ends: Offsets) -> None:
        """Notes what Kafka held at a time."""
        if self._samples and at < self._samples[-1][0]:
            self._samples = deque((min(one, at), held) for one, held in self._samples)
        self.complete_until = min(self.complete_until, at)
        if len(self._samples) >= _MOST:
            # Each other one is enough where the sink is that late; the newest is always kept.
            self._samples = deque(list(self._samples)[::2])
        self._samples.append((at, ends))
        self._last = ends

    def reached(self, applied: Offsets) -> float:
        """The newest time of which all that Kafka held is applied."""
        while self._samples:
            at, ends = self._samples[0]
            if any(end > applied.get(place, 0) for place, end in ends.items()):
                break
            self.complete_until = max(self.complete_until, at)
            self._samples.popleft()
        return self.complete_until

    def unapplied(self, applied: Offsets) -> int:
        """How many offsets are not applied of what Kafka held when it was last seen."""
        if not self._samples:
            return 0
        _, ends = self._samples[-1]
        return sum(max(0, end - applied.get(place, 0)) for place, end in ends.items())

    def unapplied_topics(self, applied: Offsets) -> dict[str, int]:
        """The same for each topic, also those of which nothing is left."""
        found = dict.fromkeys((topic for topic, _ in self._last), 0)
        for place, end in self._last.items():
            found[place[0]] += max(0, end - applied.get(place, 0))
        return found
