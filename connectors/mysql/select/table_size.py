"""The size of a table, according to the server's statistics.

Invariant: a size is an estimate, on which nothing exact depends; an unknown size is 0 or None.
"""

from __future__ import annotations

from typing import Any

from connectors.mysql.ddl.definition import Server, TableName
from connectors.mysql.select.chunk_query import quoted


def row_bytes(cursor: Any, name: TableName) -> int:
    """Return the average bytes of a row; 0 if unknown."""
    return _of_table(cursor, name, "avg_row_length") or 0


def data_bytes(cursor: Any, name: TableName) -> int | None:
    """Return the bytes of all rows; None if unknown."""
    return _of_table(cursor, name, "data_length")


def estimated_rows(cursor: Any, name: TableName, where: str | None, server: Server) -> int:
    """Return the optimizer's estimate of the number of a table's rows, or of its rows by an SQL condition."""
    condition = f" WHERE ({where}\n)" if where is not None else ""
    form = "" if server.mariadb else "FORMAT=TRADITIONAL "
    query = f"SELECT 1 FROM {'.'.join(map(quoted, name))}{condition}"  # noqa: S608 - quoted names
    cursor.execute(f"EXPLAIN {form}{query}")
    names = [column[0] for column in cursor.description]
    # Without an index on the condition's columns, the server does not estimate how many rows satisfy it.
    return int(dict(zip(names, cursor.fetchone(), strict=True))["rows"] or 0)


def _of_table(cursor: Any, name: TableName, column: str) -> int | None:
    cursor.execute(
        f"SELECT {column} FROM information_schema.tables"  # noqa: S608 - names of ours
        " WHERE table_schema = %s AND table_name = %s",
        name,
    )
    row = cursor.fetchone()
    return None if row is None or row[0] is None else int(row[0])
