"""The buffer of packets received but not yet emitted.

Invariant: bytes stay where they were received until they are emitted; they move only if space is
short, or if an event came in several packets.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterator

from connectors.errors import AqueductError, CorruptEvent, MalformedEvent
from connectors.mysql.binlog.chunk_context import verified, walk
from connectors.mysql.binlog.events import CHECKSUM_SIZE, HEADER_SIZE, Event, EventType
from connectors.mysql.buffer import packed, packed_bytes, uint
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import PACKET_PREFIX

RECEIVE = 256 * 1024
"""Maximum number of bytes received at once; far below the largest size of a packet."""
SPLIT = 0xFFFFFF
"""The length of a packet that the next packet continues."""
LOOK = PACKET_PREFIX + HEADER_SIZE
"""Bytes before an event's body."""

look = struct.Struct("<4xB4xB4xI").unpack_from
"""A packet's first byte, which is 0 before an event, and the event's type and size."""
_size_and_end = struct.Struct(f"<{PACKET_PREFIX + 9}xII").unpack_from
_SIZE_AND_END = struct.Struct("<II")
_HEADER = 4
_LOW = 0xFFFFFFFF


class Packets:
    """A receive buffer, and four offsets in it.

    Emitted data ends at ``begin``, whole transactions at ``done``, the walk at ``at``, and received
    data at ``filled``.
    """

    __slots__ = (
        "_joined",
        "_usual",
        "answer",
        "at",
        "begin",
        "buffer",
        "checksum",
        "done",
        "filled",
        "view",
    )

    def __init__(self, usual: int, *, checksum: bool) -> None:
        self.checksum = CHECKSUM_SIZE if checksum else 0
        """Bytes of each event's checksum."""
        self.answer: bytes | None = None
        """The packet with which the server ended the stream."""
        self.begin = self.done = self.at = self.filled = 0
        self._usual = usual
        self._joined = -1
        self._allot(usual)

    def _allot(self, size: int) -> None:
        self.buffer = bytearray(size)
        self.view = memoryview(self.buffer)

    def space(self) -> memoryview:
        """The memory for the next bytes; never empty."""
        kept, size = self.filled - self.begin, len(self.buffer)
        if kept == 0 and size > self._usual:
            self._move(self._usual)
        elif size - self.filled < RECEIVE // 4:
            self._move(2 * size if kept > size // 2 else size)
        return self.view[self.filled : self.filled + RECEIVE]

    def _move(self, size: int) -> None:
        """Move the remaining bytes to the front of a buffer of this size."""
        kept = self.view[self.begin : self.filled]
        if size != len(self.buffer):
            self._allot(size)
        self.buffer[: len(kept)] = kept
        shift = self.begin
        self.begin, self.filled = 0, len(kept)
        self.done -= shift
        self.at -= shift
        self._joined -= shift

    def is_odd(self, at: int) -> bool:
        """Whether the packet at this offset holds something other than one whole event, as far as received."""
        there = self.filled - at
        if there <= _HEADER or at == self._joined:
            return False
        length = self._length(at)
        if self.buffer[at + _HEADER] or length <= HEADER_SIZE or length == SPLIT:
            return True
        return there >= LOOK and length != 1 + look(self.buffer, at)[2]

    def join(self, position: Coordinates) -> bool:
        """Join the packets that an event was split into; return whether all of them have been received.

        A packet that does not begin with OK is the server's last: it becomes ``answer``. Source:
        MySQL internals manual, "Sending more than 16 MiB".
        """
        lengths = self._lengths()
        if not lengths:
            self._check_next_length(position)
            return False
        begin, total = self.at + _HEADER, sum(lengths)
        if total and self.buffer[begin] != 0:
            self.answer = bytes(self.view[begin : begin + lengths[0]])
            return False
        to = at = begin + lengths[0]
        for length in lengths[1:]:
            at += _HEADER
            self.buffer[to : to + length] = self.view[at : at + length]
            to, at = to + length, at + length
        self._close_gap(to, at)
        if total <= HEADER_SIZE or self.after() != to:
            raise MalformedEvent(
                f"{total} bytes came where an event was to be", coordinates=position
            )
        self._joined = self.at
        return True

    def _check_next_length(self, position: Coordinates) -> None:
        """Raise MalformedEvent if a packet's length is not its event's: an idle source may never send more."""
        length, there = self._length(self.at), self.filled - self.at
        if there < LOOK or length == SPLIT or self.buffer[self.at + _HEADER]:
            return
        size = look(self.buffer, self.at)[2]
        if length != 1 + size:
            raise MalformedEvent(
                f"{length} bytes are to come where an event of {size} is", coordinates=position
            )

    def _lengths(self) -> list[int]:
        """The lengths of the packets of one event; empty until all have been received."""
        found: list[int] = []
        end = self.at
        while not found or found[-1] == SPLIT:
            if self.filled - end < _HEADER:
                return []
            found.append(self._length(end))
            end += _HEADER + found[-1]
            if end > self.filled:
                return []
        return found

    def _length(self, at: int) -> int:
        return int.from_bytes(self.buffer[at : at + 3], "little")

    def remove(self) -> None:
        """Remove the next event from the output."""
        after = self.after()
        self._joined = -1
        if self.at == self.begin:
            self.begin = self.done = self.at = after
        else:
            self._close_gap(self.at, after)

    def _close_gap(self, begin: int, end: int) -> None:
        kept = self.filled - end
        self.buffer[begin : begin + kept] = self.buffer[end : self.filled]
        self.filled = begin + kept

    def take_out(self, begin: int) -> bytes:
        """Remove and return the events from an offset up to the next one."""
        taken = bytes(self.view[begin : self.at])
        self._close_gap(begin, self.at)
        self.at, self._joined = begin, -1
        return taken

    def put_in(self, data: bytes) -> None:
        """Insert events just before the next one."""
        size = len(data)
        if len(self.buffer) - self.filled < size:
            self._move(2 * max(len(self.buffer), self.filled - self.begin + size))
        at = self.at
        self.buffer[at + size : self.filled + size] = self.buffer[at : self.filled]
        self.buffer[at : at + size] = data
        self.filled += size
        self.at = at + size

    def after(self) -> int:
        """The offset after the next event."""
        return self.at + PACKET_PREFIX + uint(self.view, self.at + PACKET_PREFIX + 9, 4)

    def kind(self) -> int:
        """The next event's type."""
        return self.buffer[self.at + PACKET_PREFIX + 4]

    def event(self) -> memoryview:
        """The next event, without its checksum."""
        return self.event_at(self.at)

    def event_at(self, at: int) -> memoryview:
        """A received event, without its checksum."""
        begin = at + PACKET_PREFIX
        return self.view[begin : begin + uint(self.view, begin + 9, 4) - self.checksum]

    def low_end(self) -> int:
        """The low 32 bits of the next event's end in its file, as its header contains them."""
        return uint(self.view, self.at + PACKET_PREFIX + 13, 4)

    def verify(self) -> None:
        """Raise CorruptEvent if the next event's checksum does not match."""
        if not self.checksum:
            return
        after = self.after()
        if zlib.crc32(self.event()) != uint(self.view, after - self.checksum, self.checksum):
            raise CorruptEvent("its CRC32 does not match")

    def coordinates(self, at: int, position: Coordinates) -> tuple[Coordinates, Coordinates]:
        """Return the start and end of an event; ``position`` if it is in no file, or not yet received.

        The header has the low 32 bits of the offset. Offsets only grow in a file, so the result is the
        next offset after ``position`` with these bits.
        """
        if self.filled - at < LOOK:
            return position, position
        size, low = _size_and_end(self.buffer, at)
        if not low:
            return position, position
        end = position.pos & ~_LOW | low
        if end < position.pos:
            end += _LOW + 1
        return Coordinates(position.file, max(end - size, 0)), Coordinates(position.file, end)


def unpacked(data: bytes, *, checksum: bool) -> bytes:
    """Return the events of received packets, verified and without checksums."""
    return b"".join(
        verified(data[at:after], checksum=checksum)
        for _, at, after in walk(data, 0, len(data), PACKET_PREFIX)
    )


def packed_again(events: bytes, *, checksum: bool, end: int = 0) -> bytes:
    """Return events without checksums in the form of received packets; ``end``: the last event's end."""
    found = []
    for _, at, after in walk(events, 0, len(events), 0):
        size = after - at + (CHECKSUM_SIZE if checksum else 0)
        position = end if after == len(events) else 0
        event = events[at : at + 9] + _SIZE_AND_END.pack(size, position) + events[at + 17 : after]
        found += [(1 + size).to_bytes(3, "little"), b"\0\0", event]
        if checksum:
            found.append(zlib.crc32(event).to_bytes(CHECKSUM_SIZE, "little"))
    return b"".join(found)


def heartbeat_position(event: Event) -> tuple[str, int]:
    """The file and offset in a heartbeat; version 1 has the offset's low 32 bits only.

    Source: control_events.h, Heartbeat_event and Heartbeat_event_v2: fields of type, length and
    value.
    """
    if event.type == EventType.HEARTBEAT:
        return event.body.decode(), event.end_pos
    file, pos, at = "", 0, 0
    while event.body[at]:
        kind, at = packed(event.body, at)
        value, at = packed_bytes(event.body, at)
        if kind == 1:
            file = value.decode()
        elif kind == 2:
            pos = packed(value, 0)[0]
    return file, pos


@contextlib.contextmanager
def with_position(position: Coordinates, what: str = "") -> Iterator[None]:
    """Add the position to errors, and turn errors of malformed bytes into MalformedEvent."""
    try:
        yield
    except AqueductError as error:
        error.context.setdefault("coordinates", position)
        raise
    except (IndexError, ValueError, KeyError, struct.error) as error:
        raise MalformedEvent(f"{what}{error}", coordinates=position) from error
