"""`schema replay`: the tables that the statements of a file make, computed without a server.

The replay only computes and waits for nothing, so it is not a coroutine. In a process's main thread, each
statement has a time limit.

Invariant: one input has one result. A line that is malformed, or whose statement cannot be resolved or takes
too long, is reported and changes nothing; the other lines have the same result as without it. Only wrong
arguments and unreadable files make the command fail.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from connectors.errors import DdlUnresolved
from connectors.mysql.binlog import query_session
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Server, Session, Table
from wire.text import printed

SERVER = Server(version=(9, 7, 4))
"""The server whose rules apply."""
LONGEST = 10.0
"""Seconds for one statement; ordinary ones take a millisecond."""
_LONGEST_ERROR = 300
_MARK = b"\xef\xbb\xbf"


class MalformedLine(ValueError):
    """A line is not a statement with its database and SQL mode."""


class StatementTimeout(BaseException):
    """A statement timed out. Not an Exception, so no caller mistakes it for an error of the statement."""


def replay(lines: bytes, *, longest: float = LONGEST) -> dict[str, Any]:
    """Return the tables that a file of JSON lines makes, and the lines that changed nothing, as JSON.

    ``{"tables": {"DATABASE.NAME": …}, "unparsed": [{"line": …, "sql": …, "error": …}]}``, the tables by name,
    lines numbered from 1.
    """
    catalog = Catalog(SERVER, logged=False)
    unparsed = []
    for number, raw in enumerate(lines.removeprefix(_MARK).split(b"\n"), 1):
        if raw.strip():
            error, sql = _apply_line(catalog, raw, longest)
            if error is not None:
                unparsed.append({"line": number, "sql": sql, "error": error})
    named = sorted(catalog.items(), key=lambda item: item[0])
    tables = {f"{database}.{name}": _table_value(table) for (database, name), table in named}
    return {"tables": tables, "unparsed": unparsed}


def _table_value(table: Table) -> dict[str, Any]:
    columns = [
        {**column.to_json(), "generated": column.generated is not None} for column in table.columns
    ]
    return {"columns": columns, "primary_key": list(table.primary_key)}


def parse_line(raw: bytes) -> tuple[str, Session]:
    """Return a line's statement, with its database and SQL mode; raise MalformedLine."""
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
        modes = query_session.DEFAULT if mode is None else query_session.of_text(mode)
    except query_session.UnknownSqlMode as fault:
        raise MalformedLine(str(fault)) from None
    return sql, Session(database=database or None, sql_mode=modes)


def _apply_line(catalog: Catalog, raw: bytes, longest: float) -> tuple[str | None, str]:
    """Apply a line; return what is wrong with it, and its statement."""
    try:
        sql, session = parse_line(raw)
    except MalformedLine as fault:
        return str(fault), raw.decode(errors="replace")
    try:
        with _time_limit(longest):
            catalog.apply(sql, session)
    except DdlUnresolved as fault:
        return fault.detail or str(fault), sql
    except RecursionError:
        return "it is nested too deeply", sql
    except StatementTimeout:
        return f"it took longer than {longest:g} s", sql
    except MemoryError:
        return "it needs too much memory", sql
    except Exception as fault:
        # A fault of this program is reported with its line, and does not affect the other lines.
        return f"it cannot be read: {type(fault).__name__}: {fault}"[:_LONGEST_ERROR], sql
    return None, sql


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise StatementTimeout on timeout; only a process's main thread can have a limit."""
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


WRONG_ARGUMENTS = 2
_SUFFIX = ".jsonl"


class WrongArguments(Exception):
    """The arguments ask for what cannot be done."""


def configure_replay(parser: argparse.ArgumentParser) -> None:
    """Add one file, or a folder of files."""
    parser.epilog = (
        'Each line of an input is {"database": "db" or null, "sql_mode": "…", "sql": "…"}. Without sql_mode, '
        "that of MySQL 9.7 applies. Statements that cannot be resolved are reported, and change nothing."
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", type=Path, metavar="FILE.jsonl", help="statements, one per line")
    source.add_argument(
        "--input-dir", type=Path, metavar="D", help="a folder of such files; needs --output-dir"
    )
    parser.add_argument(
        "--output-dir",
        type=Path,
        metavar="O",
        help="folder for the results, one NAME.json per file",
    )
    parser.add_argument("--format", choices=("json",), default="json", help="format of the result")


def run_replay(options: argparse.Namespace) -> int:
    """Replay; return the exit code."""
    try:
        if options.input is not None:
            _print_one(options.input, options.output_dir)
        else:
            _write_all(options.input_dir, options.output_dir)
    except WrongArguments as fault:
        return _refused(str(fault))
    except OSError as fault:
        return _refused(f"{fault.filename}: {fault.strerror}")
    return 0


def _refused(message: str) -> int:
    sys.stderr.write(f"schema replay: {printed(message)}\n")
    return WRONG_ARGUMENTS


def _print_one(source: Path, output: Path | None) -> None:
    if output is not None:
        raise WrongArguments("--output-dir needs --input-dir; the result of --input is printed")
    sys.stdout.buffer.write(_result(source))
    sys.stdout.buffer.flush()


def _write_all(folder: Path, output: Path | None) -> None:
    if output is None:
        raise WrongArguments("--input-dir needs --output-dir")
    sources = sorted(path for path in folder.iterdir() if path.suffix == _SUFFIX and path.is_file())
    if not sources:
        raise WrongArguments(f"{folder} has no files named *{_SUFFIX}")
    output.mkdir(parents=True, exist_ok=True)
    for source in sources:
        (output / f"{source.stem}.json").write_bytes(_result(source))


def _result(source: Path) -> bytes:
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(replay(source.read_bytes()), option=options)
