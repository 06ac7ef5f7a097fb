"""The SELECT of the next rows of a table in the order of its key, and the size of what it reads.

Invariant: the server itself compares and orders keys, by the collations of their columns. A key is sent back
as exactly the bytes that the server returned. So each row is in exactly one chunk, whatever its key. A size
is the server's estimate, on which nothing exact depends; an unknown size is 0 or None.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from connectors.errors import SnapshotUnsupported
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Server, Table, TableName
from connectors.mysql.schema.table_map_completion import BINARY_COLLATION
from connectors.mysql.types.registry import MappedColumn, binlog_type


def quoted(name: str) -> str:
    """Return a name as a quoted identifier."""
    return "`" + name.replace("`", "``") + "`"


def literal(column: MappedColumn, value: bytes | None, charsets: Charsets) -> str:
    """Return an SQL expression that equals a key's value in a packet.

    Raise SnapshotUnsupported for a value that is not in the form of its type.
    """
    if value is None:
        raise SnapshotUnsupported(f"column {column.name!r} of the key has no value")
    known = binlog_type(column.type)
    assert known is not None, "its rows have been read"
    try:
        text = known.packet_text(column)(value)
        if known.literal is not None:
            return known.literal(text)
    except (ValueError, struct.error):
        raise SnapshotUnsupported(
            f"a value of column {column.name!r} is not in the form of its type"
        ) from None
    collation = column.collation or BINARY_COLLATION
    if collation == BINARY_COLLATION:
        return f"X'{text.hex()}'"
    return f"_{charsets.name(collation)} X'{text.hex()}'"


def key_order(table: Table) -> str:
    """Return what determines the order of a table's key: its columns, their types and collations."""
    columns = {column.name: column for column in table.columns}
    found = [columns[name] for name in table.primary_key]
    return ", ".join(f"{one.name} {one.type} {one.collation or ''}".rstrip() for one in found)


def chunk_query(
    name: TableName,
    select_list: str,
    *,
    key: Sequence[str],
    after: Sequence[str] | None,
    limit: int | None,
    until: Sequence[str] | None = None,
    where: str | None = None,
) -> str:
    """Return the SELECT of up to ``limit`` rows after a key, in the order of the key.

    ``key``: the names of the key's columns; without a key, the rows have no order. ``after``: literals of
    the key that was read last; None for the first rows. ``limit``: None for all rows. ``until``: literals
    of the last key to read; None for the table's end. ``where``: an operator's condition.
    """
    database, table = map(quoted, name)
    text = f"SELECT {select_list} FROM {database}.{table}"  # noqa: S608 - quoted names
    # The line break ends a comment at the end of the operator's condition.
    conditions = [f"({where}\n)"] if where is not None else []
    if after is not None:
        conditions.append(f"({_beyond(list(map(quoted, key)), after, side='>', last='>')})")
    if until is not None:
        conditions.append(f"({_beyond(list(map(quoted, key)), until, side='<', last='<=')})")
    if conditions:
        text += f" WHERE {' AND '.join(conditions)}"
    if key:
        text += f" ORDER BY {', '.join(map(quoted, key))}"
    return text if limit is None else f"{text} LIMIT {limit}"


def last_row_query(name: TableName, select_list: str, *, key: Sequence[str]) -> str:
    """Return the SELECT of the last row in the order of the key; an empty table has no such row."""
    order = ", ".join(f"{quoted(one)} DESC" for one in key)
    database, table = map(quoted, name)
    return f"SELECT {select_list} FROM {database}.{table} ORDER BY {order} LIMIT 1"  # noqa: S608


def _beyond(columns: Sequence[str], key: Sequence[str], *, side: str, last: str) -> str:
    """Return the condition that a row's key is on one side of a key.

    ``last`` compares the last column, ``side`` the columns before it. MySQL derives no index range from a
    row comparison, so the comparison is written out, with the first column's range as a separate condition.
    """
    first, value = columns[0], key[0]
    if len(columns) == 1:
        return f"{first} {last} {value}"
    rest = _beyond(columns[1:], key[1:], side=side, last=last)
    return f"{first} {side}= {value} AND ({first} {side} {value} OR ({first} = {value} AND {rest}))"


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
