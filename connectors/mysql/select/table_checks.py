"""Checks of tables before their rows are read: that an operator's condition works, and which are empty.

Invariant: a condition that passes cannot widen or end the WHERE clause into which it is inserted, because it
is also a single expression by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pymysql

from connectors.errors import UsageError
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.select.chunk_query import chunk_query
from connectors.mysql.select.selected_table import SESSION
from connectors.mysql.select.table_errors import error_of_read
from connectors.mysql.server.facts import SourceAddress, connected


def check_readable(address: SourceAddress, names: Iterable[TableName], where: str | None) -> None:
    """Check, with SELECTs that return no row, that each table can be read with the condition.

    Raise UsageError if the server cannot evaluate the condition; TableUnreadable, SourceRefused or SourceLost
    if a table cannot be read.
    """
    with connected(address) as cursor:
        # The later reading has the same session: another sql_mode may refuse a zero date in the condition.
        for statement in SESSION:
            cursor.execute(statement)
        for name in names:
            try:
                cursor.execute(_none_of(name))
            except pymysql.MySQLError as error:
                raise error_of_read(error, name, address) from error
            if where is None:
                continue
            try:
                check_condition(cursor, name, where)
            except pymysql.MySQLError as error:
                text = error.args[1] if error.args[1:] else str(error)
                raise UsageError(
                    f"the condition cannot be evaluated for {'.'.join(name)}: {text}"
                ) from error


def check_condition(cursor: Any, name: TableName, where: str) -> None:
    """Check a condition with SELECTs of no row; raise PyMySQL's error if the server cannot evaluate it."""
    # Without parentheses around the condition, its own parentheses have to be balanced.
    cursor.execute(_none_of(name).replace(" LIMIT 0", f" WHERE {where}\n LIMIT 0"))
    cursor.execute(_none_of(name, where))


def _none_of(name: TableName, where: str | None = None) -> str:
    return chunk_query(name, "1", key=(), after=None, limit=0, where=where)


def empty_tables(address: SourceAddress, names: Iterable[TableName]) -> set[TableName]:
    """Return the empty tables among ``names``; raise TableUnreadable, or an error of the source."""
    found = set()
    with connected(address) as cursor:
        for name in names:
            try:
                cursor.execute(chunk_query(name, "1", key=(), after=None, limit=1))
            except pymysql.MySQLError as error:
                raise error_of_read(error, name, address) from error
            if not cursor.fetchall():
                found.add(name)
    return found
