"""Sets of global transaction identifiers, so that a cursor can say which transactions it has seen.

The law: a set parses from and prints to MySQL's own text, and compares by content, never by text.
Tags (MySQL 8.3) are kept as part of the source's name, ``uuid:tag``.
Source: MySQL manual, "GTID Format and Storage".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

_SOURCE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"([1-9][0-9]*)(?:-([1-9][0-9]*))?")


def split_gtid(gtid: str) -> tuple[str, int]:
    """``uuid:23`` or ``uuid:tag:23`` as (source, number)."""
    source, _, number = gtid.rpartition(":")
    return source, int(number)


class GtidSet:
    """A set of GTIDs: for each source, sorted and disjoint closed intervals of numbers."""

    __slots__ = ("_intervals",)

    def __init__(self, intervals: dict[str, list[tuple[int, int]]] | None = None) -> None:
        self._intervals = intervals or {}

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Read MySQL's text, as ``gtid_executed`` prints it; raise ValueError where it is not such."""
        result = cls()
        for part in "".join(text.split()).lower().split(","):
            if part:
                result._parse_source(part)
        return result

    def _parse_source(self, part: str) -> None:
        uuid, *rest = part.split(":")
        if not _SOURCE.fullmatch(uuid) or not rest:
            raise ValueError(f"not a GTID set: {part!r}")
        source, has_numbers = uuid, False
        for piece in rest:
            interval = _INTERVAL.fullmatch(piece)
            if interval:
                first = int(interval[1])
                self.add_interval(source, first, int(interval[2] or first))
            elif not _TAG.fullmatch(piece) or (source != uuid and not has_numbers):
                raise ValueError(f"not a GTID set: {part!r}")
            else:
                source = f"{uuid}:{piece}"
            has_numbers = interval is not None
        if not has_numbers:
            raise ValueError(f"not a GTID set: {part!r}")

    def add(self, gtid: str) -> None:
        """Add one GTID; one that is held already changes nothing."""
        source, number = split_gtid(gtid)
        intervals = self._intervals.get(source)
        if intervals and intervals[-1][1] + 1 == number:
            intervals[-1] = (intervals[-1][0], number)
        else:
            self.add_interval(source, number, number)

    def add_interval(self, source: str, first: int, last: int) -> None:
        """Add the closed interval ``first..last`` of one source, joining what touches it."""
        if last < first:
            raise ValueError(f"not an interval: {first}-{last}")
        joined: list[tuple[int, int]] = []
        for low, high in self._intervals.get(source, []):
            if high + 1 < first or last + 1 < low:
                joined.append((low, high))
            else:
                first, last = min(first, low), max(last, high)
        joined.append((first, last))
        self._intervals[source] = sorted(joined)

    def update(self, gtids: Iterable[str]) -> None:
        """Add each of these GTIDs."""
        for gtid in gtids:
            self.add(gtid)

    def copy(self) -> GtidSet:
        """A set of its own with the same content."""
        return GtidSet({source: list(spans) for source, spans in self._intervals.items()})

    def __contains__(self, gtid: str) -> bool:
        source, number = split_gtid(gtid)
        spans = self._intervals.get(source, [])
        at = bisect_right(spans, (number, float("inf"))) - 1
        return at >= 0 and spans[at][0] <= number <= spans[at][1]

    def issubset(self, other: GtidSet) -> bool:
        """Whether ``other`` holds all of this set."""
        return all(
            any(low <= first and last <= high for low, high in other._intervals.get(source, []))
            for source, spans in self._intervals.items()
            for first, last in spans
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidSet) and self._intervals == other._intervals

    __hash__ = None  # type: ignore[assignment]  # it changes, so it is no key

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def __str__(self) -> str:
        return ",".join(
            ":".join([source, *(_interval_text(first, last) for first, last in spans)])
            for source, spans in sorted(self._intervals.items())
        )

    def __repr__(self) -> str:
        return f"GtidSet.parse({str(self)!r})"


def _interval_text(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
