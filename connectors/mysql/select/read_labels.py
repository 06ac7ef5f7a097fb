"""Labels of ENUM and SET that the server prints with a question mark, read from rows that have them.

``information_schema`` prints a question mark for each character of more than three bytes; a row has the label
itself.

Invariant: such a label is read from a row, or listed as unknown. A row with an unknown label must not be used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from connectors.mysql.charsets import text_decoder
from connectors.mysql.ddl.column_types import exactly
from connectors.mysql.ddl.definition import Column, Table, TableName
from connectors.mysql.schema.table_map_completion import BEYOND_UTF8MB3, labels_in

Unknown = Mapping[str, frozenset[int]]
"""By column: the numbers of labels, from 0, that no row has."""


def is_set(column: Column) -> bool:
    """Whether a column with labels is a SET, rather than an ENUM."""
    return column.type.lower().startswith("set")


def unprinted(column: Column) -> frozenset[int]:
    """Return the numbers, from 0, of a column's labels whose exact text the definition lacks."""
    if column.exact_type or column.charset not in BEYOND_UTF8MB3:
        return frozenset()
    if column.type.partition("(")[0].lower() not in ("enum", "set"):
        return frozenset()
    return frozenset(at for at, label in enumerate(labels_in(column.type)) if "?" in label)


def as_printed(table: Table) -> Table:
    """Return a table whose labels count as exact, for a reader that uses only their numbers."""
    columns = (
        replace(one, exact_type=one.type) if unprinted(one) else one for one in table.columns
    )
    return replace(table, columns=tuple(columns))


def read_labels(cursor: Any, name: TableName, table: Table) -> tuple[Table, Unknown]:
    """Return a table with labels that were read from its rows, and the labels that no row has.

    ``cursor``: in a session that does not convert text. Raise PyMySQL's errors.
    """
    columns, unknown = list[Column](), dict[str, frozenset[int]]()
    for column in table.columns:
        numbers = unprinted(column)
        if numbers:
            found = _of_rows(cursor, name, column, numbers)
            labels = [found.get(at, label) for at, label in enumerate(labels_in(column.type))]
            if missing := numbers - found.keys():
                unknown[column.name] = missing
            kind = column.type.partition("(")[0].lower()
            exact = exactly(kind, labels, column.charset or "")
            column = replace(column, exact_type=exact or column.type)
        columns.append(column)
    return replace(table, columns=tuple(columns)), unknown


def _of_rows(
    cursor: Any, name: TableName, column: Column, numbers: Collection[int]
) -> dict[int, str]:
    """Return the labels with these numbers, as far as rows have them."""
    decode = text_decoder(column.charset or "") or bytes.decode
    own = _quoted(column.name)
    number = f"CAST({own} AS UNSIGNED)"
    table = ".".join(map(_quoted, name))
    select = f"SELECT DISTINCT {number}, {own} FROM {table} WHERE {number}"  # noqa: S608 - quoted above
    found: dict[int, str] = {}
    if not is_set(column):
        listed = ", ".join(str(at + 1) for at in sorted(numbers))
        cursor.execute(f"{select} IN ({listed}) LIMIT {len(numbers)}")
        found.update((int(value) - 1, decode(text)) for value, text in cursor.fetchall())
        return found
    for at in sorted(numbers):
        cursor.execute(f"{select} & {1 << at} LIMIT 1")
        for value, text in cursor.fetchall():
            members = [one for one in range(64) if int(value) >> one & 1]
            found.update(zip(members, decode(text).split(","), strict=True))
    return {at: label for at, label in found.items() if at in numbers}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
