"""The SELECT list for one version of one table, the form of its rows, and labels that the server prints with
``?``.

Invariant: the SELECT list returns all bits of a row, in the order and with the types of the table map.
``information_schema`` prints a question mark for each character of a label of ENUM or SET that has more than
three bytes; a row has the label itself. Such a label is read from a row, or listed as unknown. A row with an
unknown label must not be used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from connectors.errors import SnapshotUnsupported
from connectors.mysql.charsets import Charsets, text_decoder
from connectors.mysql.ddl.column_types import exactly
from connectors.mysql.ddl.definition import Column, Server, Table, TableName
from connectors.mysql.schema.table_map_completion import BEYOND_UTF8MB3, BINARY_COLLATION, labels_in
from connectors.mysql.select.chunk_query import literal
from connectors.mysql.select.described_table import described_table, table_map_body
from connectors.mysql.select.packets import PacketValues, Values, difference
from connectors.mysql.types.registry import FieldType, MappedColumn
from connectors.mysql.types.strings import ADDRESSES

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


class SelectedTable:
    """A table as it is selected; raises SnapshotUnsupported if its rows cannot be read exactly."""

    def __init__(
        self,
        name: TableName,
        table: Table,
        charsets: Charsets,
        *,
        server: Server,
        unknown: Unknown | None = None,
    ) -> None:
        """``table``: the definition at the SELECT. ``unknown``: the labels that no row may have."""
        self._name, self._charsets = ".".join(name), charsets
        mapped = described_table(name, table, charsets, server=server)
        self.columns: Sequence[MappedColumn] = mapped.columns
        self.table_map = table_map_body(mapped, mariadb=server.mariadb)
        """The body of the TABLE_MAP event of its rows."""
        self.select_list = select_list(mapped.columns, mariadb=server.mariadb)
        """The expressions of the columns, for SELECT."""
        self.values = PacketValues(mapped.columns)
        """The reader of the values in the table's packets."""
        self._indexes = {column.name: at for at, column in enumerate(mapped.columns)}
        self._unknown = [
            (at, is_set(column), unknown[column.name])
            for at, column in enumerate(table.columns)
            if unknown and column.name in unknown
        ]

    def difference(self, types: list[int]) -> str | None:
        """How the types of a result's columns differ from the table's; None if they do not."""
        return difference(self.columns, types)

    def unknown_label(self, packets: bytes) -> str | None:
        """Return the column in which a row of these packets has an unknown label; None without such a row."""
        if not self._unknown:
            return None
        for row in self.values.rows(packets):
            for at, has_members, numbers in self._unknown:
                value = int.from_bytes(row[at] or b"", "little")
                if any(value >> one & 1 if has_members else value == one + 1 for one in numbers):
                    return self.columns[at].name
        return None

    def key_literals(self, row: Values, key: Sequence[str]) -> tuple[str, ...]:
        """Return the key of a row as literals for a later SELECT; ``key``: the names of the key's columns."""
        indexes = [self._indexes[name] for name in key]
        try:
            return tuple(literal(self.columns[at], row[at], self._charsets) for at in indexes)
        except SnapshotUnsupported as error:
            raise SnapshotUnsupported(error.detail, table=self._name) from None


_T = FieldType

SESSION = (
    # Without PAD_CHAR_TO_FULL_LENGTH, as rows in the binlog have no padding either.
    "SET SESSION sql_mode = ''",
    "SET SESSION time_zone = '+00:00'",
    # Text is not converted, because characters that the other character set lacks would be replaced.
    "SET SESSION character_set_results = NULL",
    # The SELECT of a locked table is repeated; by default, a SELECT waits for a year.
    "SET SESSION lock_wait_timeout = 5",
)
"""Statements before the first SELECT."""


def select_list(columns: Sequence[MappedColumn], *, mariadb: bool = False) -> str:
    """The expressions of a table's columns, in their order.

    Invariant: each expression returns, in the binary protocol, all of a value's bits: text in the column's
    own character set, labels as numbers.
    """
    return ", ".join(_expression(column, mariadb) for column in columns)


def _expression(column: MappedColumn, mariadb: bool) -> str:
    name = "`" + (column.name or "").replace("`", "``") + "`"
    if column.type in (_T.ENUM, _T.SET):
        # Not `+ 0`, which returns a SET of 64 members as a negative double.
        # On MariaDB, the cast alone has four or eight bytes, depending on the labels.
        return f"CAST({name} AS UNSIGNED){' | 0' if mariadb else ''}"
    if mariadb and _may_be_address(column):
        return f"CAST({name} AS BINARY({column.metadata}))"
    return name


def _may_be_address(column: MappedColumn) -> bool:
    """Whether a column is an INET4, INET6 or UUID, which print as text, or a BINARY of the same size.

    A definition that was derived from rows does not distinguish these types.
    """
    is_binary = column.type == _T.STRING and column.collation == BINARY_COLLATION
    return is_binary and column.metadata in ADDRESSES.values()
