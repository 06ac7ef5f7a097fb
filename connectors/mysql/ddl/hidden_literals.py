"""Statements without their literals, which may be values of masked columns.

Invariant: each text is replaced by ``'?'`` and each number by 0, except literals that are part of a type, a
key's prefix or a character set: the labels of an ENUM, the length of a VARCHAR. Comments are dropped. The
result is a statement with the same effect on columns. In doubt a literal is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from connectors.mysql.ddl.column_types import KINDS, OF_ORACLE
from connectors.mysql.ddl.definition import Server, Session, Table
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.lexer import Lexed, lexed
from connectors.mysql.ddl.initial_value import hidden_initial
from connectors.mysql.ddl.resolve.columns import attributes_in

TEXT, NUMBER = "'?'", "0"
"""The replacements of literals."""
_TEXTS = (lexer.STRING, lexer.HEX, lexer.BITS, lexer.NATIONAL)
_LABELS, _SIZES, _KEY, _PREFIX, _OTHER = range(5)
"""Kinds of parentheses."""
_TYPES = frozenset(word.upper() for name in (*KINDS, *OF_ORACLE) for word in name.split())
_DIGITS = {
    "CHAR": 3,
    "DATE": 0,
    "TIME": 1,
    "TIMESTAMP": 1,
    "DATETIME": 1,
    "YEAR": 1,
    "CURRENT_TIMESTAMP": 1,
    "NOW": 1,
    "LOCALTIME": 1,
    "LOCALTIMESTAMP": 1,
}
"""The maximum number of digits in parentheses after words that are also functions."""
_MOST_DIGITS = 10
_PREFIX_DIGITS = 4
_SIZE = re.compile(r"[0-9]+\.?[0-9]*")
_KEYS = frozenset({"KEY", "INDEX", "UNIQUE", "PRIMARY"})
_NO_KEYS = frozenset(
    {"DEFAULT", "CHECK", "AS", "THAN", "IN", "VALUES", "WHERE", "(", "=", "UPDATE", "COMMENT"}
)
_ENDS = frozenset({",", "(", ")", ";"})
_CHARSETS = frozenset({"CHARSET", "SET", "COLLATE", "ENGINE"})
_NUMBERED = frozenset({"SRID", "SEQUENCE"})
"""Properties with a number on which the kind of a column or table depends."""
_PLAIN = re.compile(r"\w{1,64}", re.ASCII)
_MOST = 1 << 16
"""A logged query of more characters is hidden whole, because reading it takes too long."""


def without_literals(sql: str, server: Server, session: Session) -> str | None:
    """Return a DDL statement without its literals; None if it cannot be split into tokens."""
    try:
        tokens = lexed(sql, server, session)
    except (ValueError, RecursionError):
        return None
    return _joined(tokens, list(_hidden(tokens)))


def table_without_literals(table: Table) -> Table:
    """Return a definition without its literals: defaults, bounds of partitions, expressions, comments.

    Types stay, and with them the labels of an ENUM; so do the lengths of prefixes in keys.
    """
    return replace(
        table,
        columns=tuple(
            replace(
                one,
                definition=_fragment(one.definition),
                initial=hidden_initial(one.initial, attributes_in(one.definition)),
            )
            if one.definition or one.initial
            else one
            for one in table.columns
        ),
        indexes=tuple(
            replace(
                one,
                parts=tuple(
                    part if _LENGTH.fullmatch(part) else _fragment(part) for part in one.parts
                ),
                options=_fragment(one.options),
            )
            for one in table.indexes
        ),
        options=_fragment(table.options),
    )


_LENGTH = re.compile(r"(\(\d{1,4}\))?( DESC)?( WITHOUT OVERLAPS)?")
_ANY = Server(version=(8, 4, 0))
"""Servers of all versions end the literals of their own definitions alike."""


def _fragment(text: str) -> str:
    return (without_literals(text, _ANY, Session()) or "") if text else text


def query_without_literals(sql: str, server: Server) -> str | None:
    """Return a logged query without its literals; None if it is not certain where the literals end.

    The binlog does not contain the query's sql_mode: under NO_BACKSLASH_ESCAPES, a text with a backslash
    ends elsewhere. Under ANSI_QUOTES, names in quotes are hidden, too.
    """
    if "\\" in sql or len(sql) > _MOST:
        return None
    try:
        tokens = lexed(sql, server, Session())
    except (ValueError, RecursionError):
        return None
    shown = zip(tokens.keys[:-2], _originals(tokens), strict=True)
    return _joined(tokens, [_replaced(key) or text for key, text in shown])


def _originals(tokens: Lexed) -> Iterator[str]:
    for start, end in zip(tokens.starts[:-2], tokens.ends[:-2], strict=True):
        yield tokens.sql[start:end]


def _replaced(key: str) -> str | None:
    """The replacement of a token of this kind; None if it is not a literal."""
    return TEXT if key in _TEXTS else NUMBER if key == lexer.NUMBER else None


def _hidden(tokens: Lexed) -> Iterator[str]:
    keys = tokens.keys
    stack: list[int] = []
    for at, text in enumerate(_originals(tokens)):
        key = keys[at]
        if key == "(":
            stack.append(_kind(keys, at, stack[-1] if stack else _OTHER))
        elif key == ")" and stack:
            stack.pop()
        replaced = _replaced(key)
        is_kept = replaced is None or _is_kept(tokens, at, stack[-1] if stack else None)
        yield text if is_kept or replaced is None else replaced


def _kind(keys: list[str], at: int, outer: int) -> int:
    """The kind of the parentheses that open here, by what precedes them."""
    before = keys[at - 1] if at else ""
    if outer == _KEY:
        return _PREFIX if before not in _ENDS else _OTHER
    if before in ("ENUM", "SET"):
        return _LABELS
    if before in _TYPES or before in _DIGITS:
        return _SIZES
    return _KEY if before not in _NO_KEYS and _KEYS & set(_segment(keys, at)) else _OTHER


def _segment(keys: list[str], at: int) -> Iterator[str]:
    """The words before a parenthesis, from the comma or the parenthesis before them."""
    for key in reversed(keys[:at]):
        if key in _ENDS:
            return
        yield key


def _is_kept(tokens: Lexed, at: int, kind: int | None) -> bool:
    """Whether a literal is part of a type, a key or a character set."""
    keys, text = tokens.keys, tokens.texts[at]
    before = keys[at - 1] if at else ""
    if before == "=" and at > 1:
        before = keys[at - 2]
    if kind == _LABELS:
        return keys[at] in _TEXTS
    if keys[at] == lexer.NUMBER:
        if before in _NUMBERED:
            return True
        return _SIZE.fullmatch(text) is not None and len(text) <= _most_digits(keys, at, kind)
    return before in _CHARSETS and _PLAIN.fullmatch(text) is not None


def _most_digits(keys: list[str], at: int, kind: int | None) -> int:
    if kind == _PREFIX:
        return _PREFIX_DIGITS if keys[at - 1] == "(" and keys[at + 1] == ")" else 0
    if kind != _SIZES:
        return 0
    is_first = keys[at - 1] == "("
    opening = at - 1 if is_first else at - 3
    if opening < 1 or keys[opening] != "(":
        return 0
    word = keys[opening - 1]
    if word not in _DIGITS:
        return _MOST_DIGITS
    return _DIGITS[word] if is_first and keys[at + 1] == ")" else 0


def _joined(tokens: Lexed, shown: list[str]) -> str:
    """The tokens' texts, with a blank where there was a gap."""
    spans = pairwise(zip(tokens.starts[:-1], tokens.ends[:-1], strict=True))
    blanks = ["" if end == start else " " for (_, end), (start, _) in spans]
    return "".join(f"{text}{blank}" for text, blank in zip(shown, blanks, strict=True)).strip()
