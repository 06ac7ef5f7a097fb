"""Positions of records, and offsets of Kafka's partitions.

A position is a topic, a partition and an offset; every copy of a record has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_sink.text.quoting import literal

At = tuple[str, int, int]
"""Topic, partition and offset."""


def any_of(places: Iterable[At]) -> str:
    """Return the condition that a record is at one of these positions."""
    by_partition: dict[tuple[str, int], list[str]] = {}
    for topic, partition, offset in sorted(places):
        by_partition.setdefault((topic, partition), []).append(str(offset))
    each = (
        f"(topic = {literal(topic)} AND partition = {partition} AND offset IN ({', '.join(offsets)}))"
        for (topic, partition), offsets in by_partition.items()
    )
    return f"({' OR '.join(each) or 'false'})"


def spanned(places: Iterable[At]) -> tuple[Offsets, Offsets]:
    """Return the ranges [start, until) of partitions that hold these records."""
    start: dict[tuple[str, int], int] = {}
    until: dict[tuple[str, int], int] = {}
    for topic, partition, offset in places:
        at = topic, partition
        start[at] = min(offset, start.get(at, offset))
        until[at] = max(offset + 1, until.get(at, 0))
    return start, until


def within_sql(start: Offsets, until: Offsets) -> str:
    """Return the condition that a record lies in the ranges [start, until)."""
    each = (
        f"(topic = {literal(topic)} AND partition = {partition}"
        f" AND offset >= {start.get((topic, partition), 0)} AND offset < {last})"
        for (topic, partition), last in sorted(until.items())
        if last > start.get((topic, partition), 0)
    )
    return f"({' OR '.join(each) or 'false'})"


def is_within(at: At, start: Offsets, until: Offsets) -> bool:
    """Whether a record lies in the ranges [start, until)."""
    topic, partition, offset = at
    return start.get((topic, partition), 0) <= offset < until.get((topic, partition), 0)


Offsets = Mapping[tuple[str, int], int]


Place = tuple[int, int]
"""Epoch and seq of a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Some changes of one destination: their first and last commit time (ms), and the highest (epoch, seq)."""

    oldest_ms: int
    newest_ms: int
    place: Place

    def joined(self, other: Progress) -> Progress:
        """Return the progress of both sets of changes."""
        return Progress(
            oldest_ms=min(self.oldest_ms, other.oldest_ms),
            newest_ms=max(self.newest_ms, other.newest_ms),
            place=max(self.place, other.place),
        )


def total(parts: Iterable[Mapping[str, Progress]]) -> dict[str, Progress]:
    """Return the progress of each destination in several sets of changes."""
    found: dict[str, Progress] = {}
    for part in parts:
        for destination, one in part.items():
            found[destination] = found[destination].joined(one) if destination in found else one
    return found
