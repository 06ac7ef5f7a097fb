"""Chunk: a part of the binlog that can be decoded by itself.

Invariant: a chunk ends after an event, and contains everything needed to decode its rows; so no
other chunk is needed, in whichever process it is decoded.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from connectors.mysql.position import Coordinates

PACKET_PREFIX = 5
"""Bytes before each event as received: a packet's length and number, and the OK byte."""
_size_and_end = struct.Struct("<9xII").unpack_from
"""The fields of an event's header with its size, and with the lower 32 bits of the offset of its end."""
_LOW = 0xFFFFFFFF


@dataclass(slots=True, kw_only=True)
class Chunk:
    """Consecutive raw events.

    A chunk lies within one file. A statement that may change or empty a table ends its chunk, and the
    chunk then has no rows before the statement.
    """

    start: Coordinates
    """The start of its first event."""
    data: bytes
    prefix: int = 0
    """Bytes before each event in ``data``: PACKET_PREFIX, or 0 for events from a file or a payload."""
    checksum: bool
    """Whether each event in ``data`` ends in its CRC32."""
    context: tuple[bytes, ...] = ()
    """If the chunk begins within a transaction: the transaction's first events and the valid
    TABLE_MAPs, each an event with its header, without prefix and checksum. These events were emitted
    with an earlier chunk, and are not counted again."""
    context_start: Coordinates | None = None
    """The start of the transaction of ``context``."""
    container: tuple[Coordinates, Coordinates] | None = None
    """If another event contained these events: the start and end of that event. These events have no
    offsets of their own."""
    created: int = 0
    """If the chunk is the head of a file, without events: the file's creation time, seconds since 1970."""
    passed: dict[int, int] = field(default_factory=dict)
    """Number of events, by type, that the reader itself handled since the previous chunk."""
    undone: frozenset[int] | None = None
    """The offsets in ``data`` of rows events that were undone; None if unknown."""
    is_settled: bool = False
    """Whether ``undone`` also covers the transaction of ``context``, whose end may be in a later chunk."""
    ends_in_statement: bool = False
    """Whether its last event is a statement that may change or empty a table."""

    @property
    def begins_between(self) -> bool:
        """Whether it begins between two transactions."""
        return not self.context and self.container is None

    @property
    def is_rest(self) -> bool:
        """Whether the chunk is not a part of the binlog, but a position at which the stream waits for data."""
        return not self.data and not self.created

    @property
    def end(self) -> Coordinates:
        """The end of its last event, found by walking over all of them."""
        if self.container is not None:
            return self.container[1]
        if self.created or not self.data:
            return self.start
        at, pos = 0, self.start.pos
        while at < len(self.data):
            size, low = _size_and_end(self.data, at + self.prefix)
            if low:
                pos = pos & ~_LOW | low if low >= pos & _LOW else (pos & ~_LOW) + _LOW + 1 + low
            at += self.prefix + size
        return Coordinates(self.start.file, pos)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self.data) + sum(map(len, self.context))
