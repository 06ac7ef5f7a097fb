"""A statement as words, names, literals and signs, each with its place.

The law: sqlglot's tokenizer for MySQL finds them, without its keywords: which word is one, the grammar decides
where it stands. Quotes and backslashes mean what the session's sql_mode says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final

from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.ddl.grammar.executable import unwrapped

QUOTED_NAME: Final = "`"
STRING: Final = "'"
NUMBER: Final = "0"
HEX: Final = "x'"
BITS: Final = "b'"
NATIONAL: Final = "n'"
END: Final = ""

_KEYS = {
    TokenType.IDENTIFIER: QUOTED_NAME,
    TokenType.STRING: STRING,
    TokenType.NUMBER: NUMBER,
    TokenType.HEX_STRING: HEX,
    TokenType.BIT_STRING: BITS,
    TokenType.NATIONAL_STRING: NATIONAL,
}


class LexicalFault(ValueError):
    """The statement cannot even be taken apart: a quote or a comment does not end."""


@dataclass(frozen=True, slots=True)
class Lexed:
    """A statement's tokens, in four lists of one length; the last two of each stand for the end, so that one
    may always look one further."""

    sql: str
    keys: list[str]
    """Of a word or sign: itself in upper case; of a quoted name or a literal: which kind it is."""
    texts: list[str]
    """A name's or a string's content; else the text itself."""
    starts: list[int]
    ends: list[int]


class _Tokenizer(MySQL.Tokenizer):
    KEYWORDS: ClassVar[dict[str, TokenType]] = {}
    COMMANDS: ClassVar[set[TokenType]] = set()


class _AnsiQuotes(_Tokenizer):
    QUOTES: ClassVar[list[tuple[str, str] | str]] = ["'"]
    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`", '"']
    STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\"]


class _NoBackslashes(_Tokenizer):
    STRING_ESCAPES: ClassVar[list[str]] = ["'", '"']


class _AnsiNoBackslashes(_AnsiQuotes):
    STRING_ESCAPES: ClassVar[list[str]] = ["'"]


_VARIANTS: dict[tuple[bool, bool], type[_Tokenizer]] = {
    (False, False): _Tokenizer,
    (True, False): _AnsiQuotes,
    (False, True): _NoBackslashes,
    (True, True): _AnsiNoBackslashes,
}


@cache
def _tokenizer(ansi: bool, plain: bool) -> _Tokenizer:
    kind = _VARIANTS[ansi, plain]
    # The base class reads templates' comments, too; in MySQL those are signs like others.
    kind._COMMENTS.pop("{#", None)
    return kind(MySQL())


def lexed(sql: str, server: Server, session: Session) -> Lexed:
    """Take a statement apart; raise LexicalFault where that cannot be done."""
    plain = "NO_BACKSLASH_ESCAPES" in session.sql_mode
    text = unwrapped(sql, server, backslashes=not plain)
    try:
        tokens = _tokenizer("ANSI_QUOTES" in session.sql_mode, plain).tokenize(text)
    except TokenError as error:
        raise LexicalFault(str(error)) from None
    keys, texts, starts, ends = [], [], [], []
    for token in tokens:
        key = _KEYS.get(token.token_type)
        if key is None or (key is QUOTED_NAME and text[token.start] not in '`"'):
            key = token.text.upper()
        keys.append(key)
        texts.append(token.text)
        starts.append(token.start)
        ends.append(token.end + 1)
    end = [len(text)] * 2
    return Lexed(text, [*keys, END, END], [*texts, "", ""], [*starts, *end], [*ends, *end])
