"""The offsets that the recent changes cover, and up to which of them Kafka transactions are whole.

Kafka may show a committed transaction in one partition a moment earlier than in another. So the offsets that
are read from several partitions may divide the transaction. However, all of its records are in the partitions
before any of them is shown. Take the ends that the partitions have (undecided records included) after a record
was shown: coverage that reaches these ends has all records of that record's transaction.

Invariant: recent changes cover one range of each partition without a gap, which begins at or before the offset
up to which the partition is merged. While more is unmerged than readers can well fold, nothing is covered, and
only merging catches up. Offsets count as whole only where coverage has reached such ends of all partitions.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from spark_sink.source.positions import Offsets
from spark_sink.text.quoting import literal

BATCHES: Final = 50
"""The batches after which merged changes are removed and files joined: readers open one file for each batch."""
MOST_UNMERGED: Final = 50_000
"""The most unmerged offsets with which batches are stored as recent changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The offsets [since, until) of each partition that the recent changes hold, and when they were stored."""

    since: Offsets
    until: Offsets
    at_ms: int
    whole: Offsets | None = None
    """Each transaction with a record before these offsets is held as a whole; see `recent.wholeness`."""

    def text(self) -> str:
        """The cut as stored."""
        ranges = [[*at, self.since.get(at, 0), until] for at, until in sorted(self.until.items())]
        body = {"version": 1, "at_ms": self.at_ms, "ranges": ranges}
        if self.whole is not None:
            body["whole"] = [[*at, offset] for at, offset in sorted(self.whole.items())]
        return json.dumps(body)

    @classmethod
    def of(cls, text: str) -> Cut:
        """The stored cut."""
        body = json.loads(text)
        since = {(topic, number): first for topic, number, first, _ in body["ranges"]}
        until = {(topic, number): last for topic, number, _, last in body["ranges"]}
        stored = body.get("whole")
        whole = (
            {(topic, number): at for topic, number, at in stored} if stored is not None else None
        )
        return cls(since=since, until=until, at_ms=body["at_ms"], whole=whole)

    def continues(self, merged: Offsets) -> bool:
        """Whether no change is missing between the merged and the recent changes."""
        return all(first <= merged.get(at, 0) for at, first in self.since.items())

    def begins_after(self, other: Cut) -> bool:
        """Whether this cut begins at or after the end of another cut in all partitions."""
        return all(end <= self.since.get(at, 0) for at, end in other.until.items())

    def after_sql(self, merged: Offsets) -> str:
        """The condition that a record is covered and not merged.

        Without it, changes of rows that were deleted since would count again once their markers are purged.
        """
        left = {at: until for at, until in self.until.items() if until > merged.get(at, 0)}
        ranges = (
            f"(topic = {literal(topic)} AND partition = {number} AND offset >= "
            f"{merged.get((topic, number), 0)} AND offset < {until})"
            for (topic, number), until in sorted(left.items())
        )
        return " OR ".join(ranges) or "false"


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a part of a transaction, as in a transactions topic."""

    text: str
    topic: str | None = None
    """None if the marker was published before the recent changes began."""
    partition: int | None = None
    offset: int | None = None


class Step(Enum):
    """The treatment of a batch of recent changes."""

    OMIT = "omit"
    """The batch is not stored; only the merge brings it into the tables."""
    BEGIN = "begin"
    """The batch replaces everything that is stored."""
    ADD = "add"
    """The batch is added."""
    ADVANCE = "advance"
    """The batch is added, and merged changes may be removed."""


@dataclass(slots=True)
class Coverage:
    """The range that is covered now, and the step for each batch."""

    most_unmerged: int = MOST_UNMERGED
    batches: int = BATCHES
    since: dict[tuple[str, int], int] | None = field(default=None, init=False)
    """None while nothing is covered."""
    _added: int = field(default=0, init=False)

    def step(
        self, start: Offsets, until: Offsets, merged: Offsets, *, settled: Offsets | None = None
    ) -> Step:
        """Decide on a batch of the offsets [start, until).

        `settled` are offsets that were merged earlier, and before which all transactions are whole by now:
        readers of consistent cuts need the changes after them, even merged ones. None stands for `merged`.
        """
        if unmerged(until, merged) > self.most_unmerged:
            self.since = None
            return Step.OMIT
        if self.since is None:
            self.since, self._added = dict(start), 0
            return Step.BEGIN
        self._added += 1
        if self._added % self.batches:
            return Step.ADD
        if settled is None or unmerged(merged, self.since) > self.most_unmerged:
            settled = merged
        self.since |= {at: max(first, self.since.get(at, 0)) for at, first in settled.items()}
        return Step.ADVANCE


def unmerged(until: Offsets, merged: Offsets) -> int:
    """The number of offsets up to `until` that are not merged."""
    return sum(max(0, end - merged.get(at, 0)) for at, end in until.items())


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
