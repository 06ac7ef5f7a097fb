"""The names of SQL modes, from the number in a QUERY event or the text of a SET statement.

Invariant: a combination such as ANSI is stored together with all modes it implies, as the server
stores it.
"""

from __future__ import annotations

from collections.abc import Iterable

_BITS = (
    "REAL_AS_FLOAT", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE", "IGNORE_BAD_TABLE_OPTIONS",
    "ONLY_FULL_GROUP_BY", "NO_UNSIGNED_SUBTRACTION", "NO_DIR_IN_CREATE", "POSTGRESQL", "ORACLE", "MSSQL",
    "DB2", "MAXDB", "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS", "NO_FIELD_OPTIONS", "MYSQL323", "MYSQL40", "ANSI",
    "NO_AUTO_VALUE_ON_ZERO", "NO_BACKSLASH_ESCAPES", "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES",
    "NO_ZERO_IN_DATE", "NO_ZERO_DATE", "ALLOW_INVALID_DATES", "ERROR_FOR_DIVISION_BY_ZERO", "TRADITIONAL",
    "NO_AUTO_CREATE_USER", "HIGH_NOT_PRECEDENCE", "NO_ENGINE_SUBSTITUTION", "PAD_CHAR_TO_FULL_LENGTH",
)  # fmt: skip
"""Modes by bit, from the lowest; same for MySQL and MariaDB. Source: sql_mode in both servers' sys_vars.cc."""

_ABOVE = (
    "TIME_TRUNCATE_FRACTIONAL",  # MySQL's; the bit is MariaDB's EMPTY_STRING_IS_NULL
    "SIMULTANEOUS_ASSIGNMENT",
    "TIME_ROUND_FRACTIONAL",
    "EMPTY_STRING_IS_NULL",
)

_QUOTES = ("PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE")
_COMBINED = {
    "ANSI": ("REAL_AS_FLOAT", *_QUOTES, "ONLY_FULL_GROUP_BY"),
    "TRADITIONAL": (
        "STRICT_TRANS_TABLES",
        "STRICT_ALL_TABLES",
        "NO_ZERO_IN_DATE",
        "NO_ZERO_DATE",
        "ERROR_FOR_DIVISION_BY_ZERO",
        "NO_ENGINE_SUBSTITUTION",
    ),
    **dict.fromkeys(("POSTGRESQL", "ORACLE", "MSSQL", "DB2", "MAXDB"), _QUOTES),
}

DEFAULT = frozenset(
    {
        "ONLY_FULL_GROUP_BY",
        "STRICT_TRANS_TABLES",
        "NO_ZERO_IN_DATE",
        "NO_ZERO_DATE",
        "ERROR_FOR_DIVISION_BY_ZERO",
        "NO_ENGINE_SUBSTITUTION",
    }
)
"""MySQL's default since 8.0."""


class UnknownSqlMode(ValueError):
    """No server has a mode of this name."""


def of_number(number: int) -> frozenset[str]:
    """Return the modes of a QUERY event; only bits that affect parsing in some version have a name."""
    return _expanded(name for bit, name in enumerate(_BITS) if number >> bit & 1)


def of_text(text: str) -> frozenset[str]:
    """Parse a value of ``SET sql_mode``, comma-separated names in any case; raise UnknownSqlMode."""
    names = {name.strip().upper() for name in text.split(",")} - {""}
    if names == {"DEFAULT"}:
        return DEFAULT
    if unknown := sorted(names - {*_BITS, *_ABOVE}):
        raise UnknownSqlMode(f"unknown SQL mode {unknown[0][:40]}")
    return _expanded(names)


def _expanded(names: Iterable[str]) -> frozenset[str]:
    found = frozenset(names)
    return found.union(*(_COMBINED.get(name, ()) for name in found))
