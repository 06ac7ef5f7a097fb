"""Comments between ``/*`` and ``*/``: those whose content is executed, and the ends of the others.

Invariant: the behaviour is the server's, by its version. A plain comment ends at the first ``*/``,
whatever it contains; one that the server does not execute may contain one nested comment.
Source: ``lex_one_token`` and ``consume_comment`` in MySQL's and MariaDB's ``sql_lex.cc``.
"""

from __future__ import annotations

import re

from connectors.mysql.ddl.definition import Server

_VERSION = re.compile(r"[0-9]{5}")
_SIX_BEFORE_BLANK = re.compile(r"[0-9]{6}(?=[\t\n\v\f\r ])")
_SIX = re.compile(r"[0-9]{6}")
_NOT_EXECUTED = re.compile(r"/\* [0-9]{5}")
"""The rewritten start of a comment that a server did not execute: a blank for the ``!``."""

# MariaDB skips comments for those versions of MySQL that it shares nothing with.
_MYSQL_ONLY = range(50700, 100000)
_SIX_DIGITS_SINCE = (8, 1, 0)


def content(sql: str, start: int, server: Server) -> int | None:
    """The start of the content of the comment at ``start`` if it is part of the statement; else None."""
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
    """The digits of the version that a comment requires; None if it is for any."""
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
    """The end of the unexecuted comment at ``start``; None if it never ends.

    ``rewritten``: a comment with the start that servers give unexecuted ones may contain another
    comment.
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
    """Whether a comment has the start that servers give to unexecuted ones."""
    return _NOT_EXECUTED.search(sql) is not None
