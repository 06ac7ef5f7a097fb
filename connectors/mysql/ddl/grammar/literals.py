"""Literals and other values in a statement: defaults, or options' values.

Invariant: a value ends where MySQL's grammar ends it, so that the text after it is a separate
attribute.
"""

from __future__ import annotations

from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.token_reader import Reader

_LITERALS = frozenset({lexer.STRING, lexer.NATIONAL, lexer.HEX, lexer.BITS})
_TEMPORAL = frozenset({"DATE", "TIME", "TIMESTAMP"})
_SIGNS = frozenset("+-")


def default_value(reader: Reader) -> str:
    """The value after DEFAULT or ON UPDATE, as text."""
    begin = reader.at
    skip_value(reader)
    return reader.rendered(begin, reader.at)


def skip_value(reader: Reader) -> None:
    """Skip a literal, a name, a function call or an expression in parentheses."""
    while reader.take_one(_SIGNS):
        pass
    key = reader.key
    if key == "(":
        reader.skip_parentheses()
    elif key == lexer.STRING or key == lexer.NATIONAL:
        reader.string()
    elif key in _LITERALS or key == lexer.NUMBER:
        reader.at += 1
    elif reader.take("."):
        _ = reader.integer()  # .5
    elif reader.take("CASE"):
        _skip_case(reader)
    elif reader.take("{"):
        _skip_of_odbc(reader)
    elif key in _TEMPORAL and reader.keys[reader.at + 1] == lexer.STRING:
        reader.at += 1
        reader.string()
    elif reader.take("NEXT", "VALUE", "FOR") or reader.take("PREVIOUS", "VALUE", "FOR"):
        reader.table()
    else:
        _skip_word(reader)


def _skip_word(reader: Reader) -> None:
    """Skip a name; with an introducer its literal, with a function its arguments."""
    while reader.take("@"):
        pass
    word = reader.key
    reader.name()
    if word.startswith("_") and reader.key in _LITERALS:
        reader.at += 1
        return
    while reader.take("."):
        reader.name()
    if reader.key == "(":
        reader.skip_parentheses()


def _skip_of_odbc(reader: Reader) -> None:
    """Skip the rest of an ODBC literal: ``{d '2020-01-01'}``."""
    reader.name()
    skip_value(reader)
    if not reader.take("}"):
        raise reader.fault("expected }")


def _skip_case(reader: Reader) -> None:
    depth = 1
    while depth:
        if reader.key == lexer.END:
            raise reader.fault("expected END")
        depth += (reader.key == "CASE") - (reader.key == "END")
        reader.at += 1
