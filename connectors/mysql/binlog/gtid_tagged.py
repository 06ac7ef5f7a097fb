"""GTID_TAGGED events: GTIDs with a tag, introduced by MySQL 8.3 with a new encoding.

Invariant: the fields are read in the order of their numbers; an event with an unknown field that is
marked as not ignorable is refused. Source: MySQL's libs/mysql/serialization/readme.md, and
control_events.h, Gtid_event::define_fields.
"""

from __future__ import annotations

import uuid

from connectors.errors import UnsupportedEvent
from connectors.mysql.buffer import read_bytes

_VERSION = 1
_FLAGS, _UUID, _NUMBER, _TAG, _LAST_COMMITTED, _SEQUENCE, _COMMITTED, _ORIGINAL = range(8)
_LAST_KNOWN = 11
_SIGNED = frozenset({_NUMBER, _LAST_COMMITTED, _SEQUENCE})


def parse_gtid_tagged(body: bytes) -> tuple[str, str, int, int]:
    """Return a GTID_TAGGED event's UUID, tag, number and commit time at the server that wrote the event.

    The tag may be empty; the time is in microseconds since 1970. Raise UnsupportedEvent, ValueError or
    IndexError for another form.
    """
    version, at = integer(body, 0)
    size, at = integer(body, at)
    must_know, at = integer(body, at)
    if version != _VERSION or must_know > _LAST_KNOWN:
        raise UnsupportedEvent(f"a GTID_TAGGED event of form {version} with field {must_know}")
    if size != len(body):
        raise ValueError(f"it states {size} bytes, {len(body)} were received")
    found: dict[int, object] = {}
    source, tag, numbers = b"", "", dict.fromkeys((_NUMBER, _COMMITTED), 0)
    while at < len(body) and len(found) <= _COMMITTED:
        field, at = integer(body, at)
        if field > _COMMITTED:
            break
        if field == _UUID:
            source, at = _uuid(body, at)
        elif field == _TAG:
            length, at = integer(body, at)
            raw, at = read_bytes(body, at, length)
            tag = raw.decode("ascii")
        else:
            numbers[field], at = (signed if field in _SIGNED else integer)(body, at)
    if len(source) != 16 or not 0 < numbers[_NUMBER] < 1 << 63:
        raise ValueError("it lacks its GTID")
    return str(uuid.UUID(bytes=source)), tag, numbers[_NUMBER], numbers[_COMMITTED]


def original_us_tagged(body: bytes) -> int:
    """Return when a GTID_TAGGED event's transaction was first committed, in microseconds since 1970.

    A server writes the first server's commit time only if it differs from the server's own.
    """
    at, committed = 0, 0
    for _ in range(3):
        _, at = integer(body, at)
    while at < len(body):
        field, at = integer(body, at)
        if field == _UUID:
            _, at = _uuid(body, at)
        elif field == _TAG:
            length, at = integer(body, at)
            _, at = read_bytes(body, at, length)
        else:
            value, at = (signed if field in _SIGNED else integer)(body, at)
            if field == _ORIGINAL:
                return value
            committed = value if field == _COMMITTED else committed
        if field > _ORIGINAL:
            break
    return committed


def _uuid(data: bytes, at: int) -> tuple[bytes, int]:
    """Sixteen bytes, each encoded as an integer."""
    found = bytearray()
    for _ in range(16):
        byte, at = integer(data, at)
        found.append(byte)
    return bytes(found), at


def integer(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned integer at ``at``, and its end.

    The number of trailing one bits in the first byte is the number of bytes that follow. If it is
    eight, the following bytes contain the whole value.
    """
    first = data[at]
    more = (~first & (first + 1)).bit_length() - 1
    end = at + 1 + more
    if end > len(data):
        raise IndexError(f"{end - at} bytes needed at {at}, of {len(data)}")
    rest = int.from_bytes(data[at + 1 : end], "little")
    if more == 8:
        return rest, end
    return first >> more + 1 | rest << 7 - more, end


def signed(data: bytes, at: int) -> tuple[int, int]:
    """The signed integer at ``at``, whose lowest bit is its sign, and its end."""
    value, end = integer(data, at)
    return (~(value >> 1) if value & 1 else value >> 1), end
