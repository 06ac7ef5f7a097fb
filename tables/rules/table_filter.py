"""The filter for captured tables.

Invariant: a table is captured if an include expression matches all of ``database.table`` and no
black one does, without regard to case, as in Canal; a server's own databases only if an expression
spells out their name. A filtered event still moves the cursor.
"""

from __future__ import annotations

import re

from connectors.mysql.server.database_filters import SYSTEM

_DOUBLED = re.compile(r"\\\\(?=[^\]\\])")
"""Two backslashes, which mean one in a properties file such as Canal's."""
_ANY_TABLE = frozenset({".*", ".+"})
_NAMED = re.compile(r"\^?([\w-]+)\\?\.(?:([\w-]+)|\(([\w|-]+)\))\$?")
"""An expression of one table, or of several that are listed."""
_SPECIAL = frozenset(".^$*+?{}[]|()")


class TableFilter:
    """Canal's two lists of expressions with commas; raise ValueError for an invalid expression."""

    def __init__(self, include: str, black: str) -> None:
        self._include = expressions(include)
        self._black = expressions(black)

    def captures(self, database: str, table: str) -> bool:
        """Whether rows of this table are published."""
        name = f"{database}.{table}"
        return any(one.fullmatch(name) for one in self._included(database)) and not any(
            one.fullmatch(name) for one in self._black
        )

    def may_capture_of(self, database: str) -> bool:
        """Whether a table of this database may be captured, whatever its name is."""
        return any(
            _may_match(one.pattern, database) for one in self._included(database)
        ) and not any(_matches_all_of(one.pattern, database) for one in self._black)

    def _included(self, database: str) -> list[re.Pattern[str]]:
        """The include expressions that apply to a database."""
        own = database.lower()
        if own not in SYSTEM:
            return self._include
        return [one for one in self._include if literal_prefix(one.pattern).startswith(own)]


def named_databases(include: str) -> list[str]:
    """The databases that include expressions spell out; empty if an expression may match other databases."""
    found = [literal_prefix(one.pattern).partition(".") for one in expressions(include)]
    return sorted({name for name, _, _ in found}) if all(point for _, point, _ in found) else []


def open_databases(include: str) -> list[str] | None:
    """The databases in which expressions may match tables that they do not spell out; None: any database."""
    others = [one.pattern for one in expressions(include) if _NAMED.fullmatch(one.pattern) is None]
    found = [literal_prefix(one).partition(".") for one in others]
    return sorted({name for name, _, _ in found}) if all(point for _, point, _ in found) else None


def named_tables(include: str) -> list[tuple[str, str]]:
    """The tables that include expressions spell out, in their spelling; a plain dot counts as a literal dot."""
    found = [_NAMED.fullmatch(one.pattern) for one in expressions(include)]
    return [
        (one[1], table)
        for one in found
        if one is not None
        for table in filter(None, (one[2] or one[3]).split("|"))
    ]


def expressions(text: str) -> list[re.Pattern[str]]:
    """The expressions of a list with commas; raise ValueError for an invalid expression."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.append(re.compile(_DOUBLED.sub(r"\\", part), re.IGNORECASE | re.DOTALL))
        except re.error as error:
            raise ValueError(f"{part!r} is not a regular expression: {error}") from None
    return found


def literal_prefix(pattern: str) -> str:
    """A lower-case prefix of all names that an expression matches; not always the longest prefix."""
    if _has_choice(pattern):
        return ""
    found, at = "", int(pattern.startswith("^"))
    while at < len(pattern):
        literal, size = pattern[at], 1
        if literal == "\\":
            literal, size = pattern[at + 1 : at + 2], 2
            if literal.isalnum():
                break  # a class, such as \d
        elif literal in _SPECIAL:
            break
        if pattern[at + size : at + size + 1] in ("*", "?", "{", "+"):
            break
        found += literal
        at += size
    return found.lower()


def _has_choice(pattern: str) -> bool:
    """Whether there is a ``|`` outside all parentheses."""
    bare = re.sub(r"\\.|\[\]?[^\]]*\]", "", pattern, flags=re.DOTALL)
    depth = 0
    for sign in bare:
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            return True
    return False


def _may_match(pattern: str, database: str) -> bool:
    """Whether an expression may match a table of a database; False only if that is certain."""
    prefix, wanted = literal_prefix(pattern), f"{database}.".lower()
    return prefix.startswith(wanted) or wanted.startswith(prefix)


def _matches_all_of(pattern: str, database: str) -> bool:
    """Whether an expression matches every table of a database; True only if that is certain."""
    head, point, tail = pattern.removeprefix("^").removesuffix("$").rpartition(r"\.")
    if not point or tail not in _ANY_TABLE or _has_choice(head):
        return False
    try:
        return re.fullmatch(head, database, re.IGNORECASE | re.DOTALL) is not None
    except re.error:
        return False
