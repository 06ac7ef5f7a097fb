"""The size of a table, as the server's statistics have it.

Invariant: it is an estimate, which nothing exact depends on; none is 0 or None.
"""

from __future__ import annotations

from typing import Any

from connectors.mysql.ddl.definition import Server, TableName
from connectors.mysql.select.chunk_query import quoted


def row_bytes(cursor: Any, name: TableName) -> int:
    """The bytes of a row; 0 if they are not known."""
    return _of_table(cursor, name, "avg_row_length") or 0


def data_bytes(cursor: Any, name: TableName) -> int | None:
    """The bytes of all rows; None if they are not known."""
    return _of_table(cursor, name, "data_length")


def estimated_rows(cursor: Any, name: TableName, where: str | None, server: Server) -> int:
    """The rows of a table, or of its rows by a condition in SQL, as the optimizer estimates them."""
    condition = f" WHERE ({where}\n)" if where is not None else ""
    form = "" if server.mariadb else "FORMAT=TRADITIONAL "
    query = f"SELECT 1 FROM {'.'.join(map(quoted, name))}{condition}"  # noqa: S608 - quoted names
    cursor.execute(f"EXPLAIN {form}{query}")
    names = [column[0] for column in cursor.description]
    # The share that a condition lets through is not estimated where no index has its columns.
    return int(dict(zip(names, cursor.fetchone(), strict=True))["rows"] or 0)


def _of_table(cursor: Any, name: TableName, column: str) -> int | None:
    cursor.execute(
        f"SELECT {column} FROM information_schema.tables"  # noqa: S608 - names of ours
        " WHERE table_schema = %s AND table_name = %s",
        name,
    )
    row = cursor.fetchone()
    return None if row is None or row[0] is None else int(row[0])
