"""The session that ran a statement, from its QUERY event: everything on which the statement's meaning depends.

Invariant: a missing setting is None, which means the server's own default; a missing SQL mode is
empty. A combination of modes such as ANSI is stored together with all modes that it implies, as the server
stores it. An unknown variable ends the list, because the variable's length is unknown. Source: MySQL's
statement_events.h, Query_event_status_vars, and MariaDB's log_event.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from connectors.mysql.buffer import read_bytes, uint
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Session

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


_FLAGS, SQL_MODE, CHARSET = 0, 1, 4
_CATALOG, _INVOKER, _UPDATED_DATABASES = 2, 11, 12
_EXPLICIT_TIMESTAMPS, _UTF8MB4_COLLATION = 16, 18
_FLAGS_OF_GTID, _CHARSET_COLLATIONS = 130, 131
_EXPLICIT_TIMESTAMPS_FLAG = 1 << 24
"""MariaDB's flag for explicit_defaults_for_timestamp, for which MariaDB has no separate variable."""
_ENDS_ALTER = 4 | 8
"""MariaDB's flags of the second half of a two-phase ALTER; the sequence number of its first half follows."""
_TOO_MANY_DATABASES = 254

_SIZES: dict[int, int | None] = {
    0: 4, 1: 8, 2: None, 3: 4, 4: 6, 5: None, 6: None, 7: 2, 8: 2, 9: 8, 10: 4, 11: None, 12: None,
    13: 3, 14: 8, 15: 8, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1, 128: 3, 129: 8, 130: None,
    131: None,
}  # fmt: skip
"""Bytes of each variable's value; None if the value contains its length."""


def status_variables(status: bytes) -> dict[int, bytes]:
    """Return the variables by number, up to the first unknown variable, whose length is unknown."""
    return dict(_variables(status))


def _variables(status: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(status) and status[at] in _SIZES:
        code = status[at]
        size = _SIZES[code]
        if size is None:
            size = _value_size(code, status, at + 1)
        value, end = read_bytes(status, at + 1, size)
        yield code, value
        at = end


def _value_size(code: int, status: bytes, at: int) -> int:
    """Bytes of a value that contains its own length."""
    if code == _INVOKER:
        user = 1 + status[at]
        return user + 1 + status[at + user]
    if code == _UPDATED_DATABASES:
        count, end = status[at], at + 1
        for _ in range(0 if count == _TOO_MANY_DATABASES else count):
            end = status.index(0, end) + 1
        return end - at
    if code == _FLAGS_OF_GTID:
        return 9 if status[at] & _ENDS_ALTER else 1
    if code == _CHARSET_COLLATIONS:
        return 1 + 4 * status[at]
    # A catalog under code 2, which servers before 5.0.4 write, ends in an additional zero byte.
    return 1 + status[at] + (1 if code == _CATALOG else 0)


def databases_of(status: bytes) -> frozenset[str] | None:
    """The databases, in lower case, of all tables that a statement used, also through triggers and views.

    None if the event does not contain all of them. Source: MySQL's THD::decide_logging_format,
    which lists them for a replica's parallel workers; it omits the list if a foreign key refers to
    one of the tables.
    """
    value = status_variables(status).get(_UPDATED_DATABASES)
    if not value or value[0] == _TOO_MANY_DATABASES:
        return None
    names = value[1:].split(b"\0")[: value[0]]
    if len(names) < value[0] or b"" in names:
        return None
    return frozenset(name.decode("utf-8", "replace").lower() for name in names) or None


def session_of(
    status: bytes,
    *,
    database: str | None,
    thread: int,
    charsets: Charsets,
    mariadb: bool = False,
) -> Session:
    """The session of a QUERY event, from its status variables."""
    variables = status_variables(status)
    collations = variables.get(CHARSET)
    utf8mb4 = variables.get(_UTF8MB4_COLLATION)
    own = variables.get(_CHARSET_COLLATIONS)
    return Session(
        database=database,
        sql_mode=of_number(uint(variables[SQL_MODE], 0, 8))
        if SQL_MODE in variables
        else frozenset(),
        server_collation=charsets.collation(uint(collations, 4, 2)) if collations else None,
        utf8mb4_collation=charsets.collation(uint(utf8mb4, 0, 2)) if utf8mb4 else None,
        charset_collations=None if own is None else tuple(_pairs(own, charsets)),
        explicit_timestamps=_explicit_timestamps(variables, mariadb=mariadb),
        thread=thread,
    )


def _explicit_timestamps(variables: dict[int, bytes], *, mariadb: bool) -> bool | None:
    if mariadb and _FLAGS in variables:
        return bool(uint(variables[_FLAGS], 0, 4) & _EXPLICIT_TIMESTAMPS_FLAG)
    value = variables.get(_EXPLICIT_TIMESTAMPS)
    return bool(value[0]) if value else None


def _pairs(value: bytes, charsets: Charsets) -> Iterator[tuple[str, str]]:
    """Yield MariaDB's character sets, which a collation identifies, and the default collation of each."""
    for at in range(1, len(value), 4):
        charset, collation = (charsets.collation(uint(value, at + n, 2)) for n in (0, 2))
        if charset is not None and collation is not None:
            yield charset.partition("_")[0], collation


def user_of(status: bytes) -> str | None:
    """``user@host`` of the account that ran a statement; servers write it for few statements."""
    value = status_variables(status).get(_INVOKER)
    if not value:
        return None
    user, at = read_bytes(value, 1, value[0])
    host, _ = read_bytes(value, at + 1, value[at])
    name = f"{user.decode('utf-8', 'replace')}@{host.decode('utf-8', 'replace')}"
    return name if name != "@" else None
