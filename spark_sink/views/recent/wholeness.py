"""Up to which offsets each Kafka transaction is covered as a whole.

Kafka shows a transaction that is committed in one partition a moment earlier than in another, so offsets that
were read from several partitions may divide it. All of its records, though, are in the partitions before any of
them is shown. Whatever reaches the ends that partitions had, undecided records included, after a record was
shown, has all records of that record's transaction.

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
    """What was shown, with the ends of all partitions since, until that is covered."""

    whole: Offsets | None = None
    """Each transaction with a record before these offsets is covered; None while nothing is known."""
    _samples: deque[tuple[Offsets, Offsets]] = field(default_factory=deque)

    def seen(self, shown: Offsets, reach: Offsets) -> None:
        """Take offsets that were shown, and the ends, of undecided records too, that were asked for after."""
        if len(self._samples) >= _MOST:
            # Each other one is enough where coverage is that late; the newest is always kept.
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
