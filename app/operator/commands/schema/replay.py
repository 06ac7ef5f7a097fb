"""`python -m app schema replay`: the tables that files of statements make; no server is asked.

Invariant: one input has one result, whatever its statements are; only arguments and files can be
wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from app.operator.operations.schema.replay import ReplayedTables, replay
from connectors.mysql.ddl.definition import Table
from wire.text import printed

WRONG_ARGUMENTS = 2
_SUFFIX = ".jsonl"


class WrongArguments(Exception):
    """What was asked for cannot be done."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add one file, or a folder of them."""
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


def run(options: argparse.Namespace) -> int:
    """Replay; return the exit code."""
    try:
        if options.input is not None:
            _one(options.input, options.output_dir)
        else:
            _all(options.input_dir, options.output_dir)
    except WrongArguments as fault:
        return _refused(str(fault))
    except OSError as fault:
        return _refused(f"{fault.filename}: {fault.strerror}")
    return 0


def _refused(message: str) -> int:
    sys.stderr.write(f"schema replay: {printed(message)}\n")
    return WRONG_ARGUMENTS


def _one(source: Path, output: Path | None) -> None:
    if output is not None:
        raise WrongArguments("--output-dir needs --input-dir; the result of --input is printed")
    sys.stdout.buffer.write(_result(source))
    sys.stdout.buffer.flush()


def _all(folder: Path, output: Path | None) -> None:
    if output is None:
        raise WrongArguments("--input-dir needs --output-dir")
    sources = sorted(_files(folder))
    if not sources:
        raise WrongArguments(f"{folder} has no files named *{_SUFFIX}")
    output.mkdir(parents=True, exist_ok=True)
    for source in sources:
        (output / f"{source.stem}.json").write_bytes(_result(source))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.suffix == _SUFFIX and path.is_file())


def _result(source: Path) -> bytes:
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(value_of(replay(source.read_bytes())), option=options)


def value_of(result: ReplayedTables) -> dict[str, Any]:
    """Return a file's result as JSON: ``{"tables": …, "unparsed": …}``."""
    return {
        "tables": {
            f"{database}.{name}": _table_value(table)
            for (database, name), table in result.tables.items()
        },
        "unparsed": [
            {"line": one.line, "sql": one.sql, "error": one.error} for one in result.unparsed
        ],
    }


def _table_value(table: Table) -> dict[str, Any]:
    columns = [
        {**column.to_json(), "generated": column.generated is not None} for column in table.columns
    ]
    return {"columns": columns, "primary_key": list(table.primary_key)}
