"""Binlog events made by hand: their bytes as a server would write them.

Invariant: none of the code under test is used to make them. Source: MySQL's libs/mysql/binlog/event headers.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterable, Sequence

import zstandard

from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.types.registry import FieldType, MappedColumn

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FILE = "b.000001"
START = Coordinates(FILE, 100)
SECONDS = 1_795_000_000
"""When these events were made, as their headers say."""
HEADER = struct.Struct("<IBIIIH")
STATEMENT_ENDS = 1
"""The flag of the last rows event of a statement."""

_METADATA_SIZE = {FieldType.LONG: 0, FieldType.LONGLONG: 0, FieldType.VARCHAR: 2}
"""Of the types that a table map can be made of here."""


def event(
    kind: int, body: bytes = b"", *, flags: int = 0, server_id: int = 7, timestamp: int = SECONDS
) -> bytes:
    """An event without checksum that stands nowhere yet."""
    size = HEADER.size + len(body)
    return HEADER.pack(timestamp, kind, server_id, size, 0, flags) + body


def placed(data: bytes, pos: int, *, checksum: bool = False) -> bytes:
    """An event as it is at an offset of a file, of which the header has 32 bits."""
    timestamp, kind, server_id, size, _, flags = HEADER.unpack_from(data)
    size += 4 if checksum else 0
    end = pos + size & 0xFFFFFFFF
    whole = HEADER.pack(timestamp, kind, server_id, size, end, flags) + data[HEADER.size :]
    return whole + struct.pack("<I", zlib.crc32(whole)) if checksum else whole


def gtid(
    number: int, *, kind: int = EventType.GTID, committed_us: int = 0, source: str = SERVER
) -> bytes:
    """The start of a transaction, as since 8.0.1: with the time of its commit."""
    body = b"\1" + uuid.UUID(source).bytes + struct.pack("<Q", number) + b"\2" + bytes(16)
    return event(kind, body + committed_us.to_bytes(7, "little") + bytes(9))


def anonymous(*, committed_us: int = 0) -> bytes:
    """The start of a transaction on a server without GTIDs."""
    return gtid(0, kind=EventType.ANONYMOUS_GTID, committed_us=committed_us)


def query(sql: str, *, database: str = "shop", thread: int = 12, status: bytes = b"") -> bytes:
    """A statement."""
    head = struct.pack("<IIBHH", thread, 0, len(database), 0, len(status)) + status
    return event(EventType.QUERY, head + database.encode() + b"\0" + sql.encode())


def rows_query(text: str) -> bytes:
    """The text of the statement whose rows follow."""
    return event(EventType.ROWS_QUERY, bytes([len(text) & 0xFF]) + text.encode())


def xid() -> bytes:
    """A commit."""
    return event(EventType.XID, bytes(8))


def table_map(described: TableMap) -> bytes:
    """A TABLE_MAP event with the metadata of ``binlog_row_metadata=FULL``."""
    columns = described.columns
    database, table = described.database.encode(), described.table.encode()
    body = described.table_id.to_bytes(6, "little") + b"\1\0"
    body += bytes([len(database)]) + database + b"\0" + bytes([len(table)]) + table + b"\0"
    body += packed(len(columns)) + bytes(column.type for column in columns)
    body += _with_length(
        b"".join(
            column.metadata.to_bytes(_METADATA_SIZE[FieldType(column.type)], "little")
            for column in columns
        )
    )
    body += _bits([column.nullable for column in columns])
    return event(EventType.TABLE_MAP, body + b"".join(_optional(described)))


def _optional(described: TableMap) -> Iterable[bytes]:
    columns = described.columns
    numbers = [bool(c.unsigned) for c in columns if c.type != FieldType.VARCHAR]
    if numbers:
        # The first column has the highest bit, other than everywhere else.
        turned = bytes(int(f"{byte:08b}"[::-1], 2) for byte in _bits(numbers))
        yield b"\1" + _with_length(turned)
    texts = [c.collation or 0 for c in columns if c.type == FieldType.VARCHAR]
    if texts:
        yield b"\3" + _with_length(b"".join(map(packed, texts)))
    names = b"".join(_with_length((column.name or "").encode()) for column in columns)
    yield b"\4" + _with_length(names)
    if described.primary_key is not None:
        yield b"\10" + _with_length(b"".join(map(packed, described.primary_key)))


def rows(
    described: TableMap,
    images: Iterable[bytes],
    *,
    kind: int = EventType.WRITE_ROWS,
    statement_ends: bool = True,
) -> bytes:
    """A rows event of full images, each with its bits of NULL: an update's before and after by turns."""
    width = len(described.columns)
    flags = STATEMENT_ENDS if statement_ends else 0
    head = described.table_id.to_bytes(6, "little") + struct.pack("<HH", flags, 2) + packed(width)
    present = _bits([True] * width) * (2 if kind == EventType.UPDATE_ROWS else 1)
    return event(kind, head + present + b"".join(images))


def payload(*events: bytes, algorithm: int = 0, size: int | None = None) -> bytes:
    """A compressed transaction: 0 is zstd, 255 is none."""
    content = b"".join(events)
    size = len(content) if size is None else size
    stored = zstandard.compress(content) if algorithm == 0 else content
    return event(
        EventType.TRANSACTION_PAYLOAD, payload_body(stored, size=size, algorithm=algorithm)
    )


def payload_body(stored: bytes, *, size: int, algorithm: int = 0) -> bytes:
    """The fields of a payload and what it stores: type, length and value of each, and 0 after the last."""
    fields = b"\2" + _with_length(packed(algorithm))
    fields += b"\3" + _with_length(packed(size)) + b"\1" + _with_length(packed(len(stored)))
    return fields + b"\0" + stored


def int_table(number: int = 1, table: str = "t") -> TableMap:
    """A table of one INT column."""
    column = MappedColumn(type=FieldType.LONG, metadata=0, nullable=True, name="c", unsigned=False)
    return TableMap(table_id=number, database="shop", table=table, columns=(column,))


def int_rows(described: TableMap, *numbers: int, statement_ends: bool = True) -> bytes:
    """Rows that were written into such a table."""
    images = [b"\0" + struct.pack("<i", number) for number in numbers]
    return rows(described, images, statement_ends=statement_ends)


def chunk_of(
    *events: bytes,
    start: Coordinates = START,
    prefix: int = 0,
    checksum: bool = False,
    context: Sequence[bytes] = (),
    context_start: Coordinates | None = None,
) -> Chunk:
    """A chunk of consecutive events from ``start`` on."""
    data, pos = b"", start.pos
    for one in events:
        whole = placed(one, pos, checksum=checksum)
        # What a packet begins with, with bytes that nobody may take for an event's.
        data += b"\xee" * prefix + whole
        pos += len(whole)
    return Chunk(
        start=start,
        data=data,
        prefix=prefix,
        checksum=checksum,
        context=tuple(context),
        context_start=context_start,
    )


def places(*events: bytes, start: Coordinates = START, checksum: bool = False) -> list[Coordinates]:
    """Where each of some events begins, and where the last of them ends."""
    found = [start]
    for one in events:
        last = found[-1]
        found.append(Coordinates(last.file, last.pos + len(one) + (4 if checksum else 0)))
    return found


def packed(number: int) -> bytes:
    """A number in MySQL's own length."""
    if number < 251:
        return bytes([number])
    if number < 1 << 16:
        return b"\xfc" + struct.pack("<H", number)
    if number < 1 << 24:
        return b"\xfd" + number.to_bytes(3, "little")
    return b"\xfe" + struct.pack("<Q", number)


def _with_length(value: bytes) -> bytes:
    return packed(len(value)) + value


def _bits(values: Sequence[bool]) -> bytes:
    """The first one is the lowest bit."""
    number = sum(1 << n for n, value in enumerate(values) if value)
    return number.to_bytes((len(values) + 7) // 8, "little")
