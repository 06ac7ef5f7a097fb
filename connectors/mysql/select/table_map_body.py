"""The body of a TABLE_MAP event for a table map, with all optional metadata.

Invariant: ``parse_table_map`` reads the same table map from the body. It ignores the lengths of a key's
prefixes, which are therefore not written.
Source: MySQL's sql/log_event.cc, Table_map_log_event::init_metadata_fields, and field.cc,
save_field_metadata.
"""

from __future__ import annotations

from collections.abc import Iterable

from connectors.mysql.binlog import table_map as optional
from connectors.mysql.binlog.table_map import (
    CHARACTER,
    LABELLED,
    MARIADB_CHARACTER,
    NUMERIC,
    TableMap,
)
from connectors.mysql.schema.table_map_completion import BINARY_COLLATION
from connectors.mysql.types.registry import FieldType, MappedColumn, binlog_type

_T = FieldType
_IN_STRING = {_T.STRING, *LABELLED}
_STATEMENT_END = b"\1\0"


def table_map_body(table_map: TableMap, *, mariadb: bool = False) -> bytes:
    """Serialize a table map whose columns have names, signs, collations and labels.

    Either all columns have a visibility, or no column has. ``mariadb``: whether the list of collations
    includes geometries.
    """
    columns = table_map.columns
    metadata = b"".join(map(_metadata, columns))
    return b"".join(
        (
            table_map.table_id.to_bytes(6, "little"),
            _STATEMENT_END,
            _name(table_map.database),
            _name(table_map.table),
            packed_integer(len(columns)),
            bytes(_T.STRING if one.type in _IN_STRING else one.type for one in columns),
            _sized(metadata),
            _bitmap([one.nullable for one in columns]),
            *(bytes([kind]) + _sized(value) for kind, value in _optional(table_map, mariadb)),
        )
    )


def packed_integer(value: int) -> bytes:
    """Return an integer in length-encoded form."""
    if value < 0xFB:
        return bytes([value])
    for head, size in ((0xFC, 2), (0xFD, 3), (0xFE, 8)):
        if value < 1 << (8 * size):
            return bytes([head]) + value.to_bytes(size, "little")
    raise ValueError(f"{value} has more than 64 bits")


def _sized(raw: bytes) -> bytes:
    return packed_integer(len(raw)) + raw


def _name(text: str) -> bytes:
    raw = text.encode()
    return bytes([len(raw)]) + raw + b"\0"


def _bitmap(flags: list[bool]) -> bytes:
    value = sum(1 << n for n, flag in enumerate(flags) if flag)
    return value.to_bytes((len(flags) + 7) // 8, "little")


def _bitmap_from_high_bit(flags: list[bool]) -> bytes:
    size = (len(flags) + 7) // 8
    value = sum(1 << (8 * size - 1 - n) for n, flag in enumerate(flags) if flag)
    return value.to_bytes(size, "big")


def _metadata(column: MappedColumn) -> bytes:
    if column.type in LABELLED:
        return bytes([column.type, column.metadata])
    if column.type == _T.STRING:
        # Two bits of a length above 255 are in the byte of the type, inverted.
        return bytes([_T.STRING ^ ((column.metadata & 0x300) >> 4), column.metadata & 0xFF])
    known = binlog_type(column.type)
    return column.metadata.to_bytes(0 if known is None else known.metadata_size, "little")


def _optional(table_map: TableMap, mariadb: bool) -> Iterable[tuple[int, bytes]]:
    """Type and value of each optional field that is not empty."""
    columns = table_map.columns
    character = MARIADB_CHARACTER if mariadb else CHARACTER
    texts = [one for one in columns if one.type in character]
    labelled = [one for one in columns if one.type in LABELLED]
    fields = (
        (
            optional.SIGNEDNESS,
            _bitmap_from_high_bit([bool(one.unsigned) for one in columns if one.type in NUMERIC]),
        ),
        (optional.COLUMN_CHARSET, _integers(map(_collation, texts))),
        (optional.NAMES, b"".join(_sized((one.name or "").encode()) for one in columns)),
        (optional.SET_LABELS, b"".join(_labels(one) for one in labelled if one.type == _T.SET)),
        (optional.ENUM_LABELS, b"".join(_labels(one) for one in labelled if one.type == _T.ENUM)),
        (
            optional.GEOMETRY_TYPES,
            _integers(one.geometry_type or 0 for one in columns if one.type == _T.GEOMETRY),
        ),
        (optional.SIMPLE_KEY, _integers(table_map.primary_key or ())),
        (optional.LABEL_COLUMN_CHARSET, _integers(map(_collation, labelled))),
        (
            optional.VISIBILITY,
            _bitmap_from_high_bit([one.visible for one in columns if one.visible is not None]),
        ),
        (
            optional.DIMENSIONS,
            _integers(one.dimensions or 0 for one in columns if one.type == _T.VECTOR),
        ),
    )
    return ((kind, value) for kind, value in fields if value)


def _collation(column: MappedColumn) -> int:
    return BINARY_COLLATION if column.collation is None else column.collation


def _integers(values: Iterable[int]) -> bytes:
    return b"".join(map(packed_integer, values))


def _labels(column: MappedColumn) -> bytes:
    labels = column.labels or ()
    return packed_integer(len(labels)) + b"".join(map(_sized, labels))
