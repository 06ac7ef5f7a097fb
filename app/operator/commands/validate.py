"""`python -m app validate DEST [TABLE …]`: compare the source's present rows with the topics.

Invariant: read-only, unless a repair is asked for. Exit 0: all rows are equal; 1: some differ; 3: none differs
among those that were judged, but not all could be.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable

from app.operator.commands import arguments
from app.operator.commands.event_loop import run_operation
from app.operator.commands.operator import operator, report_unreachable
from app.operator.commands.output import print_answer
from app.operator.operations.journal_access import Journal
from app.operator.operations.mapping.in_force import with_mapping_in_force
from app.operator.operations.validation.repairing import repair
from app.operator.operations.validation.validation import (
    Report,
    Validation,
    ValidationRequest,
    validate,
)
from app.operator.validation.rows.table_result import TableResult
from app.settings.model import Settings, load
from connectors.errors import UsageError
from connectors.mysql.select.load_limits import LoadLimits
from wire.text import printed

INCOMPLETE = 3
_PROGRESS_SECONDS = 10.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what is compared, and how fast."""
    parser.epilog = (
        "Nothing is written. Exit code 0: all rows are equal; 1: some differ, or an error; 3: none "
        "differs among those that could be judged."
    )
    arguments.add_destination(parser)
    parser.add_argument(
        "tables",
        metavar="TABLE",
        nargs="*",
        type=arguments.parse_table,
        help="a real or logical table, as database.table; default: all captured tables",
    )
    parser.add_argument(
        "--sample",
        type=_count,
        metavar="N",
        help="compare N chunks of rows at random of each table; extra rows are not looked for",
    )
    parser.add_argument(
        "--watch",
        type=float,
        metavar="SECONDS",
        help="compare again, so many seconds after each result, until interrupted",
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="have the running worker publish rows that are missing or different again, and delete extra ones",
    )
    parser.add_argument(
        "--rows-per-second",
        type=_count,
        metavar="N",
        default=0,
        help="most rows that are read of the source in a second; default: no limit",
    )
    parser.add_argument(
        "--threads-running",
        type=_count,
        default=50,
        metavar="N",
        help="wait while more threads than these run at the source (default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=20,
        metavar="N",
        help="differences of a table that are listed; all are counted (default: %(default)s)",
    )
    arguments.add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Compare and print the result; return the exit code."""
    if options.watch is not None and not options.watch >= 0:
        raise UsageError("--watch must be a number of seconds")
    request = ValidationRequest(
        destination=options.destination,
        tables=tuple(options.tables),
        samples=options.sample,
        limits=LoadLimits(
            rows_per_second=options.rows_per_second, threads_running=options.threads_running
        ),
        most_listed=max(0, options.limit),
    )

    def show(found: Validation) -> None:
        print_answer(options.format, found.to_json(), found.lines())
        sys.stdout.flush()

    repaired_by = operator() if options.repair else None
    found = run_operation(_rounds(load(), request, show, options.watch, repaired_by))
    if found.differences:
        return 1
    return 0 if found.is_complete else INCOMPLETE


async def _rounds(
    settings: Settings,
    request: ValidationRequest,
    show: Callable[[Validation], None],
    pause: float | None,
    repaired_by: str | None,
) -> Validation:
    report = Report(unreachable=report_unreachable, progress=_Progress().show, busy=_Waits().show)
    while True:
        found = await validate(settings, request, report)
        show(found)
        if repaired_by is not None and found.differences:
            current = await with_mapping_in_force(settings, request.destination)
            journal = Journal.of(current, request.destination)
            for one in await repair(journal, found, report_unreachable, by=repaired_by):
                sys.stderr.write(f"{printed(one.line())}\n")
        if pause is None:
            return found
        await asyncio.sleep(pause)


class _Progress:
    """Reports the rows that were compared, at intervals."""

    def __init__(self) -> None:
        self._reported = time.monotonic()

    def show(self, result: TableResult) -> None:
        """Report the state of a table that is compared."""
        now = time.monotonic()
        if now - self._reported >= _PROGRESS_SECONDS:
            self._reported = now
            table = printed(".".join(result.name))
            sys.stderr.write(
                f"{table}: {result.rows} row(s) compared, {result.differences} difference(s)\n"
            )


class _Waits:
    """Reports why reading waits, once for each wait."""

    def __init__(self) -> None:
        self._is_waiting = False

    def show(self, reason: str | None) -> None:
        """Report that a wait begins; None: it has ended."""
        if reason is not None and not self._is_waiting:
            sys.stderr.write(f"reading waits: {printed(reason)}\n")
        self._is_waiting = reason is not None


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number
