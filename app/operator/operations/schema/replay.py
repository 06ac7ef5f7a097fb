"""The tables that the statements of a file make, computed without a server.

It computes and waits for nothing, so it is no coroutine; in a process's first thread each statement
has a time limit.

Invariant: each line is independent. One that is malformed, or whose statement cannot be resolved,
or takes too long, is reported and changes nothing; the others have the same result as without it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import orjson

from connectors.errors import DdlUnresolved
from connectors.mysql.binlog import sql_modes
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Server, Session, Table, TableName

SERVER = Server(version=(9, 7, 4))
"""The server whose rules apply."""
LONGEST = 10.0
"""Seconds for one statement; ordinary ones take a millisecond."""
_LONGEST_ERROR = 300
_MARK = b"\xef\xbb\xbf"


class MalformedLine(ValueError):
    """A line is not a statement with its database and SQL mode."""


class StatementTimeout(BaseException):
    """A statement timed out. Not an Exception, so no caller takes it for an error of the statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A statement with its database and SQL mode."""

    sql: str
    session: Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparsed:
    """A line that changed nothing, and why."""

    line: int
    """Its number, from 1."""
    sql: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTables:
    """The tables that the statements of a file make, and the lines that changed nothing."""

    tables: Mapping[TableName, Table]
    """By name, in that order."""
    unparsed: tuple[Unparsed, ...]


def replay(lines: bytes, *, longest: float = LONGEST) -> ReplayedTables:
    """The result of a file of JSON lines."""
    catalog = Catalog(SERVER, logged=False)
    unparsed = []
    for number, raw in enumerate(lines.removeprefix(_MARK).split(b"\n"), 1):
        if raw.strip():
            error, sql = _apply_line(catalog, raw, longest)
            if error is not None:
                unparsed.append(Unparsed(line=number, sql=sql, error=error))
    named = sorted(catalog.items(), key=lambda item: item[0])
    return ReplayedTables(tables=dict(named), unparsed=tuple(unparsed))


def parse_line(raw: bytes) -> Line:
    """Return a line's statement; raise MalformedLine."""
    try:
        value = orjson.loads(raw)
    except ValueError as fault:
        raise MalformedLine(f"not JSON: {fault}") from None
    if not isinstance(value, dict):
        raise MalformedLine("not a JSON object")
    sql, database, mode = (value.get(key) for key in ("sql", "database", "sql_mode"))
    if not isinstance(sql, str):
        raise MalformedLine("sql is not a string")
    if not isinstance(database, str | None):
        raise MalformedLine("database is neither a string nor null")
    if not isinstance(mode, str | None):
        raise MalformedLine("sql_mode is neither a string nor null")
    try:
        modes = sql_modes.DEFAULT if mode is None else sql_modes.of_text(mode)
    except sql_modes.UnknownSqlMode as fault:
        raise MalformedLine(str(fault)) from None
    return Line(sql=sql, session=Session(database=database or None, sql_mode=modes))


def _apply_line(catalog: Catalog, raw: bytes, longest: float) -> tuple[str | None, str]:
    """Apply a line; return what is wrong with it, and its statement."""
    try:
        line = parse_line(raw)
    except MalformedLine as fault:
        return str(fault), raw.decode(errors="replace")
    try:
        with _time_limit(longest):
            catalog.apply(line.sql, line.session)
    except DdlUnresolved as fault:
        return fault.detail or str(fault), line.sql
    except RecursionError:
        return "it is nested too deeply", line.sql
    except StatementTimeout:
        return f"it took longer than {longest:g} s", line.sql
    except MemoryError:
        return "it needs too much memory", line.sql
    except Exception as fault:
        # A fault of ours is reported with its line, and does not affect the others.
        return f"it cannot be read: {type(fault).__name__}: {fault}"[:_LONGEST_ERROR], line.sql
    return None, line.sql


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise TookTooLong on time-out; only a process's first thread can have that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _raise_timeout)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _raise_timeout(_number: int, _frame: object) -> None:
    raise StatementTimeout
