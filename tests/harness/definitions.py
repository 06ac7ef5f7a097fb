"""A table's columns as a server describes them, and the exact binlog position at which they are valid.

Definition and position are read under the lock that the worker's baseline takes.
"""

from __future__ import annotations

from typing import NamedTuple

from pymysql.cursors import Cursor

from connectors.mysql.position import Coordinates
from connectors.mysql.schema.server_columns import (
    ColumnDefinition,
    end_of_binlog,
    hold,
    prepare,
)


class TableDefinition(NamedTuple):
    """A table's columns in order, as of position ``at``, the end of the server's binlog then."""

    columns: tuple[ColumnDefinition, ...]
    at: Coordinates


_COLUMNS = """\
SELECT c.column_name, c.column_type, c.is_nullable = 'YES', k.id, c.character_set_name, s.seq_in_index, c.extra
  FROM information_schema.columns c
  LEFT JOIN information_schema.collations k ON k.collation_name = c.collation_name
  LEFT JOIN information_schema.statistics s
    ON s.table_schema = c.table_schema AND s.table_name = c.table_name AND s.column_name = c.column_name
   AND s.index_name = 'PRIMARY'
 WHERE c.table_schema = %s AND c.table_name = %s
 ORDER BY c.ordinal_position"""


def read_definition(cursor: Cursor, database: str, table: str) -> TableDefinition:
    """Query a table's columns."""
    prepare(cursor)
    cursor.execute("START TRANSACTION")
    try:
        hold(cursor, database, table)
        at, _ = end_of_binlog(cursor)
        cursor.execute(_COLUMNS, (database, table))
        columns = tuple(_column(*row) for row in cursor.fetchall())
    finally:
        cursor.execute("ROLLBACK")
    return TableDefinition(columns, at)


def _column(
    name: str,
    column_type: str | bytes,
    nullable: int,
    collation: int | None,
    charset: str | None,
    key_position: int | None,
    extra: str,
) -> ColumnDefinition:
    text = column_type if isinstance(column_type, str) else column_type.decode()
    words = extra.upper()
    return ColumnDefinition(
        name=name,
        column_type=text,
        nullable=bool(nullable),
        collation=None if collation is None else int(collation),
        charset=charset,
        key_position=None if key_position is None else int(key_position),
        # DEFAULT_GENERATED means that a default is an expression.
        generated="VIRTUAL" in words or "STORED" in words or "PERSISTENT" in words,
        visible="INVISIBLE" not in words,
    )
