"""A statement as words, names, literals and signs, each with its place.

The law: sqlglot's tokenizer for MySQL finds them, without its keywords: which word is one, the grammar decides
where it stands. Quotes and backslashes mean what the session's sql_mode says.
"""

from __future__ import annotations

import threading
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

_NAME_QUOTES = frozenset('`"[')
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


class _Tokenizers(threading.local):
    """The tokenizers of one thread: each keeps what it is at."""

    def __init__(self) -> None:
        self.made: dict[tuple[bool, bool, bool], _Tokenizer] = {}


_TOKENIZERS = _Tokenizers()


def _tokenizer(modes: frozenset[str]) -> _Tokenizer:
    """This thread's tokenizer for the quotes that a sql_mode means."""
    key = ("ANSI_QUOTES" in modes, "NO_BACKSLASH_ESCAPES" not in modes, "MSSQL" in modes)
    found = _TOKENIZERS.made.get(key)
    if found is None:
        found = _TOKENIZERS.made[key] = _variant(*key)(MySQL())
    return found


@cache
def _variant(ansi_quotes: bool, backslashes: bool, brackets: bool) -> type[_Tokenizer]:
    """sqlglot's tokenizer for one way of quoting."""
    quotes = ["'"] if ansi_quotes else ["'", '"']
    names: list[str | tuple[str, str]] = ["`", *(['"'] if ansi_quotes else [])]
    kind = type(
        "_Variant",
        (_Tokenizer,),
        {
            "QUOTES": quotes,
            "IDENTIFIERS": [*names, ("[", "]")] if brackets else names,
            "STRING_ESCAPES": [*quotes, "\\"] if backslashes else quotes,
        },
    )
    # The base class reads templates' comments, too; in MySQL those are signs like others.
    variant: type[_Tokenizer] = kind
    variant._COMMENTS.pop("{#", None)
    return variant


def lexed(sql: str, server: Server, session: Session) -> Lexed:
    """Take a statement apart; raise LexicalFault where that cannot be done."""
    modes = session.sql_mode
    text = unwrapped(sql, server, backslashes="NO_BACKSLASH_ESCAPES" not in modes)
    try:
        tokens = _tokenizer(modes).tokenize(text)
    except TokenError as error:
        raise LexicalFault(str(error)) from None
    keys, texts, starts, ends = [], [], [], []
    for token in tokens:
        key = _KEYS.get(token.token_type)
        if key is None or (key is QUOTED_NAME and text[token.start] not in _NAME_QUOTES):
            key = token.text.upper()
        keys.append(key)
        texts.append(token.text)
        starts.append(token.start)
        ends.append(token.end + 1)
    end = [len(text)] * 2
    return Lexed(text, [*keys, END, END], [*texts, "", ""], [*starts, *end], [*ends, *end])
