"""The type and metadata of a column in the binlog, by its type in ``information_schema``.

Invariant: the inverse of ``schema.column_type`` for every type whose rows can be read; any other raises
SnapshotUnsupported. Formats of earlier versions are replaced by the current ones, which have the same values.
Source: MySQL's sql/field.cc and MariaDB's, save_field_metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from connectors.errors import SnapshotUnsupported
from connectors.mysql.binlog.table_map import FieldType
from connectors.mysql.charset.charsets import BINARY, Charsets
from connectors.mysql.ddl.definition import Server
from connectors.mysql.schema.column_type import GEOMETRIES
from connectors.mysql.schema.server_columns import ColumnDefinition
from connectors.mysql.schema.table_map_completion import labels_in

_T = FieldType
Layout = tuple[FieldType, int]
"""Type and metadata, as in MappedColumn."""

_WITHOUT_METADATA = {
    "tinyint": _T.TINY, "smallint": _T.SHORT, "mediumint": _T.INT24, "int": _T.LONG, "bigint": _T.LONGLONG,
    "date": _T.DATE,
}  # fmt: skip
_CONSTANT: dict[str, Layout] = {
    **{name: (kind, 0) for name, kind in _WITHOUT_METADATA.items()},
    "float": (_T.FLOAT, 4),
    "double": (_T.DOUBLE, 8),
    **{
        f"{size}{name}": (_T.BLOB, length_size)
        for length_size, size in enumerate(("tiny", "", "medium", "long"), 1)
        for name in ("blob", "text")
    },
    **dict.fromkeys((*GEOMETRIES, "geometrycollection"), (_T.GEOMETRY, 4)),
}
_OF_MYSQL: dict[str, Layout] = {"json": (_T.JSON, 4), "vector": (_T.VECTOR, 4)}
_OF_MARIADB: dict[str, Layout] = {
    "inet4": (_T.STRING, 4),
    "inet6": (_T.STRING, 16),
    "uuid": (_T.STRING, 16),
}
_JSON_WITH_POINTS = (8, 0, 15)
"""The earliest version known to print the point of each DOUBLE; 5.7 does not."""
_TYPE = re.compile(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?(?: unsigned)?(?: zerofill)?(?: /\*.*)?", re.I)
_VECTOR_ELEMENT = 4


def layout_of(definition: ColumnDefinition, charsets: Charsets, *, server: Server) -> Layout:
    """The layout of a column; raises SnapshotUnsupported, without the table's name, if it has none."""
    text = definition.column_type
    name = text.partition("(")[0].lower()
    if name in ("enum", "set"):
        return _labelled(name, len(labels_in(text)))
    parsed = _TYPE.fullmatch(text)
    if parsed is not None:
        name = parsed[1].lower()
        size, scale = int(parsed[2] or 0), int(parsed[3] or 0)
        if server.mariadb and name == "vector":
            return _T.VARCHAR, _VECTOR_ELEMENT * size
        layout = _CONSTANT.get(name) or (_OF_MARIADB if server.mariadb else _OF_MYSQL).get(name)
        if layout is not None and not (name == "json" and server.version < _JSON_WITH_POINTS):
            return layout
        if name in _SIZED:
            return _SIZED[name](size, scale)
        if name == "year" and size in (0, 4):
            return _T.YEAR, 0
        if name in _STRINGS:
            return _STRINGS[name], size * _width(definition, charsets)
    raise SnapshotUnsupported(f"column {definition.name!r} has the type {text}, {_why(name)}")


def _why(name: str) -> str:
    if name == "year":
        return "of which a SELECT does not show the century"
    if name == "json":
        return "and a SELECT does not distinguish 1.0 from 1 in documents on servers before MySQL 8.0.15"
    return "whose values have no known form in the binlog"


def _labelled(name: str, count: int) -> Layout:
    if name == "enum":
        return _T.ENUM, 1 if count < 256 else 2
    size = (count + 7) // 8
    return _T.SET, size if size <= 4 else 8


_SIZED: dict[str, Callable[[int, int], Layout]] = {
    "decimal": lambda precision, scale: (_T.NEWDECIMAL, precision | scale << 8),
    "bit": lambda size, _: (_T.BIT, size // 8 << 8 | size % 8),
    "time": lambda digits, _: (_T.TIME2, digits),
    "datetime": lambda digits, _: (_T.DATETIME2, digits),
    "timestamp": lambda digits, _: (_T.TIMESTAMP2, digits),
}
_STRINGS = {
    "char": _T.STRING,
    "binary": _T.STRING,
    "varchar": _T.VARCHAR,
    "varbinary": _T.VARCHAR,
}


def _width(definition: ColumnDefinition, charsets: Charsets) -> int:
    """The bytes of a character."""
    if definition.charset is None:
        return 1
    if definition.collation is None:
        raise SnapshotUnsupported(
            f"column {definition.name!r} has the character set {definition.charset}, which the "
            "server does not list"
        )
    name = charsets.name(definition.collation)
    return 1 if name == BINARY else charsets.width(name)
