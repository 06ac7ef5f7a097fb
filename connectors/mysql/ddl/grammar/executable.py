"""Executable comments: what ``/*!50100 … */`` and ``/*M! … */`` hold is part of the statement, or is not.

The law: the server's own reading decides, by its version; a statement without such comments is not looked at,
and in one with them every character keeps its place, so that pieces can be cut out of it.
Source: MySQL's and MariaDB's ``sql_lex.cc``.
"""

from __future__ import annotations

import re

from connectors.mysql.ddl.definition import Server

_OPENING = re.compile(r"/\*(M?)!")
_STRETCH = re.compile(
    r"""(?P<quoted>'(?:[^'\\]|\\.|'')*(?:'|$)|"(?:[^"\\]|\\.|"")*(?:"|$)|`(?:[^`]|``)*(?:`|$))"""
    r"""|(?P<line>--(?=[\s\x00-\x1f\x7f]|$)[^\n]*|\#[^\n]*)"""
    r"""|(?P<start>/\*M?!)|(?P<skipped>/\*\ \d{5})|(?P<comment>/\*)|(?P<end>\*/)""",
    re.DOTALL,
)
_PLAIN_STRETCH = re.compile(  # with NO_BACKSLASH_ESCAPES
    _STRETCH.pattern.replace(r"[^'\\]|\\.|''", "[^']|''").replace(r'[^"\\]|\\.|""', '[^"]|""'),
    re.DOTALL,
)
_EDGE = re.compile(r"/\*|\*/")
# MariaDB leaves out what was written for the versions of MySQL that it has no part in.
_MYSQL_ONLY = range(50700, 100000)


def unwrapped(sql: str, server: Server, *, backslashes: bool = True) -> str:
    """The statement with the content of executable comments in place, and blanks for what is left out."""
    if _OPENING.search(sql) is None:
        return sql
    stretches = _STRETCH if backslashes else _PLAIN_STRETCH
    pieces: list[str] = []
    copied = at = depth = 0
    while found := stretches.search(sql, at):
        at = found.end()
        if found.lastgroup == "comment":
            at = _behind(sql, at)
        elif found.lastgroup in ("start", "skipped"):
            # A server writes a blank for the ! of what it did not execute, and leaves others within it.
            skipped = found.lastgroup == "skipped"
            inner = None if skipped else _executed(sql, found.start(), server)
            at = _behind(sql, at) if inner is None else inner
            depth += inner is not None
            pieces += (sql[copied : found.start()], " " * (at - found.start()))
            copied = at
        elif found.lastgroup == "end" and depth:
            depth -= 1
            pieces += (sql[copied : found.start()], "  ")
            copied = at
    return "".join((*pieces, sql[copied:]))


def _behind(sql: str, at: int) -> int:
    """The place behind a comment that is not read; another one may stand in it, as in what mysqldump writes."""
    depth = 1
    while depth and (edge := _EDGE.search(sql, at)):
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return len(sql) if depth else at


def _executed(sql: str, start: int, server: Server) -> int | None:
    """Where the content of an executable comment begins; None if this server does not read it."""
    maria = sql.startswith("/*M!", start)
    if maria and not server.mariadb:
        return None
    begin = start + (4 if maria else 3)
    digits = 0
    longest = 6 if server.mariadb or server.version >= (8, 0, 0) else 5
    while digits < longest and sql[begin + digits : begin + digits + 1].isdecimal():
        digits += 1
    if digits < 5:
        return begin
    asked = int(sql[begin : begin + digits])
    major, minor, patch = server.version
    if asked > major * 10000 + minor * 100 + patch:
        return None
    if server.mariadb and not maria and asked in _MYSQL_ONLY:
        return None
    return begin + digits
