"""A table's current columns on a server, and the exact binlog position at which they are valid.

Invariant: the position is exact. While definitions and position are read, a lock of the kind that
every SELECT takes prevents changes of the table's definition; it is held for three short
statements, and needs SELECT only.
"""

from __future__ import annotations

from dataclasses import dataclass

import pymysql
from pymysql.cursors import Cursor

from connectors.errors import DefinitionMismatch, EndPositionUnknown
from connectors.mysql.position import Coordinates

_NO_SUCH_TABLE, _UNKNOWN_VARIABLE, _SYNTAX = 1146, 1193, 1064
_NO_SUCH_DATABASE = 1049


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDefinition:
    """One column as ``information_schema`` describes it."""

    name: str
    column_type: str
    """For example ``decimal(12,2) unsigned``."""
    nullable: bool
    collation: int | None = None
    """The number of its collation; None for a column that is not text."""
    charset: str | None = None
    key_position: int | None = None
    """From 1, if it is part of the primary key."""
    generated: bool = False
    visible: bool = True
    has_exact_labels: bool = False
    """Whether a question mark in a label is genuine, and not a replacement of another character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """A table's columns in order, as of position ``at``, the end of the server's binlog then."""

    database: str
    table: str
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

_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION lock_wait_timeout = 10",
    # Otherwise the key that the server creates for a table without one is in the binlog and not in
    # the list.
    "SET SESSION show_gipk_in_create_table_and_information_schema = ON",
)


def prepare(cursor: Cursor) -> None:
    """Set the session variables needed to read definitions."""
    for statement in _SESSION:
        execute(cursor, statement, unless=_UNKNOWN_VARIABLE)


def hold(cursor: Cursor, database: str, table: str) -> None:
    """Prevent changes of a table's definition until the end of the transaction."""
    name = ".".join(f"`{part.replace('`', '``')}`" for part in (database, table))
    cursor.execute(f"SELECT 1 FROM {name} LIMIT 0")  # noqa: S608 - quoted above


def read_definition(cursor: Cursor, database: str, table: str) -> TableDefinition:
    """Query a table's columns; raise DefinitionMismatch if the server has no such table.

    PyMySQL's own errors are left to the caller, as ``server.connected`` translates them.
    """
    prepare(cursor)
    cursor.execute("START TRANSACTION")
    try:
        try:
            hold(cursor, database, table)
        except pymysql.MySQLError as error:
            if error.args[0] not in (_NO_SUCH_TABLE, _NO_SUCH_DATABASE):
                raise
            what = "the server no longer has the table"
            raise DefinitionMismatch(what, table=f"{database}.{table}") from None
        at, _ = end_of_binlog(cursor)
        cursor.execute(_COLUMNS, (database, table))
        columns = tuple(_column(*row) for row in cursor.fetchall())
    finally:
        cursor.execute("ROLLBACK")
    return TableDefinition(database=database, table=table, columns=columns, at=at)


def execute(cursor: Cursor, statement: str, *, unless: int) -> bool:
    """Run a statement; return whether it succeeded, or False for that one error."""
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        if error.args[0] != unless:
            raise
        return False
    return True


def end_of_binlog(cursor: Cursor) -> tuple[Coordinates, str]:
    """The end of a server's binlog, and the GTIDs reported as in effect just before."""
    if not execute(cursor, "SHOW BINARY LOG STATUS", unless=_SYNTAX):
        cursor.execute("SHOW MASTER STATUS")
    row = cursor.fetchone()
    if row is None:
        raise EndPositionUnknown("SHOW MASTER STATUS gives nothing")
    return Coordinates(row[0], int(row[1])), row[4] if len(row) > 4 else ""


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
