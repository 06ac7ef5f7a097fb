"""Lexer: a statement as words, names, literals and signs, each with its position.

Invariant: tokens end where the server's own lexer ends them, by its version and the session's
sql_mode; whether a word is a keyword is left to the grammar.
Source: ``lex_one_token`` in MySQL's ``sql_lex.cc``.

Comments between ``/*`` and ``*/`` are executed or skipped. Invariant: this is decided as on the server, by
its version. A plain comment ends at the first ``*/``, whatever it contains; an executable comment that the
server skips may contain comments, but those cannot be nested further. Source: ``lex_one_token`` and
``consume_comment`` in MySQL's and MariaDB's ``sql_lex.cc``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.server_version import since

QUOTED_NAME: Final = "`"
STRING: Final = "'"
NUMBER: Final = "0"
HEX: Final = "x'"
BITS: Final = "b'"
NATIONAL: Final = "n'"
END: Final = ""


class GrammarFault(ValueError):
    """The statement is not of the form that the grammar knows, or a quote or a comment in it does not end."""


@dataclass(frozen=True, slots=True)
class Lexed:
    """A statement's tokens, in four lists of the same length.

    The last two entries of each list mark the end, so that the token after the current one can always be read.
    """

    sql: str
    """The statement with blanks in place of the delimiters of executed comments.

    Blanks also replace executable comments that are skipped. Other text keeps its position."""
    keys: list[str]
    """Of each token, the word or sign in upper case; for a quoted name or a literal, its kind."""
    texts: list[str]
    """Of each token, the content of a name or string; else the text itself."""
    starts: list[int]
    ends: list[int]


_SPACE = r"[\t\n\v\f\r ]"
_WORD = r"[0-9A-Za-z_$\u0080-\U0010ffff]"
_EXPONENT = "[eE][+-]?[0-9]+"
_NUMBER = (
    rf"[0-9]+{_EXPONENT}|[0-9]+\.[0-9]*(?:{_EXPONENT})?|\.[0-9]+(?:{_EXPONENT})?|[0-9]+(?!{_WORD})"
)
_AFTER_POINT = re.compile(_WORD + "+")
"""A word right after a name and a point is always a name."""
_HOST = re.compile(r"[0-9A-Za-z._$]+")
_DOLLARS = re.compile(r"\$([0-9A-Za-z_\u0080-\U0010ffff]*)\$")
_DOLLARS_SINCE = (9, 0, 0)
_BEYOND = re.compile("[\U00010000-\U0010ffff]")


@cache
def _pattern(*, ansi_quotes: bool, backslashes: bool, brackets: bool) -> re.Pattern[str]:
    """One token or gap; the name of the matching group is its kind."""
    escape = r"|\\." if backslashes else ""
    not_escape = r"\\" if backslashes else ""

    def quoted(quote: str) -> str:
        return f"{quote}(?:[^{quote}{not_escape}]|{quote}{quote}{escape})*+{quote}"

    names = ["`(?:[^`]|``)*+`"]
    if ansi_quotes:
        names.append('"(?:[^"]|"")*+"')
    if brackets:
        names.append(r"\[(?:[^\]]|\]\])*+\]")
    single = quoted("'")
    strings = [single] if ansi_quotes else [single, quoted('"')]
    return re.compile(
        "|".join(
            (
                rf"(?P<gap>{_SPACE}+|--(?=[\x00-\x20\x7f]|\Z)[^\n]*|\#[^\n]*)",
                r"(?P<comment>/\*)",
                r"(?P<close>\*/)",
                rf"(?P<name>{'|'.join(names)})",
                rf"(?P<string>{'|'.join(strings)})",
                r"(?P<hex>[xX]'[0-9A-Fa-f]*'|0x[0-9A-Fa-f]+(?!" + _WORD + "))",
                r"(?P<bits>[bB]'[01]*'|0b[01]+(?!" + _WORD + "))",
                rf"(?P<national>[nN]{single})",
                rf"(?P<number>{_NUMBER})",
                rf"(?P<word>{_WORD}+)",
                r"(?P<sign>.)",
            )
        ),
        re.DOTALL,
    )


_ESCAPED = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
_ESCAPE = re.compile(r"\\(.)|(['\"])\2", re.DOTALL)


def _unescaped(text: str, quote: str, *, backslashes: bool) -> str:
    """A string's content."""
    inner = text[1:-1]
    if not backslashes or "\\" not in inner:
        return inner.replace(quote * 2, quote)
    return _ESCAPE.sub(lambda found: _meant(found, quote), inner)


def _meant(found: re.Match[str], quote: str) -> str:
    if found[1] is not None:
        return _ESCAPED.get(found[1], found[1])
    return quote if found[2] == quote else found[0]


def lexed(sql: str, server: Server, session: Session) -> Lexed:
    """Split a statement into tokens; raise GrammarFault if that is not possible."""
    scan = _Scan(sql, server, session)
    scan.run()
    if (scan.fault or scan.stray) and may_be_rewritten(sql):
        # Old servers log a comment that they did not execute with its nested comments; read as a plain
        # comment, it would end too early.
        again = _Scan(sql, server, session, rewritten=True)
        again.run()
        if not again.fault and not again.stray:
            return again.result()
    if scan.fault:
        raise GrammarFault(scan.fault)
    return scan.result()


class _Scan:
    """One pass over a statement."""

    def __init__(self, sql: str, server: Server, session: Session, *, rewritten: bool = False):
        modes = session.sql_mode
        self._sql = sql
        self._server = server
        self._rewritten = rewritten
        self._backslashes = "NO_BACKSLASH_ESCAPES" not in modes
        self._match = _pattern(
            ansi_quotes="ANSI_QUOTES" in modes,
            backslashes=self._backslashes,
            brackets="MSSQL" in modes,
        ).match
        self._dollars = since(server, mysql=_DOLLARS_SINCE, mariadb=None)
        self._tokens: list[tuple[str, str, int, int]] = []
        self._executing = False
        self._pieces: list[str] = []
        self._copied = 0
        self.stray = False
        """Whether a comment's end was found without its beginning."""
        self.fault = ""
        """The reason why the pass did not reach the end."""

    def run(self) -> None:
        """Scan to the end, or to a fault."""
        at = 0
        try:
            while found := self._match(self._sql, at):
                at = self._take(found.lastgroup or "", found.start(), found.end())
        except GrammarFault as fault:
            self.fault = str(fault)

    def result(self) -> Lexed:
        """The tokens found."""
        text = "".join((*self._pieces, self._sql[self._copied :]))
        columns = [*zip(*self._tokens, strict=True)] or [(), (), (), ()]
        keys, texts, starts, ends = map(list, columns)
        last = [len(text)] * 2
        return Lexed(text, [*keys, END, END], [*texts, "", ""], [*starts, *last], [*ends, *last])

    def _take(self, kind: str, start: int, end: int) -> int:
        """Read one token or gap; return where the next one starts."""
        if kind == "gap":
            return end
        if kind == "comment":
            return self._comment(start)
        if kind == "close" and self._executing:
            self._executing = False
            self._blank(start, end)
            return end
        if kind == "close":
            self.stray = True
            self._add("*", "*", start, start + 1)
            return start + 1
        if kind in ("word", "number", "hex", "bits"):
            return self._word(kind, start, end)
        if kind == "sign":
            return self._sign(start, end)
        self._quoted(kind, start, end)
        return end

    def _comment(self, start: int) -> int:
        inner = content(self._sql, start, self._server)
        if inner is not None:
            self._executing = True
            self._blank(start, inner)
            return inner
        end = end_of_comment(self._sql, start, self._server, rewritten=self._rewritten)
        if end is None:
            raise GrammarFault(f"the comment at character {start + 1} does not end")
        if self._sql[start + 2] in "!M":
            self._blank(start, end)
        return end

    def _word(self, kind: str, start: int, end: int) -> int:
        sql, tokens = self._sql, self._tokens
        whole = self._after_sign(start)
        if whole is not None:
            kind, end = "word", whole.end()
        if kind == "word":
            text = sql[start:end]
            if text[0] == "$" and self._dollars and (tag := _DOLLARS.match(sql, start)):
                return self._dollar_quoted(tag)
            self._add(upper(text), named(text), start, end)
        elif kind == "number":
            if sql[start] == "." and tokens and tokens[-1][3] == start and _is_name(tokens[-1][0]):
                self._add(".", ".", start, start + 1)
                return start + 1
            self._add(NUMBER, sql[start:end], start, end)
        else:
            digits = sql[start + 2 : end].rstrip("'")
            self._add(HEX if kind == "hex" else BITS, digits, start, end)
        return end

    def _after_sign(self, start: int) -> re.Match[str] | None:
        """A host after ``@``, or a name after a name and a point, with nothing between."""
        tokens = self._tokens
        if not tokens or tokens[-1][3] != start:
            return None
        if tokens[-1][0] == "@":
            return _HOST.match(self._sql, start)
        if tokens[-1][0] == "." and len(tokens) > 1 and tokens[-2][3] == start - 1:
            return _AFTER_POINT.match(self._sql, start)
        return None

    def _dollar_quoted(self, tag: re.Match[str]) -> int:
        end = self._sql.find(tag[0], tag.end())
        if end < 0:
            raise GrammarFault(f"the text at character {tag.start() + 1} does not end")
        after = end + len(tag[0])
        self._add(STRING, self._sql[tag.end() : end], tag.start(), after)
        return after

    def _sign(self, start: int, end: int) -> int:
        sign = self._sql[start:end]
        if sign in "`'\"" or (sign == "/" and self._sql.startswith("/*", start)):
            raise GrammarFault(f"the quote at character {start + 1} does not end")
        self._add(sign, sign, start, end)
        return end

    def _quoted(self, kind: str, start: int, end: int) -> None:
        text = self._sql[start:end]
        if kind == "name":
            close = text[-1]
            self._add(QUOTED_NAME, named(text[1:-1].replace(close * 2, close)), start, end)
        elif kind == "national":
            content_ = _unescaped(text[1:], "'", backslashes=self._backslashes)
            self._add(NATIONAL, content_, start, end)
        else:
            content_ = _unescaped(text, text[0], backslashes=self._backslashes)
            self._add(STRING, content_, start, end)

    def _add(self, key: str, text: str, start: int, end: int) -> None:
        self._tokens.append((key, text, start, end))

    def _blank(self, start: int, end: int) -> None:
        self._pieces += (self._sql[self._copied : start], " " * (end - start))
        self._copied = end


def named(text: str) -> str:
    """A name as the server stores it: with a question mark for each character outside the BMP."""
    return text if text.isascii() else _BEYOND.sub("?", text)


def _is_name(key: str) -> bool:
    return key == QUOTED_NAME or key[:1].isalnum() or key[:1] in "_$"


_VERSION = re.compile(r"[0-9]{5}")
_SIX_BEFORE_BLANK = re.compile(r"[0-9]{6}(?=[\t\n\v\f\r ])")
_SIX = re.compile(r"[0-9]{6}")
_NOT_EXECUTED = re.compile(r"/\* [0-9]{5}")
"""The start of a comment that a server did not execute and rewrote, with a blank in place of the ``!``."""

# MariaDB skips comments for the versions of MySQL with which it shares nothing.
_MYSQL_ONLY = range(50700, 100000)
_SIX_DIGITS_SINCE = (8, 1, 0)


def content(sql: str, start: int, server: Server) -> int | None:
    """Return where the content of the comment at ``start`` begins, if the server executes it; else None."""
    maria = sql.startswith("/*M!", start)
    if not sql.startswith("/*!", start) and not (maria and server.mariadb):
        return None
    begin = start + (4 if maria else 3)
    version = _version(sql, begin, server)
    if version is None:
        return begin
    major, minor, patch = server.version
    if int(version) > major * 10000 + minor * 100 + patch:
        return None
    if server.mariadb and not maria and int(version) in _MYSQL_ONLY:
        return None
    return begin + len(version)


def _version(sql: str, begin: int, server: Server) -> str | None:
    """The digits of the version that a comment requires; None if it is for any version."""
    if server.mariadb:
        six = _SIX.match(sql, begin)
    elif server.version >= _SIX_DIGITS_SINCE:
        # Without a blank after it, the sixth digit belongs to the content.
        six = _SIX_BEFORE_BLANK.match(sql, begin)
    else:
        six = None
    found = six or _VERSION.match(sql, begin)
    return None if found is None else found[0]


def end_of_comment(sql: str, start: int, server: Server, *, rewritten: bool = False) -> int | None:
    """Return the end of the unexecuted comment at ``start``; None if it never ends.

    With ``rewritten``, a comment whose start shows that a server rewrote it may contain other comments.
    """
    if sql.startswith("/*!", start) or (server.mariadb and sql.startswith("/*M!", start)):
        return _end(sql, start + 2, nests=True)
    nested = rewritten and _NOT_EXECUTED.match(sql, start) is not None
    return (_end(sql, start + 2, nests=True) if nested else None) or _end(sql, start + 2)


def _end(sql: str, at: int, *, nests: bool = False) -> int | None:
    while True:
        end = sql.find("*/", at)
        inner = sql.find("/*", at, end + 1) if nests and end >= 0 else -1
        if inner < 0:
            return None if end < 0 else end + 2
        closed = sql.find("*/", inner + 2)
        if closed < 0:
            return None
        at = closed + 2


def may_be_rewritten(sql: str) -> bool:
    """Return whether a comment has the start that servers give to comments that they do not execute."""
    return _NOT_EXECUTED.search(sql) is not None


_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def upper(text: str) -> str:
    """A word in upper case, as the server's lexer compares it with its keywords.

    Invariant: only ASCII letters change, so that no name with other letters becomes a keyword: the dotless
    ``i`` does not become ``I``.
    """
    return text.upper() if text.isascii() else text.translate(_UPPER)
