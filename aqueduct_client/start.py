"""Start positions: where a group without an offset begins to read.

Invariant: within a partition, ``(epoch, seq)`` of a destination grows, and so does the set of transactions that
precede a record. A position is therefore found by halving, with one record read at each step.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from aqueduct_client.errors import InvalidSubscription, StartUnknown
from aqueduct_client.protocol import Log
from aqueduct_client.records import Partition, Record

_MARIADB = re.compile(r"(\d+)-\d+-(\d+)")
_CLOCK_SKEW_MS = 60_000
"""Records are written after their commit, by another clock."""


@dataclass(frozen=True, slots=True)
class Earliest:
    """The oldest record that the topic has."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of the topic: only records from now on."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first change committed in the source then or later."""

    ts_ms: int
    """Milliseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class AfterSeq:
    """The first change after one with this number."""

    seq: int
    destination: str | None = None
    """Needed if the topic has changes of several destinations."""


@dataclass(frozen=True, slots=True)
class AfterGtids:
    """The first change of a transaction that is not in this GTID set, such as gtid_executed of a copy."""

    gtids: str

    def __post_init__(self) -> None:
        parse_gtids(self.gtids)


Start = Earliest | Latest | AtTime | AfterSeq | AfterGtids
_IsPast = Callable[[Record], bool]


async def offset_of(log: Log, partition: Partition, start: Start) -> int:
    """Return the offset of a start position in a partition."""
    beginning, end = await log.bounds(partition)
    match start:
        case Earliest():
            return beginning
        case Latest():
            return end
        case AtTime(ts_ms):
            written = await log.offset_at(partition, ts_ms - _CLOCK_SKEW_MS)
            low = end if written is None else written
            return await _first(log, partition, low, end, lambda record: record.ts_ms >= ts_ms)
        case AfterSeq():
            is_past = _after_seq(start, partition)
        case AfterGtids():
            is_past = _outside(start)
    return await _first(log, partition, beginning, end, is_past)


def _after_seq(start: AfterSeq, partition: Partition) -> _IsPast:
    seen: set[str] = set()

    def is_past(record: Record) -> bool:
        seen.add(record.destination)
        if len(seen | {start.destination or record.destination}) > 1:
            raise StartUnknown(
                f"seq is numbered within a destination, and the topic has {', '.join(sorted(seen))}",
                topic=partition.topic,
            )
        return record.seq > start.seq

    return is_past


def _outside(start: AfterGtids) -> _IsPast:
    known = parse_gtids(start.gtids)

    def is_past(record: Record) -> bool:
        if record.gtid is None:
            raise StartUnknown("its records have no GTID", topic=record.raw.partition.topic)
        server, number = _gtid(record.gtid)
        return not any(low <= number <= high for low, high in known.get(server, ()))

    return is_past


async def _first(log: Log, partition: Partition, low: int, end: int, is_past: _IsPast) -> int:
    """Return the offset of the first record past the position; the end if there is none."""
    high = end
    while low < high:
        middle = (low + high) // 2
        found = await log.read(partition, middle)
        if not found or found[0].offset >= high or is_past(Record(found[0])):
            high = middle
        else:
            low = found[0].offset + 1
    return low


def _gtid(text: str) -> tuple[str, int]:
    """Return what a GTID is numbered within, and its number."""
    if match := _MARIADB.fullmatch(text):
        return match[1], int(match[2])
    server, _, number = text.lower().rpartition(":")
    return server, int(number)


def parse_gtids(text: str) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return the intervals of each server, with its tag if it has one, or of each of MariaDB's domains."""
    found: dict[str, list[tuple[int, int]]] = {}
    for part in filter(None, re.split(r"[\s,]+", text)):
        if match := _MARIADB.fullmatch(part):
            found.setdefault(match[1], []).append((1, int(match[2])))
            continue
        server, *items = part.lower().split(":")
        prefix = server
        for item in items:
            if match := re.fullmatch(r"(\d+)(?:-(\d+))?", item):
                interval = int(match[1]), int(match[2] or match[1])
                found.setdefault(prefix, []).append(interval)
            else:  # MySQL 8.3's tag, which holds for the intervals after it
                prefix = f"{server}:{item}"
    if not found:
        raise InvalidSubscription(f"{text!r} is no GTID set; write one as gtid_executed shows it")
    return {server: tuple(intervals) for server, intervals in found.items()}
