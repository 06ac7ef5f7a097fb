"""Landmark: the last transaction before a cursor, as its server wrote it.

A set of GTIDs states what a server claims to have; it does not identify a binlog. After a reset, or
after data files were restored, a server assigns the same GTIDs and offsets to other transactions. A
landmark records the position, the commit time and the checksums of one transaction, by which a later
reader recognizes that the binlog is still the same.

Invariant: a checksum covers only what the server wrote, not how the server sent it: a transaction has
the same landmark with and without the binlog's own CRC32.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.chunk_context import MARIADB_GTID
from connectors.mysql.binlog.events import (
    CHECKSUM_SIZE,
    HEADER,
    HEADER_SIZE,
    Event,
    EventType,
    original_us,
)
from connectors.mysql.binlog.gtid_events import original_us_tagged
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk

_KEPT = struct.Struct("<IBI")
"""The header fields that do not depend on how the event is sent: time, type, server_id."""
_TIMED = frozenset({int(EventType.GTID), int(EventType.ANONYMOUS_GTID)})
_TIME_AT = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The properties of one event by which the event is recognized again."""

    timestamp: int
    """Seconds since 1970, from the event's header; a replica keeps the time of its source."""
    server_id: int
    """The server that first wrote the event."""
    check: int
    """CRC32 of the header's constant fields and the body."""
    original_us: int = 0
    """Commit time of the announced transaction at the server that first committed it, in
    microseconds since 1970; 0 if the event does not contain this time."""

    @classmethod
    def of(cls, event: Event) -> Mark:
        """The mark of a received event."""
        timestamp, kind, server_id = event.timestamp, event.type, event.server_id
        return cls(
            timestamp=timestamp,
            server_id=server_id,
            check=crc32(event.body, crc32(_KEPT.pack(timestamp, kind, server_id))),
            original_us=_original_us(kind, event.body),
        )

    @classmethod
    def within(cls, data: bytes, at: int, *, checksum: bool) -> Mark:
        """Return the mark of the event at an offset in a chunk; ``checksum``: whether it ends in a CRC32."""
        timestamp, kind, server_id, size, end_pos, flags = HEADER.unpack_from(data, at)
        end = at + size - (CHECKSUM_SIZE if checksum else 0)
        body = data[at + HEADER_SIZE : end]
        return cls.of(Event(timestamp, kind, server_id, end_pos, flags, size, body))

    def is_copy_of(self, other: Mark) -> bool:
        """Whether two servers' events announce the same transaction; fields that a server sets may differ."""
        if self.original_us and other.original_us:
            return self.original_us == other.original_us
        return (self.timestamp, self.server_id) == (other.timestamp, other.server_id)

    def to_json(self) -> list[int]:
        """The journal's form."""
        return [self.timestamp, self.server_id, self.check, self.original_us]

    @classmethod
    def from_json(cls, value: list[int]) -> Mark:
        """Read the output of ``to_json``; raise ValueError or TypeError for anything else."""
        timestamp, server_id, check, committed = map(int, value)
        return cls(timestamp=timestamp, server_id=server_id, check=check, original_us=committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Landmark:
    """A transaction, its coordinates in its server's binlog, and its first and last event."""

    gtid: str | None
    start: Coordinates
    end: Coordinates
    first: Mark | None
    """None if the event was not read because of an operator skip."""
    last: Mark | None
    """None if the transaction does not end in an event of its own."""
    last_pos: int = 0
    """Offset of the last event, in the file of ``end``."""

    def to_json(self) -> dict[str, Any]:
        """The journal's form."""
        return {
            "gtid": self.gtid,
            "start": str(self.start),
            "end": str(self.end),
            "first": self.first.to_json() if self.first is not None else None,
            "last": self.last.to_json() if self.last is not None else None,
            "last_pos": self.last_pos,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Landmark:
        """Read the output of ``to_json``; raise KeyError, ValueError or TypeError for anything else."""
        return cls(
            gtid=value["gtid"],
            start=Coordinates.parse(value["start"]),
            end=Coordinates.parse(value["end"]),
            first=Mark.from_json(value["first"]) if value["first"] is not None else None,
            last=Mark.from_json(value["last"]) if value["last"] is not None else None,
            last_pos=value["last_pos"],
        )

    def __str__(self) -> str:
        return f"{self.gtid} at {self.start}" if self.gtid else str(self.start)


Ended = tuple[int, int, int]
"""For the last transaction that ended in a chunk: the offset of its first event in the data, or
-1 if it began in an earlier chunk; the offset of its last event in the data; and that event's
end in the file."""


def landmark_in(chunk: Chunk, ended: Ended | None, transaction: Transaction) -> Landmark | None:
    """Return the transaction's landmark; None if no event of the transaction was read."""
    if ended is None:
        return None
    began, last, end = ended
    first = None
    if began >= 0:
        first = Mark.within(chunk.data, began, checksum=chunk.checksum)
    elif chunk.context:
        first = Mark.within(chunk.context[0], 0, checksum=False)
    # An event from a payload, or an event that replaces a skipped transaction, is not in the file itself.
    is_own = chunk.container is None
    if first is None and not is_own:
        return None
    size = HEADER.unpack_from(chunk.data, last)[3]
    return Landmark(
        gtid=transaction.gtid,
        start=transaction.start,
        end=Coordinates(transaction.file, end),
        first=first,
        last=Mark.within(chunk.data, last, checksum=chunk.checksum) if is_own else None,
        last_pos=end - size if is_own else 0,
    )


def _original_us(kind: int, body: bytes) -> int:
    if kind == MARIADB_GTID:
        return 0
    if kind == EventType.GTID_TAGGED:
        return original_us_tagged(body)
    return original_us(body) if kind in _TIMED and len(body) >= _TIME_AT + 7 else 0
