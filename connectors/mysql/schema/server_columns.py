"""A column as a server describes it, and the exact binlog position at which definitions are valid.

Invariant: the position is exact. While definitions and position are read, a lock of the kind that
every SELECT takes prevents changes of the table's definition. The lock is held for a few short
statements and needs only the SELECT privilege.
"""

from __future__ import annotations

from dataclasses import dataclass

import pymysql
from pymysql.cursors import Cursor

from connectors.errors import EndPositionUnknown
from connectors.mysql.position import Coordinates

_UNKNOWN_VARIABLE, _SYNTAX = 1193, 1064


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
    """Its position in the primary key, from 1; None if it is not in the key."""
    generated: bool = False
    visible: bool = True
    has_exact_labels: bool = False
    """Whether a question mark in a label is genuine, and not a replacement of another character."""


_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION lock_wait_timeout = 10",
    # By default, a primary key that the server itself creates may be in the binlog and not be listed.
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


def execute(cursor: Cursor, statement: str, *, unless: int) -> bool:
    """Run a statement; return whether it succeeded: False for the error ``unless``; raise any other error."""
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        if error.args[0] != unless:
            raise
        return False
    return True


def end_of_binlog(cursor: Cursor) -> tuple[Coordinates, str]:
    """Return the end of a server's binlog, and the GTIDs executed by then; raise EndPositionUnknown."""
    if not execute(cursor, "SHOW BINARY LOG STATUS", unless=_SYNTAX):
        cursor.execute("SHOW MASTER STATUS")
    row = cursor.fetchone()
    if row is None:
        raise EndPositionUnknown("SHOW MASTER STATUS gives nothing")
    return Coordinates(row[0], int(row[1])), row[4] if len(row) > 4 else ""
