"""An operator's condition on the rows to read, tried at the server.

Invariant: a condition that passes cannot widen or end the WHERE clause that it is put into: it is one
expression by itself, too.
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
    """Select no row of each table by the condition.

    Raise UsageError if the server cannot evaluate it, TableUnreadable, SourceRefused or SourceLost if a table
    cannot be read.
    """
    with connected(address) as cursor:
        # As it is evaluated later: another mode may refuse a zero date in it.
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
    """Select no row of a table by a condition; raise PyMySQL's error if the server cannot evaluate it."""
    # Without parentheses around it, those within it have to be balanced.
    cursor.execute(_none_of(name).replace(" LIMIT 0", f" WHERE {where}\n LIMIT 0"))
    cursor.execute(_none_of(name, where))


def _none_of(name: TableName, where: str | None = None) -> str:
    return chunk_query(name, "1", key=(), after=None, limit=0, where=where)
