"""The table map of a table's rows, derived from its definition.

Invariant: it is the one that the server would write with ``binlog_row_metadata=FULL``, except for
hidden columns, which no definition has.
"""

from __future__ import annotations

import re
from dataclasses import replace

from connectors.errors import DefinitionMismatch, SnapshotUnsupported, UnsupportedEvent
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charset.charsets import BINARY, Charsets
from connectors.mysql.ddl.definition import Column, Server, Table, TableName
from connectors.mysql.schema.definition_check import column_definition, completed_map
from connectors.mysql.schema.server_columns import ColumnDefinition
from connectors.mysql.schema.table_map_completion import BINARY_COLLATION, labels_in
from connectors.mysql.types.registry import FieldType, Kind, Layout, MappedColumn, sql_type


def described_table(
    name: TableName,
    table: Table,
    charsets: Charsets,
    *,
    server: Server,
    table_id: int = 0,
    is_selected: bool = True,
) -> TableMap:
    """The table map of a table; raise SnapshotUnsupported if it has a type without a known form.

    With ``is_selected`` also if a SELECT would not return a column's values exactly.
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
    """The table map without what MariaDB does not write, and with what it does of geometries."""
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
"""From this version on documents print the point of each DOUBLE; 5.7 does not."""
_TYPE = re.compile(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?(?: unsigned)?(?: zerofill)?(?: /\*.*)?", re.I)


def layout_of(
    definition: ColumnDefinition, charsets: Charsets, *, server: Server, is_selected: bool = True
) -> Layout:
    """The type and metadata of a column in the binlog; raise SnapshotUnsupported, without the table's name.

    It is the inverse of ``column_type`` for every type whose rows can be read. Formats of earlier versions are
    replaced by the current ones, which have the same values.
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
