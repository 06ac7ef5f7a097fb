"""The table references of a multi-table UPDATE or DELETE: its tables and their names there.

Invariant: a form that is not listed here is a fault, never skipped; tables read in a subquery are
no references.
Source: MySQL's manual, "JOIN Clause".
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mysql.ddl.grammar.lexer import END
from connectors.mysql.ddl.grammar.token_reader import Reader
from connectors.mysql.ddl.statement.table_ref import TableRef

_QUERY = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_JOINS = frozenset({"JOIN", "STRAIGHT_JOIN"})
_HINTS = frozenset({"USE", "FORCE", "IGNORE"})
_NO_ALIAS_TEXT = (
    "INNER CROSS LEFT RIGHT NATURAL ON USING SET WHERE ORDER LIMIT PARTITION RETURNING FOR FULL "
    "TABLESAMPLE"
)
_NO_ALIAS = _JOINS | _HINTS | frozenset(_NO_ALIAS_TEXT.split())


@dataclass(frozen=True, slots=True)
class Reference:
    """One entry of the references."""

    alias: str | None
    table: TableRef | None
    """None for a derived table, which cannot be written."""

    def is_named(self, qualifier: TableRef, default: str | None) -> bool:
        """Whether a qualifier such as ``o`` or ``shop.orders`` refers to this entry."""
        database, name = qualifier
        if self.alias is not None:
            return database is None and _same(self.alias, name)
        if self.table is None or not _same(self.table[1], name):
            return False
        return database is None or _same(self.table[0] or default or "", database)


def references(reader: Reader, ends: frozenset[str]) -> list[Reference]:
    """The references up to one of the words in ``ends``, which is left for the caller."""
    found: list[Reference] = []
    depth, expects = 0, True
    while True:
        key = reader.key
        if expects:
            if key == "(" and not _is_query(reader):
                depth += 1
                reader.at += 1
                continue
            found.append(_reference(reader))
            expects = False
        elif key in ends and not depth:
            return found
        elif key == END:
            raise reader.fault("expected the end of the table references")
        elif key == "," or key in _JOINS:
            expects = True
            reader.at += 1
        elif key == "(":
            reader.skip_parentheses()
        elif key == ")":
            if not depth:
                raise reader.fault("expected a table reference")
            depth -= 1
            reader.at += 1
        else:
            # A word after a point is always a column's name.
            reader.at += 2 if key == "." else 1


def _reference(reader: Reader) -> Reference:
    lateral = reader.take("LATERAL")
    if reader.key == "(":
        reader.skip_parentheses()
        return Reference(_alias(reader, needed=True), None)
    if lateral:
        raise reader.fault("expected (")
    table = reader.table()
    if reader.key == "(":
        # A table function, such as JSON_TABLE.
        reader.skip_parentheses()
        return Reference(_alias(reader, needed=True), None)
    if reader.take("PARTITION"):
        reader.skip_parentheses()
    alias = _alias(reader)
    while reader.key in _HINTS:
        _skip_hint(reader)
    return Reference(alias, table)


def _alias(reader: Reader, *, needed: bool = False) -> str | None:
    alias = None
    if reader.take("AS") or (reader.is_name() and reader.key not in _NO_ALIAS):
        alias = reader.name()
    elif needed:
        raise reader.fault("expected an alias")
    if needed and reader.key == "(":
        reader.skip_parentheses()
    return alias


def _skip_hint(reader: Reader) -> None:
    """Skip an index hint."""
    reader.at += 1
    if not (reader.take("INDEX") or reader.take("KEY")):
        raise reader.fault("expected an index hint")
    if reader.take("FOR"):
        _ = reader.take("JOIN") or reader.take("ORDER", "BY") or reader.take("GROUP", "BY")
    reader.skip_parentheses()


def _is_query(reader: Reader) -> bool:
    """Whether the parentheses that begin here contain a query."""
    at = reader.at
    while reader.keys[at] == "(":
        at += 1
    return reader.keys[at] in _QUERY


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()
