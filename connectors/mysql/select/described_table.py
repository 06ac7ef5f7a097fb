"""The table map of a table's rows, derived from its definition.

Invariant: it is the one that the server would write with ``binlog_row_metadata=FULL``, except for
hidden columns, which no definition has.
"""

from __future__ import annotations

from dataclasses import replace

from connectors.errors import DefinitionMismatch, SnapshotUnsupported, UnsupportedEvent
from connectors.mysql.binlog.table_map import FieldType, MappedColumn, TableMap
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.ddl.definition import Column, Server, Table, TableName
from connectors.mysql.schema.definition_check import column_definition, completed_map
from connectors.mysql.schema.table_map_completion import BINARY_COLLATION
from connectors.mysql.select.column_layout import layout_of


def described_table(
    name: TableName, table: Table, charsets: Charsets, *, server: Server, table_id: int = 0
) -> TableMap:
    """The table map of a table; raises SnapshotUnsupported if a column's rows cannot be read exactly."""
    database, own = name
    try:
        columns = tuple(_mapped(one, charsets, server) for one in table.columns)
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


def _mapped(column: Column, charsets: Charsets, server: Server) -> MappedColumn:
    kind, metadata = layout_of(column_definition(column, charsets), charsets, server=server)
    return MappedColumn(type=kind, metadata=metadata, nullable=column.nullable)
