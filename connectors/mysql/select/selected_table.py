"""The SELECT list for one version of one table, and the form of its rows.

Invariant: the SELECT list returns all bits of a row, in the order and with the types of the table map.
"""

from __future__ import annotations

from collections.abc import Sequence

from connectors.errors import SnapshotUnsupported
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Server, Table, TableName
from connectors.mysql.schema.table_map_completion import BINARY_COLLATION
from connectors.mysql.select.chunk_query import literal
from connectors.mysql.select.described_table import described_table, table_map_body
from connectors.mysql.select.packets import PacketValues, Values, difference
from connectors.mysql.select.read_labels import Unknown, is_set
from connectors.mysql.types.registry import FieldType, MappedColumn
from connectors.mysql.types.strings import ADDRESSES


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
