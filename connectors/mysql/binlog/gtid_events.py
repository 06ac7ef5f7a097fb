"""The identity of the next transaction, from each kind of GTID event.

Invariant: a transaction is named by its server and its start position if and only if the transaction
has no GTID.
"""

from __future__ import annotations

import struct
import uuid
from typing import NamedTuple

from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.chunk_context import MARIADB_GTID
from connectors.mysql.binlog.events import HEADER, HEADER_SIZE, EventType
from connectors.mysql.binlog.gtid_tagged import parse_gtid_tagged
from connectors.mysql.binlog.mariadb_events import MariadbGtid, parse_gtid

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
