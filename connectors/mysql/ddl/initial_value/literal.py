"""The value after DEFAULT, if it is the same for every row.

Invariant: a value that is not certainly constant raises NotConstant. The only functions that are evaluated are
those of the statement's own time, and those of an empty JSON document.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.lexer import LexicalFault, lexed
from connectors.mysql.ddl.grammar.token_reader import GrammarFault, Reader


class NotConstant(ValueError):
    """The value of a default is not known, or differs from row to row."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    value: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number, with its text as written."""

    value: Decimal
    text: str


@dataclass(frozen=True, slots=True)
class Bits:
    """A hexadecimal or bit literal: bytes where text is wanted, else a number."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Now:
    """The time of the statement, or only its date or its time of day."""

    kind: str
    """``moment``, ``date`` or ``time``."""
    is_utc: bool = False
    digits: int = 0
    """The digits of its fraction."""


Literal = Text | Number | Bits | Now | None
"""None is NULL."""

_NOW = {
    **dict.fromkeys(("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"), Now("moment")),
    **dict.fromkeys(("CURRENT_DATE", "CURDATE"), Now("date")),
    **dict.fromkeys(("CURRENT_TIME", "CURTIME"), Now("time")),
    "UTC_TIMESTAMP": Now("moment", is_utc=True),
    "UTC_DATE": Now("date", is_utc=True),
    "UTC_TIME": Now("time", is_utc=True),
}
_TEMPORAL = frozenset({"DATE", "TIME", "TIMESTAMP"})
_EMPTY_JSON = {"JSON_OBJECT": "{}", "JSON_ARRAY": "[]"}
_SERVER = Server(version=(99, 0, 0))


def literal_of(default: str) -> Literal:
    """The value of a default as ``Attributes.default`` holds it; raise NotConstant."""
    try:
        reader = Reader(lexed(default, _SERVER, Session()), _SERVER, Session())
        found = _value(reader)
    except (LexicalFault, GrammarFault, ArithmeticError) as fault:
        raise NotConstant(default) from fault
    if not reader.at_end():
        raise NotConstant(default)
    return found


def _value(reader: Reader) -> Literal:
    if reader.take("("):
        found = _value(reader)
        reader.need(")")
        return found
    sign = ""
    while (word := reader.take_one(frozenset("+-"))) is not None:
        sign = word if sign in ("", "+") else ("+" if word == "-" else "-")
    key, text = reader.key, reader.texts[reader.at]
    if key == lexer.NUMBER:
        reader.at += 1
        negative = "-" if sign == "-" else ""
        return Number(Decimal(negative + text), negative + text)
    if sign:
        raise NotConstant(text)
    return _unsigned(reader, key, text)


def _unsigned(reader: Reader, key: str, text: str) -> Literal:
    if key in (lexer.STRING, lexer.NATIONAL):
        return Text(reader.string())
    if key in (lexer.HEX, lexer.BITS):
        reader.at += 1
        return Bits(_bytes(key, text))
    if key in ("TRUE", "FALSE"):
        reader.at += 1
        shown = "1" if key == "TRUE" else "0"
        return Number(Decimal(shown), shown)
    if reader.take("NULL"):
        return None
    following = reader.keys[reader.at + 1]
    if key in _TEMPORAL and following in (lexer.STRING,):
        reader.at += 1
        return Text(reader.string())
    if key.startswith("_") and following in (lexer.STRING, lexer.HEX, lexer.BITS):
        return _introduced(reader)
    return _called(reader, key)


def _introduced(reader: Reader) -> Literal:
    """A literal after the name of its character set, which changes how bytes beyond ASCII are read."""
    reader.at += 1
    found = _unsigned(reader, reader.key, reader.texts[reader.at])
    is_plain = found.value.isascii() if isinstance(found, Text | Bits) else False
    if not is_plain:
        raise NotConstant("a literal with an introducer")
    return found


def _called(reader: Reader, key: str) -> Literal:
    """A function of the statement's time, or an empty JSON document."""
    now = _NOW.get(key)
    if now is None and key not in _EMPTY_JSON:
        raise NotConstant(key)
    reader.at += 1
    has_parentheses = reader.take("(")
    if has_parentheses:
        if now is not None and reader.key == lexer.NUMBER:
            now = replace(now, digits=reader.integer())
        reader.need(")")
    if now is not None:
        return now
    if not has_parentheses:
        raise NotConstant(key)
    return Text(_EMPTY_JSON[key])


def _bytes(kind: str, text: str) -> bytes:
    if kind == lexer.HEX:
        return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text)
    return int(text or "0", 2).to_bytes((len(text) + 7) // 8)
