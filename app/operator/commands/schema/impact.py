"""`python -m app schema impact`: the effect of a statement on subscribers, before it is run.

Invariant: nothing is run and nothing is written. Exit 0 if it may be run, 3 if it breaks
subscribers (or, on request, if they must be careful), so that a pipeline of changes can stop there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from app.operator.commands import arguments
from app.operator.commands.event_loop import run_operation
from app.operator.commands.output import print_answer
from app.operator.commands.schema.history_source import ReadByName, from_journal
from app.operator.operations.destination_check import check_destination
from app.operator.operations.mapping.in_force import with_mapping_in_force
from app.operator.operations.schema.file_catalog import file_catalog
from app.operator.operations.schema.impact import (
    Judgement,
    Rules,
    StatementImpact,
    history_catalog,
    judge,
)
from app.operator.operations.schema.statement_text import statements
from app.settings.model import Settings, load
from connectors.errors import SettingsError, UsageError, printed
from connectors.mysql.binlog import sql_modes
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Session
from tables.history.impact.findings import Severity
from tables.history.impact.impact import as_text, severest

BREAKS = 3
"""The exit code of a statement that needs preparation before it is run."""
_FAIL_ON = {"breaking": Severity.BREAKING, "careful": Severity.CAREFUL}

Ask = Callable[[Settings, str], Coroutine[Any, Any, Catalog]]
"""Returns a server's tables, by the settings and a destination's name."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add statements, and what they are judged by."""
    parser.epilog = (
        "Without --live or --input, the definitions are those at the end of the schema history. "
        "Exit code: 0; 3 if the worst severity reaches --fail-on; 1 if the impact cannot be determined."
    )
    arguments.add_destination(parser)
    parser.add_argument(
        "statement",
        nargs="+",
        metavar="STATEMENT",
        help='such as "ALTER TABLE orders DROP note"; several are separated by ; and - reads standard input',
    )
    parser.add_argument("--database", metavar="DB", help="default database of the statements")
    parser.add_argument(
        "--sql-mode",
        type=_modes,
        default=sql_modes.DEFAULT,
        metavar="MODES",
        help="SQL mode of the statements; default: MySQL's",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--live", action="store_true", help="use the server's present definitions")
    source.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="use the definitions in a file: output of `schema rebuild --format json`, or statements as "
        "mysqldump --no-data writes them; needs neither server nor Kafka, unless mapping.store is zookeeper",
    )
    parser.add_argument(
        "--fail-on",
        choices=(*_FAIL_ON, "never"),
        default="breaking",
        help="least severity with exit code 3 (default: %(default)s)",
    )
    arguments.add_format(parser)


def _modes(text: str) -> frozenset[str]:
    try:
        return sql_modes.of_text(text)
    except sql_modes.UnknownSqlMode as error:
        raise argparse.ArgumentTypeError(str(error)) from None


async def read_server_catalog(settings: Settings, destination: str) -> Catalog:
    """Return the server's present tables."""
    # Only here is a server asked.
    from app.operator.operations.schema.server_tables import read_first_source_catalog

    return await read_first_source_catalog(settings, destination)


def run(
    options: argparse.Namespace,
    read_by_name: ReadByName = from_journal,
    ask: Ask = read_server_catalog,
) -> int:
    """Print the impact of the statements; return the exit code."""
    settings = _settings(options)
    if settings is not None:
        settings = run_operation(with_mapping_in_force(settings, options.destination))
    catalog = _catalog(options, settings, read_by_name, ask)
    rules = Rules() if settings is None else Rules.of(settings, options.destination)
    session = Session(database=options.database, sql_mode=options.sql_mode)
    found = run_operation(judge(list(_given(options.statement)), catalog, session, rules=rules))
    print_answer(options.format, _value(found), _lines(found.statements))
    least = _FAIL_ON.get(options.fail_on)
    return BREAKS if least is not None and found.severity.rank >= least.rank else 0


def _settings(options: argparse.Namespace) -> Settings | None:
    """Return the settings; with a file, there need be none."""
    try:
        settings = load()
        check_destination(settings, options.destination)
    except (SettingsError, UsageError):
        if options.input is None:
            raise
        return None
    return settings


def _catalog(
    options: argparse.Namespace, settings: Settings | None, read_by_name: ReadByName, ask: Ask
) -> Catalog:
    """Return the tables by which the statements are judged."""
    if options.input is not None:
        return _from_file(options.input, options.database)
    if options.live and settings is not None:
        return run_operation(ask(settings, options.destination))
    return run_operation(history_catalog(partial(read_by_name, options.destination)))


def _from_file(path: Path, database: str | None) -> Catalog:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    found = file_catalog(text, database)
    for fault in found.skipped:
        sys.stderr.write(f"schema impact: {path}: ignored: {printed(fault.detail)}\n")
    return found.catalog


def _given(texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield from statements(sys.stdin.read() if text == "-" else text)


def _value(found: Judgement) -> dict[str, Any]:
    return {
        "severity": found.severity.value,
        "statements": [
            {
                "statement": one.sql,
                "type": one.type,
                "severity": severest(one.impacts).value,
                "effects": [each.to_json() for each in one.impacts],
            }
            for one in found.statements
        ],
    }


def _lines(found: Sequence[StatementImpact]) -> Iterator[str]:
    for number, one in enumerate(found):
        if len(found) > 1:
            yield from ([""] if number else [])
            yield f"-- {' '.join(one.sql.split())}"
        yield from as_text(one.impacts).splitlines()
