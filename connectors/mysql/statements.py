"""What a statement in the binlog is, from its first words: a border, DDL, harmless, or a change we cannot see.

The law: a statement is of a known kind or it is UNKNOWN, which stops the destination; none is passed by because
nobody thought of it.
"""

from __future__ import annotations

import re
from enum import Enum


class Kind(Enum):
    """What a statement means for the rows around it."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    DDL = "ddl"
    TRUNCATE = "truncate"
    HARMLESS = "harmless"
    CHANGE = "change"
    """A change of rows, written as a statement."""
    XA = "xa"
    UNKNOWN = "unknown"


_LEADING = re.compile(
    r"\s+|/\*(?!!|M!).*?\*/|/\*M?!\d*|--\s[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|\*/", re.DOTALL
)
_WORD = re.compile(r"[A-Za-z_]+")

_HARMLESS_WORDS = (
    "GRANT", "REVOKE", "SET", "FLUSH", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "INSTALL", "UNINSTALL",
    "IMPORT", "KILL", "PURGE", "RESET", "CHANGE", "START", "STOP", "LOCK", "UNLOCK", "SHOW", "USE",
)  # fmt: skip
_CHANGE_WORDS = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "WITH", "DO", "SELECT")
_FIRST_WORDS = {
    "BEGIN": Kind.BEGIN,
    "COMMIT": Kind.COMMIT,
    "ROLLBACK": Kind.ROLLBACK,
    "SAVEPOINT": Kind.SAVEPOINT,
    "RELEASE": Kind.SAVEPOINT,
    "XA": Kind.XA,
    "CREATE": Kind.DDL,
    "ALTER": Kind.DDL,
    "DROP": Kind.DDL,
    "RENAME": Kind.DDL,
    "TRUNCATE": Kind.TRUNCATE,
    **dict.fromkeys(_HARMLESS_WORDS, Kind.HARMLESS),
    **dict.fromkeys(_CHANGE_WORDS, Kind.CHANGE),
}

_ACCOUNTS = {
    "USER",
    "ROLE",
    "SERVER",
    "RESOURCE",
    "LOGFILE",
    "TABLESPACE",
    "UNDO",
    "INSTANCE",
    "SPATIAL_REF",
}


def words(sql: str, count: int) -> list[str]:
    """The first words in upper case, past comments; the content of an executable comment counts."""
    found: list[str] = []
    at = 0
    while len(found) < count:
        while skipped := _LEADING.match(sql, at):
            at = skipped.end()
        word = _WORD.match(sql, at)
        if word is None:
            break
        found.append(word[0].upper())
        at = word.end()
    return found


def kind_of(sql: str) -> Kind:
    """The kind of one statement."""
    first, *rest = words(sql, 2) or [""]
    kind = _FIRST_WORDS.get(first, Kind.UNKNOWN)
    if kind is Kind.ROLLBACK and rest == ["TO"]:
        return Kind.SAVEPOINT
    if kind is Kind.DDL and rest and rest[0] in _ACCOUNTS:
        # Accounts and storage have no rows; their statements may hold secrets and are not published.
        return Kind.HARMLESS
    return kind


def type_of(sql: str) -> str:
    """The statement's first keyword, as the DDL topic shows it."""
    return (words(sql, 1) or [""])[0]


_NAME = r"(?:`((?:[^`]|``)+)`|([0-9A-Za-z_$\u0080-\uffff]+))"
_TRUNCATE = re.compile(rf"TRUNCATE\s+(?:TABLE\s+)?{_NAME}\s*(?:\.\s*{_NAME})?", re.IGNORECASE)


def truncated_table(sql: str, default_database: str | None) -> tuple[str, str] | None:
    """The database and table of a TRUNCATE statement; None where it is not understood."""
    at = 0
    while skipped := _LEADING.match(sql, at):
        at = skipped.end()
    match = _TRUNCATE.match(sql, at)
    if match is None:
        return None
    quoted, plain, quoted_table, plain_table = match.groups()
    first = (quoted or plain).replace("``", "`")
    second = (quoted_table or plain_table or "").replace("``", "`")
    if second:
        return first, second
    return (default_database, first) if default_database else None
