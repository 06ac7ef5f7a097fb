"""Which offsets the recent changes cover.

Invariant: what is covered is one range of each partition without a gap, and it begins at or before what is
merged. While more is unmerged than readers can well fold, nothing is covered, and the merge alone catches up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from spark_sink.source.positions import Offsets
from spark_sink.text.quoting import literal

BATCHES: Final = 50
"""Batches after which what is merged is removed, and files are joined: a reader opens a file for each."""
MOST_UNMERGED: Final = 50_000
"""Offsets that are not merged, up to which batches are stored as recent changes."""


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
        """Whether nothing lies between what is merged and the recent changes."""
        return all(first <= merged.get(at, 0) for at, first in self.since.items())

    def begins_after(self, other: Cut) -> bool:
        """Whether it covers nothing of what another one covers."""
        return all(end <= self.since.get(at, 0) for at, end in other.until.items())

    def after_sql(self, merged: Offsets) -> str:
        """The condition that a record is covered, and after what is merged.

        Without it, changes of rows that are deleted since would count again once their markers are purged.
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
    """None if it was there before the recent changes began."""
    partition: int | None = None
    offset: int | None = None


class Step(Enum):
    """The treatment of a batch of recent changes."""

    OMIT = "omit"
    """It is not stored; the merge alone brings it into the tables."""
    BEGIN = "begin"
    """It replaces all that is stored."""
    ADD = "add"
    """It is added."""
    ADVANCE = "advance"
    """It is added, and what is merged may be removed."""


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
        """Judge a batch of the offsets [start, until).

        `settled` is what was merged at a time of which all transactions are whole by now: readers of
        consistent cuts need what is after it, even if it is merged. None means all that is merged.
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
