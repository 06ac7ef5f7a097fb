"""The identity of the next transaction, from each kind of GTID event.

Invariant: a transaction is named by its server and its start position if and only if the transaction
has no GTID. The fields of GTID_TAGGED, an event with a tag that MySQL 8.3 introduced with a new encoding, are
read in the order of their numbers; an event with an unknown field that is marked as not ignorable is refused.
Source: MySQL's libs/mysql/serialization/readme.md, and control_events.h, Gtid_event::define_fields.
"""

from __future__ import annotations

import struct
import uuid
from typing import NamedTuple

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.chunk_context import MARIADB_GTID
from connectors.mysql.binlog.events import HEADER, HEADER_SIZE, EventType
from connectors.mysql.binlog.mariadb_events import MariadbGtid, parse_gtid
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


_GTID = struct.Struct(f"<{HEADER_SIZE}xx16sQ").unpack_from

Announced = tuple[int, str | None, int, str, int]
"""A transaction's start, its GTID's part before the number, its GTID's number, its id, and its commit
time at the server that wrote the event, in milliseconds since 1970, or 0 if unknown."""


class EventHeader(NamedTuple):
    """An event off the hot path: its start and end, and header fields."""

    file: str
    pos: int
    end_pos: int
    flags: int
    timestamp: int
    server_id: int


def tagged(body: bytes, header: EventHeader) -> Announced:
    """The transaction of a GTID_TAGGED event."""
    source, tag, number, committed = parse_gtid_tagged(body)
    source = f"{source}:{tag}" if tag else source
    return header.pos, source, number, f"{source}:{number}", committed // 1000


def without_gtid(announced: Announced | None, header: EventHeader, server_uuid: str) -> Announced:
    """The transaction of an ANONYMOUS_GTID event, which has the form of a GTID event."""
    committed = announced[4] if announced is not None else 0
    return header.pos, None, 0, f"{server_uuid}:{header.file}:{header.pos}", committed


def by_mariadb(gtid: str, header: EventHeader) -> Announced:
    """The transaction of a MariaDB GTID event, ``domain-server-sequence``."""
    source, _, number = gtid.rpartition("-")
    if number == "0":
        raise ValueError(f"no GTID has the number 0: {gtid}")
    return header.pos, source, int(number), gtid, 0


def gtid_of(event: bytes | memoryview) -> str | None:
    """Return the GTID that an event announces; None if it announces no transaction, or one without a GTID."""
    kind = event[4]
    if kind == EventType.GTID:
        raw, number = _GTID(event)
        return f"{uuid.UUID(bytes=raw)}:{number}"
    if kind == EventType.GTID_TAGGED:
        source, tag, number, _ = parse_gtid_tagged(bytes(event[HEADER_SIZE:]))
        return f"{source}:{tag}:{number}" if tag else f"{source}:{number}"
    return _mariadb(event).gtid if kind == MARIADB_GTID else None


def xid_announced(event: bytes | memoryview) -> str | None:
    """Return the XA transaction that an event announces; only MariaDB's GTID events name one."""
    return _mariadb(event).xid if event[4] == MARIADB_GTID else None


def _mariadb(event: bytes | memoryview) -> MariadbGtid:
    return parse_gtid(bytes(event[HEADER_SIZE:]), HEADER.unpack_from(event)[2])


def event_bounds(last: int, end_pos: int, size: int, open_: Transaction | None) -> tuple[int, int]:
    """Return the start and end of an event, also in a file of more than 4 GiB.

    Offsets only grow within a file, so the low 32 bits of ``end_pos`` suffice. An event without a
    position gets its transaction's start, independently of where its chunk was cut.
    """
    if not end_pos:
        last = open_.pos if open_ is not None else last
        return last, last
    pos = last + (end_pos - size - last & 0xFFFFFFFF)
    return pos, pos + size
