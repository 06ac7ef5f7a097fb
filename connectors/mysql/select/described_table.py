"""The table map of a table's rows, derived from its definition.

Invariant: the table map is the same that the server would write with ``binlog_row_metadata=FULL``,
except for hidden columns, which are not in a definition.
"""

from __future__ import annotations

import re
from dataclasses import replace

from connectors.errors import DefinitionMismatch, SnapshotUnsupported, UnsupportedEvent
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import BINARY, Charsets
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
