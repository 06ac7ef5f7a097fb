"""Up to which offsets each Kafka transaction is covered as a whole.

Kafka may show a committed transaction in one partition a moment earlier than in another. So the offsets that
are read from several partitions may divide the transaction. However, all of its records are in the partitions
before any of them is shown. Take the ends that the partitions have (undecided records included) after a record
was shown: coverage that reaches these ends has all records of that record's transaction.

Invariant: offsets count as whole only where coverage has reached such ends of all partitions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from spark_sink.source.positions import Offsets

_MOST: Final = 100


@dataclass(slots=True)
class Wholeness:
    """Offsets that were shown, each with later ends of all partitions, kept until these ends are covered."""

    whole: Offsets | None = None
    """Each transaction with a record before these offsets is covered; None while nothing is known."""
    _samples: deque[tuple[Offsets, Offsets]] = field(default_factory=deque)

    def seen(self, shown: Offsets, reach: Offsets) -> None:
        """Take offsets that were shown, and the ends that were asked for later, undecided records included."""
        if len(self._samples) >= _MOST:
            # If coverage lags by that much, every second sample is enough; the newest is always kept.
            self._samples = deque(list(self._samples)[1::2])
        self._samples.append((shown, reach))

    def covered(self, until: Offsets) -> Offsets | None:
        """Return `whole` now that everything before `until` is covered."""
        while self._samples and reaches(until, self._samples[0][1]):
            self.whole = self._samples.popleft()[0]
        return self.whole


def reaches(until: Offsets, ends: Offsets) -> bool:
    """Whether all records before `ends` are before `until`."""
    return all(until.get(at, 0) >= end for at, end in ends.items())
