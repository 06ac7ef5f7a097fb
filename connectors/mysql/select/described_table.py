"""The table map of a table's rows, derived from its definition, and its bytes as a server would write them.

Invariant: the table map is the same that the server would write with ``binlog_row_metadata=FULL``,
except for hidden columns, which are not in a definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from connectors.errors import DefinitionMismatch, SnapshotUnsupported, UnsupportedEvent
from connectors.mysql.binlog import table_map as optional
from connectors.mysql.binlog.table_map import (
    CHARACTER,
    LABELLED,
    MARIADB_CHARACTER,
    NUMERIC,
    TableMap,
)
from connectors.mysql.charsets import BINARY, Charsets
from connectors.mysql.ddl.definition import Column, Server, Table, TableName
from connectors.mysql.schema.definition_check import column_definition, completed_map
from connectors.mysql.schema.server_columns import ColumnDefinition
from connectors.mysql.schema.table_map_completion import BINARY_COLLATION, labels_in
from connectors.mysql.types.registry import (
    FieldType,
    Kind,
    Layout,
    MappedColumn,
    binlog_type,
    sql_type,
)

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


def described_table(
    name: TableName,
    table: Table,
    charsets: Charsets,
    *,
    server: Server,
    table_id: int = 0,
    is_selected: bool = True,
) -> TableMap:
    """Return the table map of a table; raise SnapshotUnsupported if a column's type has no known form.

    With ``is_selected``, raise it also if a SELECT would not return a column's values exactly.
    """
    database, own = name
    try:
        columns = tuple(_mapped(one, charsets, server, is_selected) for one in table.columns)
        bare = TableMap(table_id=table_id, database=database, table=own, columns=columns)
        complete = completed_map(bare, table, charsets, server=server)
    except SnapshotUnsupported as error:
        raise SnapshotUnsupported(error.detail, table=".".join(name)) from None
    except (DefinitionMismatch, UnsupportedEvent) as error:
        raise SnapshotUnsupported(error.detail, table=".".join(name)) from error
    return _of_mariadb(complete) if server.mariadb else complete


def _of_mariadb(table_map: TableMap) -> TableMap:
    """Return the table map as MariaDB writes it: without visibility, and with a collation for geometries."""
    columns = (
        replace(
            column,
            visible=None,
            collation=BINARY_COLLATION if column.type == FieldType.GEOMETRY else column.collation,
        )
        for column in table_map.columns
    )
    return replace(table_map, columns=tuple(columns))


def _mapped(column: Column, charsets: Charsets, server: Server, is_selected: bool) -> MappedColumn:
    definition = column_definition(column, charsets)
    kind, metadata = layout_of(definition, charsets, server=server, is_selected=is_selected)
    return MappedColumn(type=kind, metadata=metadata, nullable=column.nullable)


_JSON_WITH_POINTS = (8, 0, 15)
"""Since this version, JSON documents are printed with the decimal point of every DOUBLE; 5.7 omits it."""
_TYPE = re.compile(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?(?: unsigned)?(?: zerofill)?(?: /\*.*)?", re.I)


def layout_of(
    definition: ColumnDefinition, charsets: Charsets, *, server: Server, is_selected: bool = True
) -> Layout:
    """Return a column's type and metadata in the binlog; raise SnapshotUnsupported, without the table's name.

    This is the inverse of ``column_type`` for every type whose rows can be read. A format of earlier versions
    is replaced by the current format, which has the same values.
    Source: MySQL's sql/field.cc and MariaDB's, save_field_metadata.
    """
    text = definition.column_type
    kind = _kind_of(text)
    known = sql_type(kind.base)
    is_old = is_selected and kind.base == "json" and server.version < _JSON_WITH_POINTS
    if not is_old:
        found = known.layout(kind, server.mariadb)
        if found is not None and known.counts_characters:
            return found[0], found[1] * _width(definition, charsets)
        if found is not None:
            return found
    raise SnapshotUnsupported(f"column {definition.name!r} has the type {text}, {_why(kind.base)}")


def _kind_of(text: str) -> Kind:
    name = text.partition("(")[0].lower()
    if name in ("enum", "set"):
        return Kind(base=name, labels=tuple(labels_in(text)))
    parsed = _TYPE.fullmatch(text)
    if parsed is None:
        return Kind(base=name)
    numbers = tuple(int(one) for one in parsed.groups()[1:] if one is not None)
    return Kind(base=parsed[1].lower(), numbers=numbers)


def _why(name: str) -> str:
    if name == "year":
        return "of which a SELECT does not show the century"
    if name == "json":
        return "and a SELECT does not distinguish 1.0 from 1 in documents on servers before MySQL 8.0.15"
    return "whose values have no known form in the binlog"


def _width(definition: ColumnDefinition, charsets: Charsets) -> int:
    """Return the maximum size of a character of the column, in bytes."""
    if definition.charset is None:
        return 1
    if definition.collation is None:
        raise SnapshotUnsupported(
            f"column {definition.name!r} has the character set {definition.charset}, which the "
            "server does not list"
        )
    name = charsets.name(definition.collation)
    return 1 if name == BINARY else charsets.width(name)
