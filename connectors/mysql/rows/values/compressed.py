"""Text and bytes of MariaDB's compressed columns.

Invariant: a value is that of the column's plain type, or an error; no more is unpacked than
announced.
Source: MariaDB's sql/field.cc, Field_longstr::uncompress, and sql/field_comp.cc.
"""

from __future__ import annotations

import base64

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.buffer import read_bytes, uint
from connectors.mysql.binlog.mariadb_events import inflated
from connectors.mysql.binlog.table_map import FieldType, MappedColumn
from connectors.mysql.charset.charsets import BINARY, Charsets
from connectors.mysql.rows.values.shape import Reader
from connectors.mysql.rows.values.strings import charset_of, decoder_of

_PLAIN, _ZLIB = 0x00, 0x80
_METHOD, _WITHOUT_HEAD, _LENGTH_SIZE = 0xF0, 0x08, 0x07


def compressed(column: MappedColumn, charsets: Charsets) -> Reader:
    """VARCHAR, VARBINARY, TEXT and BLOB with COMPRESSED: a length, a head byte, then plain or zlib bytes."""
    length_size = length_size_of(column)
    binary = charset_of(column, charsets) == BINARY
    decode = decoder_of(column, charsets)

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at + length_size, uint(data, at, length_size))
        value = unpacked(raw)
        return base64.b64encode(value).decode() if binary else decode(value), end

    return read


def length_size_of(column: MappedColumn) -> int:
    """Bytes of a value's length; a VARCHAR's metadata is its size plus one, for the head."""
    if column.type == FieldType.BLOB_COMPRESSED:
        return column.metadata
    return 1 if column.metadata < 256 else 2


def unpacked(raw: bytes) -> bytes:
    """The value in a column's bytes; the empty value has no head."""
    if not raw:
        return raw
    head = raw[0]
    if head & _METHOD == _PLAIN:
        return raw[1:]
    if head & _METHOD != _ZLIB:
        raise UnsupportedEvent(
            f"a compressed column with the head {head:#04x}, which is not zlib's"
        )
    size, at = read_bytes(raw, 1, head & _LENGTH_SIZE)
    return inflated(raw[at:], int.from_bytes(size, "big"), raw=bool(head & _WITHOUT_HEAD))
