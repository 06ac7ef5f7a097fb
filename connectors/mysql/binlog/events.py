"""The binlog events other than rows, and their parsers.

Invariant: every type of event is decoded, named in ``HARMLESS_OF_MYSQL`` with the reason why it may be
ignored, or unsupported; there is no fourth case. Source: MySQL's libs/mysql/binlog/event headers
and the internals manual.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from dataclasses import dataclass
from enum import IntEnum

from connectors.errors import CorruptEvent
from connectors.mysql.binlog.query_session import CHARSET, SQL_MODE, status_variables
from connectors.mysql.buffer import LARGEST, packed, packed_bytes, read_bytes, uint
from connectors.mysql.charsets import Charsets, text_decoder
from connectors.mysql.ddl.definition import Execution


class EventType(IntEnum):
    """Event types with a name; the value is the byte on the wire."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    APPEND_BLOCK = 9
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42


HARMLESS_OF_MYSQL = {
    EventType.STOP: "the server closed this file; the next one follows",
    EventType.HEARTBEAT: "the server lives and has nothing to send",
    EventType.HEARTBEAT_V2: "the server lives and has nothing to send",
    EventType.IGNORABLE: "the server says that it may be passed by",
    EventType.ROWS_QUERY: "the text of a statement whose rows follow",
    EventType.PREVIOUS_GTIDS: "what earlier files hold",
    EventType.TRANSACTION_CONTEXT: "group replication's certification data",
    EventType.VIEW_CHANGE: "group replication's membership",
    EventType.BEGIN_LOAD_QUERY: "the file of a LOAD DATA; the statement itself is judged",
    EventType.APPEND_BLOCK: "more of the file of a LOAD DATA; the statement itself is judged",
    EventType.INTVAR: "context of a statement; a statement that changes rows is judged itself",
    EventType.RAND: "context of a statement; a statement that changes rows is judged itself",
    EventType.USER_VAR: "context of a statement; a statement that changes rows is judged itself",
}
"""MySQL's event types that carry no data change, each with the reason."""

_IGNORABLE_FLAG = 0x80
_IN_USE_FLAG = 0x01
HEADER = struct.Struct("<IBIIIH")
"""Timestamp, type, server_id, size, offset of the next event, flags."""
HEADER_SIZE = HEADER.size
CHECKSUM_SIZE = 4


@dataclass(slots=True)
class Event:
    """One event as received: header fields, and the body without header and checksum."""

    timestamp: int
    """Seconds since 1970, 0 for artificial events."""
    type: int
    server_id: int
    end_pos: int
    """Offset of the next event, modulo 2**32; 0 for artificial events."""
    flags: int
    size: int
    body: bytes


def is_ignorable(flags: int) -> bool:
    """Whether the server marks an event as ignorable by readers that do not support its type."""
    return bool(flags & _IGNORABLE_FLAG)


def parse_event(data: bytes, *, checksum: bool) -> Event:
    """Split one event into its header and body; with ``checksum``, verify its CRC32.

    Raise CorruptEvent if the length or the checksum does not match.
    """
    if len(data) < HEADER_SIZE:
        raise CorruptEvent(f"{len(data)} bytes are less than a header")
    timestamp, kind, server_id, size, end_pos, flags = HEADER.unpack_from(data)
    if size != len(data):
        raise CorruptEvent(f"its header states {size} bytes, {len(data)} were received")
    end = len(data)
    if checksum:
        end -= CHECKSUM_SIZE
        # In the first event of a file in use, the server sets this flag after computing the checksum.
        in_use = kind == EventType.FORMAT_DESCRIPTION and flags & _IN_USE_FLAG
        if not in_use and zlib.crc32(data[:end]) != uint(data, end, CHECKSUM_SIZE):
            raise CorruptEvent("its CRC32 does not match")
    return Event(timestamp, kind, server_id, end_pos, flags, size, data[HEADER_SIZE:end])


def format_has_checksum(data: bytes) -> bool:
    """Whether the events after this FORMAT_DESCRIPTION event (whole, with header) carry a CRC32.

    Since 5.6.1, a FORMAT_DESCRIPTION event ends in the algorithm's byte and the event's own checksum.
    """
    version = data[HEADER_SIZE + 2 : HEADER_SIZE + 52].rstrip(b"\0").decode("ascii", "replace")
    if _version(version) < (5, 6, 1):
        return False
    return data[-1 - CHECKSUM_SIZE] == 1


def _version(text: str) -> tuple[int, ...]:
    digits = text.split("-")[0].split(".")
    return tuple(int(part) for part in digits if part.isdigit())


@dataclass(frozen=True, slots=True)
class Gtid:
    """The start of a transaction, with its GTID if the server has GTIDs."""

    gtid: str | None
    committed_us: int | None
    """Commit time at the server that wrote the event, microseconds since 1970; None before MySQL 8.0.1."""


def parse_gtid(event: Event) -> Gtid:
    """Parse a GTID or ANONYMOUS_GTID event."""
    body = event.body
    sid, number = uuid.UUID(bytes=body[1:17]), uint(body, 17, 8)
    committed = None
    logical_clock_end = 42
    if len(body) >= logical_clock_end + 7:
        committed = uint(body, logical_clock_end, 7) & ((1 << 55) - 1)
    gtid = f"{sid}:{number}" if event.type == EventType.GTID else None
    return Gtid(gtid, committed)


def original_us(body: bytes) -> int:
    """Return when the transaction of an ANONYMOUS_GTID event was first committed on any server.

    In microseconds since 1970; 0 before MySQL 8.0.1. A replica writes this time after its own commit time.
    """
    at = 42
    own = int.from_bytes(body[at : at + 7], "little")
    if not own >> 55:
        return own
    return int.from_bytes(body[at + 7 : at + 14], "little")


def parse_rotate(event: Event) -> tuple[str, int]:
    """Return the name of the next file, and the offset in it at which the stream continues."""
    return event.body[8:].decode(), uint(event.body, 0, 8)


@dataclass(frozen=True, slots=True)
class Query:
    """A statement as the server ran it."""

    thread: int
    database: str | None
    sql: str
    sql_mode: int
    error_code: int
    status: bytes = b""
    """Its status variables, as ``connectors.mysql.binlog.query_session`` reads them."""
    started_s: int = 0
    """Start of the statement, seconds since 1970; 0 if it was read without its event's header."""


def parse_query(body: bytes, charsets: Charsets, *, started_s: int = 0) -> Query:
    """Parse the body of a QUERY event; the statement is in the character set of the client that ran it."""
    thread, _, database_size, error_code, status_size = struct.unpack_from("<IIBHH", body)
    raw_status, at = read_bytes(body, 13, status_size)
    database, at = read_bytes(body, at, database_size)
    status = status_variables(raw_status)
    collation = uint(status[CHARSET], 0, 2) if CHARSET in status else None
    return Query(
        thread=thread,
        database=database.decode() or None,
        sql=_statement_text(body[at + 1 :], collation, charsets),
        sql_mode=uint(status[SQL_MODE], 0, 8) if SQL_MODE in status else 0,
        error_code=error_code,
        status=raw_status,
        started_s=started_s,
    )


_OF_QUERY, _OF_FILE = 13, 13
"""Sizes in bytes of the fixed head of a QUERY event's body, and of the fields that an
EXECUTE_LOAD_QUERY event has after this head."""


def load_query(body: bytes) -> bytes:
    """Convert the body of an EXECUTE_LOAD_QUERY event to the body of a QUERY event."""
    return body[:_OF_QUERY] + body[_OF_QUERY + _OF_FILE :]


def _statement_text(raw: bytes, collation: int | None, charsets: Charsets) -> str:
    """Decode the text; bytes outside the client's character set stay visible as escapes.

    In swe7, the bytes of some SQL punctuation, such as the backtick, are letters. The server's
    parser reads them as punctuation, so a swe7 text is decoded as UTF-8.
    """
    charset = charsets.name(collation) if collation is not None else None
    decode = text_decoder(charset) if charset not in (None, "swe7") else None
    try:
        return decode(raw) if decode is not None else raw.decode()
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace")


def parse_incident(body: bytes) -> str:
    """The server's description of an incident."""
    return body[3 : 3 + body[2]].decode("utf-8", "replace")


def parse_rows_query(body: bytes) -> str:
    """Return the text of the statement whose rows follow; its length byte, too small for most, is ignored."""
    return body[1:].decode("utf-8", "backslashreplace")


_ZSTD, _NO_COMPRESSION = 0, 255
_READ = 128 * 1024


def payload_events(body: bytes) -> bytes:
    """The events inside a TRANSACTION_PAYLOAD event's body, concatenated, without checksums.

    A field has a type, a length and a value. Type 0 ends the fields; 1 is the payload's size, 2 its
    compression, 3 its size before compression. Source: libs/mysql/binlog/event/codecs/binary.cpp.
    """
    fields: dict[int, int] = {}
    at = 0
    while body[at] != 0:
        kind, at = packed(body, at)
        value, at = packed_bytes(body, at)
        fields[kind] = packed(value, 0)[0]
    content, _ = read_bytes(body, at + 1, fields[1])
    return _decompressed(content, fields.get(2, _NO_COMPRESSION), fields.get(3, 0))


def _decompressed(content: bytes, algorithm: int, size: int) -> bytes:
    if algorithm == _NO_COMPRESSION:
        return content
    if size > LARGEST:
        raise CorruptEvent(f"a compressed payload of {size} bytes was announced")
    if algorithm != _ZSTD:
        raise CorruptEvent(f"a payload is compressed by an unknown algorithm, {algorithm}")
    import zstandard

    try:
        # The frame's header lacks the content's size; at most one byte more than announced is read.
        data = bytearray()
        with zstandard.ZstdDecompressor().stream_reader(content) as reader:
            # Reading all at once would allocate memory for the whole announced size.
            while len(data) <= size:
                wanted = min(size + 1 - len(data), _READ)
                part = reader.read(wanted)
                data += part
                if len(part) < wanted:
                    # Another frame may follow, but no server writes one.
                    break
    except zstandard.ZstdError as error:
        raise CorruptEvent(f"a compressed payload cannot be read: {error}") from error
    if len(data) != size:
        raise CorruptEvent(
            f"a compressed payload has {len(data)} bytes at least, {size} were announced"
        )
    return bytes(data)


_TIME_ZONE, _MICROSECONDS, _MICROSECONDS_OF_MARIADB = 5, 13, 128
_SECOND = 1_000_000


def execution_of(query: Query, mark: str) -> Execution:
    """Return the statement's execution; ``mark`` identifies it among all executions on its source.

    A time or time zone that the event lacks is None; a missing fraction of a second is 0. A server logs a time
    zone and a fraction of a second only for statements that depend on them.
    """
    variables = status_variables(query.status)
    zone = variables.get(_TIME_ZONE)
    fraction = variables.get(_MICROSECONDS) or variables.get(_MICROSECONDS_OF_MARIADB) or bytes(3)
    started_us = query.started_s * _SECOND + uint(fraction, 0, 3) if query.started_s else None
    return Execution(
        mark=mark,
        started_us=started_us,
        time_zone=None if zone is None else zone[1:].decode("utf-8", "replace"),
    )
