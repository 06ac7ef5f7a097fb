"""`python -m app validate DEST [TABLE …]`: compare the source's present rows with the topics.

Invariant: read-only, unless a repair is asked for. Exit 0: all rows are equal; 1: some differ; 3: none differs
among those that were judged, but not all could be.
"""

from __future__ import annotations

import argparse
import sys
import time

from app.operator import arguments
from app.operator.event_loop import run_operation
from app.operator.journal_access import Journal
from app.operator.operations.mapping.in_force import with_mapping_in_force
from app.operator.operations.validation.repairing import repair
from app.operator.operations.validation.validation import (
    Report,
    Validation,
    ValidationRequest,
    validate,
)
from app.operator.output import print_answer
from app.operator.terminal import operator, report_unreachable
from app.operator.validation.rows.table_result import TableResult
from app.settings.model import Settings, load
from connectors.errors import UsageError, printed
from connectors.mysql.select.load_limits import LoadLimits

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

    settings, repaired_by = load(), operator() if options.repair else None
    report = Report(unreachable=report_unreachable, progress=_Progress().show, busy=_Waits().show)
    while True:
        found = run_operation(validate(settings, request, report))
        print_answer(options.format, found.to_json(), found.lines())
        sys.stdout.flush()
        if repaired_by is not None and found.differences:
            _repair(settings, found, repaired_by)
        if options.watch is None:
            break
        time.sleep(options.watch)
    if found.differences:
        return 1
    return 0 if found.is_complete else INCOMPLETE


def _repair(settings: Settings, found: Validation, by: str) -> None:
    current = run_operation(with_mapping_in_force(settings, found.destination))
    journal = Journal.of(current, found.destination)
    for one in run_operation(repair(journal, found, report_unreachable, by=by)):
        sys.stderr.write(f"{printed(one.line())}\n")


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
