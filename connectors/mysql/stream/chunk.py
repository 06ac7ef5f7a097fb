"""A stretch of the binlog that can be decoded by itself.

The law: a chunk ends behind an event, and holds or carries everything that its rows need to be understood; so
who decodes it needs no other chunk, whichever process that is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors.mysql.position import Coordinates

PACKET_PREFIX = 5
"""Bytes before each event as it came over the wire: a packet's length and number, and the byte that says OK."""


@dataclass(slots=True, kw_only=True)
class Chunk:
    """Raw events, one behind the other.

    Where a file begins or ends, a chunk does too; and a statement that may change or empty a table ends its
    chunk, with no rows before it there.
    """

    start: Coordinates
    """Where its first event begins."""
    data: bytes
    prefix: int = 0
    """Bytes before each event in ``data``: PACKET_PREFIX, or 0 for events out of a file or a payload."""
    checksum: bool
    """Whether each event in ``data`` ends in its CRC32."""
    context: tuple[bytes, ...] = ()
    """Where it begins within a transaction: that one's first events and the TABLE_MAPs that still hold, each an
    event with its header, without prefix and checksum. They were given out before and tell, not count."""
    context_start: Coordinates | None = None
    """Where the transaction of ``context`` begins."""
    place: tuple[Coordinates, Coordinates] | None = None
    """Where the event that held these begins and ends, if they came out of one; their own offsets are none."""
    begun: int = 0
    """When its file was begun, seconds since 1970, where it is the head of that file and holds no event."""
    passed: dict[int, int] = field(default_factory=dict)
    """By type, how many events the reader has dealt with itself since the chunk before."""
    ends_in_statement: bool = False
    """Whether its last event is a statement that may change or empty a table."""

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return len(self.data) + sum(map(len, self.context))
