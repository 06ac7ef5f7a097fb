"""A table's definition derived from a table map with complete metadata.

Invariant: what a table map does not contain is omitted, not guessed: defaults, generated columns,
secondary keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.ddl.definition import Column, Database, Index, Table
from connectors.mysql.types.registry import MappedColumn, column_charset, column_type


def adopted(
    table_map: TableMap,
    charsets: Charsets,
    *,
    database: Database,
    nullable: Mapping[str, bool] | None = None,
) -> Table:
    """The table; ``database`` has the character set of columns that are later added without one.

    ``nullable``, by column, is used if the table map does not show which columns are NOT NULL.
    """
    known = dict(nullable or {}) if table_map.hides_not_null else {}
    if table_map.hides_not_null:
        known |= {table_map.columns[n].name or "": False for n in table_map.primary_key or ()}
    columns = tuple(
        _column(column, charsets, nullable=known.get(column.name or "", column.nullable))
        for column in table_map.columns
    )
    key = tuple(columns[index].name for index in table_map.primary_key or ())
    return Table(
        columns=columns,
        indexes=(Index(name="PRIMARY", columns=key, unique=True),) if key else (),
        charset=database.charset,
        collation=database.collation,
    )


def _column(column: MappedColumn, charsets: Charsets, *, nullable: bool) -> Column:
    charset = column_charset(column, charsets)
    number = column.collation
    return Column(
        name=column.name or "",
        type=column_type(column, charsets),
        nullable=nullable,
        charset=charset,
        collation=charsets.collation(number) if charset and number is not None else None,
        invisible=column.visible is False,
        by_rows=True,
    )
