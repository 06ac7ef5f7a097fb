"""A column's type as ``information_schema`` prints it, derived from the binlog alone.

Invariant: only the content of the table map is used. Display widths and ZEROFILL are not in it, nor
do they change a value.
"""

from __future__ import annotations

from connectors.mysql.binlog.table_map import FieldType, MappedColumn
from connectors.mysql.charset.charsets import BINARY, Charsets
from connectors.mysql.rows.values.strings import charset_of, labels_of

_T = FieldType
_FIXED = {
    _T.TINY: "tinyint", _T.SHORT: "smallint", _T.INT24: "mediumint", _T.LONG: "int", _T.LONGLONG: "bigint",
    _T.FLOAT: "float", _T.DOUBLE: "double", _T.DATE: "date", _T.YEAR: "year", _T.JSON: "json",
    _T.TIME: "time", _T.DATETIME: "datetime", _T.TIMESTAMP: "timestamp",
}  # fmt: skip
_FRACTIONAL = {_T.TIME2: "time", _T.DATETIME2: "datetime", _T.TIMESTAMP2: "timestamp"}
_BLOBS = {1: "tiny", 2: "", 3: "medium", 4: "long"}
GEOMETRIES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geomcollection",
)  # fmt: skip


def column_type(column: MappedColumn, charsets: Charsets) -> str:
    """For example ``decimal(12,2) unsigned`` or ``varchar(80)``; raise UnsupportedEvent for an unknown type."""
    text = _plain(column, charsets)
    return f"{text} unsigned" if column.unsigned and column.type != _T.YEAR else text


def column_charset(column: MappedColumn, charsets: Charsets) -> str | None:
    """The character set of text; None for numbers, times and bytes."""
    if column.type not in _WITH_CHARSET:
        return None
    charset = charset_of(column, charsets)
    return None if charset == BINARY and column.type not in (_T.ENUM, _T.SET) else charset


_WITH_CHARSET = {
    _T.VARCHAR, _T.VAR_STRING, _T.STRING, _T.BLOB, _T.ENUM, _T.SET,
    _T.VARCHAR_COMPRESSED, _T.BLOB_COMPRESSED,
}  # fmt: skip


def _plain(column: MappedColumn, charsets: Charsets) -> str:
    kind, metadata = column.type, column.metadata
    if kind in _FIXED:
        return _FIXED[FieldType(kind)]
    if kind in _FRACTIONAL:
        return _FRACTIONAL[FieldType(kind)] + (f"({metadata})" if metadata else "")
    if kind == _T.NEWDECIMAL:
        return f"decimal({metadata & 0xFF},{metadata >> 8})"
    if kind == _T.BIT:
        return f"bit({(metadata >> 8) * 8 + (metadata & 0xFF)})"
    if kind == _T.GEOMETRY:
        known = column.geometry_type is not None and column.geometry_type < len(GEOMETRIES)
        return GEOMETRIES[column.geometry_type or 0] if known else "geometry"
    if kind == _T.VECTOR:
        return f"vector({column.dimensions})" if column.dimensions else "vector"
    if kind in (_T.ENUM, _T.SET):
        quoted = ",".join(
            "'" + label.replace("'", "''") + "'" for label in labels_of(column, charsets)
        )
        return f"{'enum' if kind == _T.ENUM else 'set'}({quoted})"
    return _string(column, charsets)


def _string(column: MappedColumn, charsets: Charsets) -> str:
    charset = charset_of(column, charsets)
    binary = charset == BINARY
    if column.type == _T.VARCHAR_COMPRESSED:
        # One byte of its length is the value's head.
        size = column.metadata - 1
        return f"varbinary({size})" if binary else f"varchar({size // charsets.width(charset)})"
    if column.type in (_T.BLOB, _T.BLOB_COMPRESSED):
        return _BLOBS[column.metadata] + ("blob" if binary else "text")
    name = "char" if column.type == _T.STRING else "varchar"
    if binary:
        return f"{'binary' if name == 'char' else 'varbinary'}({column.metadata})"
    return f"{name}({column.metadata // charsets.width(charset)})"
