"""Names and literals in MySQL's SQL.

Invariant: no name or value of a source ends its quotes.
"""

from __future__ import annotations

from collections.abc import Sequence


def identifier(name: str) -> str:
    """Return a name in quotes."""
    return "`" + name.replace("`", "``") + "`"


def whole_name(table: tuple[str, str]) -> str:
    """Return a table's name with its database, in quotes."""
    return ".".join(map(identifier, table))


def literals(values: Sequence[str]) -> str:
    """Return text values as a list for IN."""
    return ", ".join("'" + one.replace("\\", "\\\\").replace("'", "''") + "'" for one in values)
