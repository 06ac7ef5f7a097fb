"""Sets of MySQL's global transaction identifiers, by which a cursor records the transactions it has read.

Invariant: a set parses from and prints to MySQL's own text, and compares by content, never by text.
A tag (MySQL 8.3) is kept as part of the source's name, ``uuid:tag``.
Source: MySQL manual, "GTID Format and Storage"; on the wire, rpl_gtid_set.cc, Gtid_set::encode.
"""

from __future__ import annotations

import re
import struct
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter

_SOURCE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"([1-9][0-9]*)(?:-([1-9][0-9]*))?")


def split_gtid(gtid: str) -> tuple[str, int]:
    """``uuid:23`` or ``uuid:tag:23`` as (source, number)."""
    source, _, number = gtid.rpartition(":")
    return source, int(number)


_FIRST, _LAST = itemgetter(0), itemgetter(1)
_TAGGED = 1
_SPAN = struct.Struct("<QQ")


class GtidSet:
    """A set of GTIDs: for each source, sorted and disjoint closed intervals of numbers."""

    __slots__ = ("_intervals",)

    def __init__(self, intervals: dict[str, list[tuple[int, int]]] | None = None) -> None:
        self._intervals = intervals or {}

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Parse MySQL's text, as ``gtid_executed`` prints it; raise ValueError for any other text."""
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
        """Add one GTID; adding it again has no effect."""
        source, number = split_gtid(gtid)
        intervals = self._intervals.get(source)
        if intervals and intervals[-1][1] + 1 == number:
            intervals[-1] = (intervals[-1][0], number)
        else:
            self.add_interval(source, number, number)

    def add_interval(self, source: str, first: int, last: int) -> None:
        """Add the closed interval ``first..last`` of one source, and join adjacent intervals."""
        if last < first:
            raise ValueError(f"not an interval: {first}-{last}")
        spans = self._intervals.setdefault(source, [])
        # The intervals from ``begin`` to before ``end`` overlap or adjoin the new interval.
        begin = bisect_left(spans, first - 1, key=_LAST)
        end = bisect_right(spans, last + 1, key=_FIRST)
        if begin < end:
            first, last = min(first, spans[begin][0]), max(last, spans[end - 1][1])
        spans[begin:end] = [(first, last)]

    def merge(self, other: GtidSet) -> None:
        """Add all GTIDs of another set."""
        for source, spans in other._intervals.items():
            if source in self._intervals:
                for first, last in spans:
                    self.add_interval(source, first, last)
            else:
                self._intervals[source] = list(spans)

    def update(self, gtids: Iterable[str]) -> None:
        """Add each of these GTIDs."""
        for gtid in gtids:
            self.add(gtid)

    def copy(self) -> GtidSet:
        """Return an independent copy."""
        return GtidSet({source: list(spans) for source, spans in self._intervals.items()})

    def count(self) -> int:
        """Return the number of GTIDs in the set."""
        return sum(last - first + 1 for spans in self._intervals.values() for first, last in spans)

    def __contains__(self, gtid: str) -> bool:
        source, number = split_gtid(gtid)
        spans = self._intervals.get(source, [])
        at = bisect_right(spans, (number, float("inf"))) - 1
        return at >= 0 and spans[at][0] <= number <= spans[at][1]

    def issubset(self, other: GtidSet) -> bool:
        """Whether ``other`` contains this whole set."""
        return all(
            any(low <= first and last <= high for low, high in other._intervals.get(source, []))
            for source, spans in self._intervals.items()
            for first, last in spans
        )

    def without(self, other: GtidSet) -> GtidSet:
        """Return the GTIDs of this set that ``other`` lacks."""
        found = GtidSet()
        for source, spans in self._intervals.items():
            for first, last in spans:
                begin = first
                for low, high in other._intervals.get(source, []):
                    if high >= begin and low <= last:
                        if low > begin:
                            found.add_interval(source, begin, low - 1)
                        begin = high + 1
                if begin <= last:
                    found.add_interval(source, begin, last)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidSet) and self._intervals == other._intervals

    __hash__ = None  # type: ignore[assignment]  # mutable, so not hashable

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def __str__(self) -> str:
        texts: dict[str, list[str]] = {}
        for source, spans in sorted(self._intervals.items()):
            uuid_text, _, tag = source.partition(":")
            parts = texts.setdefault(uuid_text, [uuid_text])
            parts += [tag] if tag else []
            parts += (_interval_text(first, last) for first, last in spans)
        return ",".join(":".join(parts) for parts in texts.values())

    def encode(self) -> bytes:
        """The binary form that replicas send and that PREVIOUS_GTIDS events contain.

        If a GTID has a tag, the first and the eighth byte are the format number, 1, and each source is
        followed by its tag: the length and the letters. The length is doubled, as the serialization
        library encodes short integers.
        """
        tagged = any(":" in source for source in self._intervals)
        count = len(self._intervals)
        head = _TAGGED << 56 | count << 8 | _TAGGED if tagged else count
        parts = [head.to_bytes(8, "little")]
        for source, spans in sorted(self._intervals.items()):
            uuid_text, _, tag = source.partition(":")
            parts.append(uuid.UUID(uuid_text).bytes)
            if tagged:
                parts.append(bytes([len(tag) << 1]) + tag.encode())
            parts.append(len(spans).to_bytes(8, "little"))
            parts += (_SPAN.pack(first, last + 1) for first, last in spans)
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> GtidSet:
        """Decode the output of ``encode``; raise ValueError or struct.error for other bytes."""
        (head,) = struct.unpack_from("<Q", data)
        form = head >> 56
        if form > _TAGGED:
            raise ValueError(f"a set of GTIDs in an unknown form, {form}")
        count = head >> 8 & 0xFFFFFFFFFFFF if form == _TAGGED else head
        found, at = cls(), 8
        for _ in range(count):
            source, at = str(uuid.UUID(bytes=data[at : at + 16])), at + 16
            if form == _TAGGED:
                tag, at = _tag(data, at)
                source += f":{tag}" if tag else ""
            (spans,) = struct.unpack_from("<Q", data, at)
            at += 8
            for _ in range(spans):
                first, end = _SPAN.unpack_from(data, at)
                found.add_interval(source, first, end - 1)
                at += _SPAN.size
        if at != len(data):
            raise ValueError(f"a set of GTIDs of {at} bytes in {len(data)}")
        return found

    def __reduce__(self) -> tuple[type[GtidSet], tuple[dict[str, list[tuple[int, int]]]]]:
        return GtidSet, (self._intervals,)

    def __repr__(self) -> str:
        return f"GtidSet.parse({str(self)!r})"


def _interval_text(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _tag(data: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + (data[at] >> 1)
    tag = data[at + 1 : end].decode("ascii")
    if data[at] & 1 or (tag and not _TAG.fullmatch(tag)):
        raise ValueError(f"not a tag: {tag!r}")
    return tag, end
