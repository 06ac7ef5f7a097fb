"""A table's definition out of a table map that tells all of it.

The law: what a table map does not tell is left out, not guessed: defaults, generated columns, secondary keys.
"""

from __future__ import annotations

from connectors.mysql.charsets import Charsets
from connectors.mysql.column_type import column_charset, column_type
from connectors.mysql.ddl.definition import Column, Database, Index, Table
from connectors.mysql.table_map import MappedColumn, TableMap


def adopted(table_map: TableMap, charsets: Charsets, *, database: Database) -> Table:
    """The table; ``database`` tells what columns would get that are added without a character set."""
    columns = tuple(_column(column, charsets) for column in table_map.columns)
    key = tuple(columns[index].name for index in table_map.primary_key or ())
    return Table(
        columns=columns,
        indexes=(Index(name="PRIMARY", columns=key, unique=True),) if key else (),
        charset=database.charset,
        collation=database.collation,
    )


def _column(column: MappedColumn, charsets: Charsets) -> Column:
    charset = column_charset(column, charsets)
    number = column.collation
    return Column(
        name=column.name or "",
        type=column_type(column, charsets),
        nullable=column.nullable,
        charset=charset,
        collation=charsets.collation(number) if charset and number is not None else None,
        invisible=column.visible is False,
    )
