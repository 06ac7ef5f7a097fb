"""The SELECT list of a table, and the session in which it returns exact values.

Invariant: each expression returns, in the binary protocol, all of a value's bits: text in the column's own
character set, labels as numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from connectors.mysql.schema.table_map_completion import BINARY_COLLATION
from connectors.mysql.types.registry import FieldType, MappedColumn

_T = FieldType

SESSION = (
    # Without PAD_CHAR_TO_FULL_LENGTH, as rows in the binlog have no padding either.
    "SET SESSION sql_mode = ''",
    "SET SESSION time_zone = '+00:00'",
    # Text is not converted: characters that another set lacks would be replaced.
    "SET SESSION character_set_results = NULL",
    # A table that is locked is tried again; without this a SELECT waits for a year.
    "SET SESSION lock_wait_timeout = 5",
)
"""Statements before the first SELECT."""

_ADDRESS_SIZES = (4, 16)


def select_list(columns: Sequence[MappedColumn], *, mariadb: bool = False) -> str:
    """The expressions of a table's columns, in their order."""
    return ", ".join(_expression(column, mariadb) for column in columns)


def _expression(column: MappedColumn, mariadb: bool) -> str:
    name = "`" + (column.name or "").replace("`", "``") + "`"
    if column.type in (_T.ENUM, _T.SET):
        # Not `+ 0`, which returns a SET of 64 members as a negative double.
        # MariaDB casts to a type of four bytes or of eight, by the labels.
        return f"CAST({name} AS UNSIGNED){' | 0' if mariadb else ''}"
    if mariadb and _may_be_address(column):
        return f"CAST({name} AS BINARY({column.metadata}))"
    return name


def _may_be_address(column: MappedColumn) -> bool:
    """Whether it is an INET4, INET6 or UUID, which print as text, or a BINARY of the same size.

    A definition that is known from rows does not distinguish them.
    """
    is_binary = column.type == _T.STRING and column.collation == BINARY_COLLATION
    return is_binary and column.metadata in _ADDRESS_SIZES
