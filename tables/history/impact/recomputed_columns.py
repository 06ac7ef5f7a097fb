"""The generated columns whose values in existing rows a change of their table recomputes.

Invariant: an expression depends on each column that it names. Only the server knows whether a value changed, so
every column whose values may have changed counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.definition import Column, Server, Session, Table
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.lexer import LexicalFault, lexed
from connectors.mysql.ddl.resolve.columns import attributes_in
from tables.history.impact.type_change import Relation, charset_relation, kind_of, relation

_ANY = Server(version=(8, 4, 0))
"""Servers of all versions end the tokens of their own definitions alike."""
_KEEPS = (Relation.SAME, Relation.WIDER)


def recomputed(old: Table, new: Table, renames: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the columns of ``new``; ``renames``: from the old names of columns to new names."""
    before = {lowered(renames.get(column.name, column.name)): column for column in old.columns}
    named = ((before.get(lowered(column.name)), column) for column in new.columns)
    kept = [(was, column) for was, column in named if was is not None]
    found = {one.name for was, one in kept if one.generated and _tokens(was) != _tokens(one)}
    changed = {lowered(one.name) for was, one in kept if _has_other_values(was, one)}
    while True:
        changed |= set(map(lowered, found))
        more = {one.name for _, one in kept if one.generated and changed.intersection(_tokens(one))}
        if more <= found:
            return tuple(one.name for one in new.columns if one.name in found)
        found |= more


def _has_other_values(old: Column, new: Column) -> bool:
    """Whether values of the column may have been converted to others."""
    return (
        relation(kind_of(old), kind_of(new)) not in _KEEPS
        or charset_relation(old.charset, new.charset) not in _KEEPS
        or (old.nullable and not new.nullable)
    )


def _tokens(column: Column) -> tuple[str, ...]:
    """The tokens of the column's expression, with names in lower case; none unless it is generated."""
    if not column.generated:
        return ()
    attributes = attributes_in(column.definition)
    try:
        tokens = lexed(
            column.definition if attributes is None else attributes.expression, _ANY, Session()
        )
    except LexicalFault:
        return (column.definition,)
    return tuple(
        f"'{text}" if key in (lexer.STRING, lexer.NATIONAL) else lowered(text)
        for key, text in zip(tokens.keys, tokens.texts, strict=True)
    )
