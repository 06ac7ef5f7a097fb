"""The events that only MariaDB writes, their parsers, and the names of both makes' event types.

Invariant: a type is decoded, harmless for a documented reason, or unsupported; there is no fourth case. The
parsers depend on the event's bytes alone. A length, algorithm or count that a server
announces is checked against the data, and nothing is unpacked beyond an announced length. Source:
MariaDB's sql/log_event.h and log_event.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.events import HARMLESS_OF_MYSQL, EventType
from connectors.mysql.buffer import inflated, packed, read_bytes, uint


class MariadbEventType(IntEnum):
    """Event types of MariaDB that MySQL lacks; the value is the byte on the wire."""

    ANNOTATE_ROWS = 160
    BINLOG_CHECKPOINT = 161
    GTID = 162
    GTID_LIST = 163
    START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED_V1 = 166
    UPDATE_ROWS_COMPRESSED_V1 = 167
    DELETE_ROWS_COMPRESSED_V1 = 168
    WRITE_ROWS_COMPRESSED = 169
    UPDATE_ROWS_COMPRESSED = 170
    DELETE_ROWS_COMPRESSED = 171


_HARMLESS_OF_MARIADB = {
    MariadbEventType.ANNOTATE_ROWS: "the text of a statement whose rows follow",
    MariadbEventType.BINLOG_CHECKPOINT: "which file the server's own recovery begins with",
    MariadbEventType.GTID_LIST: "the last GTIDs of earlier files",
    MariadbEventType.START_ENCRYPTION: "the file is encrypted on disk; the server decrypts what it sends",
}
HARMLESS = {
    int(kind): why for kind, why in (*HARMLESS_OF_MYSQL.items(), *_HARMLESS_OF_MARIADB.items())
}
"""Event types of both makes that carry no data change, each with the reason."""
_NAMES = {int(kind): kind.name for kind in EventType} | {
    # If both servers define a name, MariaDB's event type gets a prefix.
    int(kind): kind.name if kind.name not in EventType.__members__ else f"MARIADB_{kind.name}"
    for kind in MariadbEventType
}


def is_known(kind: int) -> bool:
    """Whether an event's type has a name here."""
    return kind in _NAMES


def type_name(kind: int) -> str:
    """The name of an event's type, or its number if it has none."""
    return _NAMES.get(kind, f"type {kind}")


PLAIN_ROWS = {
    MariadbEventType.WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
    MariadbEventType.UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
    MariadbEventType.DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
    MariadbEventType.WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS,
    MariadbEventType.UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS,
    MariadbEventType.DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS,
}
"""The plain type of each compressed rows event."""
FIRST_COMPRESSED_ROWS = min(map(int, PLAIN_ROWS))
"""Rows events of this type and above are compressed."""


class GtidFlag(IntFlag):
    """Flags of a GTID event about its transaction."""

    STANDALONE = 0x01
    """The transaction consists of the statement that follows; no other event ends it."""
    GROUP_COMMIT = 0x02
    TRANSACTIONAL = 0x04
    ALLOW_PARALLEL = 0x08
    WAITED = 0x10
    DDL = 0x20
    PREPARED_XA = 0x40
    """The transaction ends in XA PREPARE; a later transaction commits it or rolls it back."""
    COMPLETED_XA = 0x80
    """The transaction is the XA COMMIT or XA ROLLBACK of an earlier transaction."""


class Alter(IntEnum):
    """The parts of an ALTER TABLE under ``binlog_alter_two_phase``."""

    START = 0x02
    """The ALTER has begun; the table is unchanged."""
    COMMIT = 0x04
    ROLLBACK = 0x08


_MULTI_ENGINE = 0x01
_ALTERS = Alter.START | Alter.COMMIT | Alter.ROLLBACK


@dataclass(frozen=True, slots=True, kw_only=True)
class MariadbGtid:
    """The start of a transaction; no BEGIN follows it."""

    gtid: str
    """``domain-server-sequence``."""
    flags: GtidFlag
    commit_id: int | None = None
    """Shared by transactions that were committed together."""
    xid: str | None = None
    """An XA transaction's name in the form of XA statements."""
    alter: Alter | None = None
    alter_start: int | None = None
    """For a COMMIT or ROLLBACK of an ALTER, the sequence number of its START in the same domain."""

    @property
    def standalone(self) -> bool:
        """Whether the transaction ends with the statement that follows."""
        return bool(self.flags & GtidFlag.STANDALONE)


def parse_gtid(body: bytes, server_id: int) -> MariadbGtid:
    """Parse a GTID event's body; the GTID's server is in the event's header.

    The server pads short bodies with zeros to 19 bytes; these zeros mean "no more flags".
    """
    sequence, domain, flags = uint(body, 0, 8), uint(body, 8, 4), GtidFlag(body[12])
    at, commit_id, xid = 13, None, None
    if flags & GtidFlag.GROUP_COMMIT:
        commit_id, at = uint(body, at, 8), at + 8
    if flags & (GtidFlag.PREPARED_XA | GtidFlag.COMPLETED_XA):
        xid, at = _xid(body, at)
    alter, alter_start = _alter(body, at)
    return MariadbGtid(
        gtid=f"{domain}-{server_id}-{sequence}",
        flags=flags,
        commit_id=commit_id,
        xid=xid,
        alter=alter,
        alter_start=alter_start,
    )


def _xid(body: bytes, at: int) -> tuple[str, int]:
    number, global_size, branch_size = uint(body, at, 4), body[at + 4], body[at + 5]
    name, at = read_bytes(body, at + 6, global_size)
    branch, at = read_bytes(body, at, branch_size)
    return f"X'{name.hex()}',X'{branch.hex()}',{number}", at


def _alter(body: bytes, at: int) -> tuple[Alter | None, int | None]:
    more = body[at] if at < len(body) else 0
    at += 2 if more & _MULTI_ENGINE else 1
    alter = Alter(more & _ALTERS) if more & _ALTERS else None
    return alter, uint(body, at, 8) if alter in (Alter.COMMIT, Alter.ROLLBACK) else None


def parse_annotation(body: bytes) -> str:
    """Return the statement of an ANNOTATE_ROWS event; bytes that are not UTF-8 become escapes."""
    return body.decode("utf-8", "backslashreplace")


_QUERY_HEAD = 13


def uncompressed_query(body: bytes) -> bytes:
    """Convert the body of a QUERY_COMPRESSED event to the body of the original QUERY event."""
    database_size, status_size = body[8], uint(body, 11, 2)
    at = _QUERY_HEAD + status_size + database_size + 1
    return body[:at] + _unpacked(body, at)


_V2 = {
    MariadbEventType.WRITE_ROWS_COMPRESSED,
    MariadbEventType.UPDATE_ROWS_COMPRESSED,
    MariadbEventType.DELETE_ROWS_COMPRESSED,
}
_UPDATES = {
    MariadbEventType.UPDATE_ROWS_COMPRESSED_V1,
    MariadbEventType.UPDATE_ROWS_COMPRESSED,
}


def uncompressed_rows(event_type: int, body: bytes) -> bytes:
    """Convert a compressed rows event's body to the body of the original event, ``PLAIN_ROWS[event_type]``.

    Only the rows are compressed; table, width and bitmaps before them are not.
    """
    count, at = packed(body, 8 + uint(body, 8, 2) if event_type in _V2 else 8)
    at += (count + 7) // 8 * (2 if event_type in _UPDATES else 1)
    return body[:at] + _unpacked(body, at)


def plain_rows(event_type: int, body: bytes) -> tuple[int, bytes]:
    """Return a rows event's type and body after unpacking; an uncompressed event is returned as is."""
    if event_type < FIRST_COMPRESSED_ROWS:
        return event_type, body
    plain = int(PLAIN_ROWS[MariadbEventType(event_type)])
    return plain, uncompressed_rows(event_type, body)


_COMPRESSED, _ALGORITHM, _LENGTH_SIZE = 0x80, 0x70, 0x07


def _unpacked(data: bytes, at: int) -> bytes:
    """Unpack a head byte, a big-endian length and zlib's stream."""
    head = data[at]
    if not head & _COMPRESSED or head & _ALGORITHM:
        raise UnsupportedEvent(f"a compressed event with the head {head:#04x}, which is not zlib's")
    length, at = read_bytes(data, at + 1, head & _LENGTH_SIZE)
    return inflated(data[at:], int.from_bytes(length, "big"))
