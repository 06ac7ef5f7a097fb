"""Names and literals in MySQL's SQL.

Invariant: no name or value of a source ends its quotes.
"""

from __future__ import annotations

from collections.abc import Sequence


def identifier(name: str) -> str:
    """A name."""
    return "`" + name.replace("`", "``") + "`"


def whole_name(table: tuple[str, str]) -> str:
    """A table's name, with its database."""
    return ".".join(map(identifier, table))


def literals(values: Sequence[str]) -> str:
    """Text values as a list for IN."""
    return ", ".join("'" + one.replace("\\", "\\\\").replace("'", "''") + "'" for one in values)
