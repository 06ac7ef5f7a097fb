"""`python -m app mapping try`: what a new mapping would publish differently, before it is in force.

Invariant: read-only, beside a running worker. Exit 0: no record would be different; 3: some would; 1: an error,
also if tables could not be compared.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from app.operator.commands.arguments import add_format, parse_position
from app.operator.commands.event_loop import run_operation
from app.operator.commands.mapping.trial_report import trial_lines, trial_value
from app.operator.commands.operator import report_unreachable
from app.operator.commands.output import print_answer
from app.operator.operations.mapping.trial.start import (
    AtCursor,
    LastMinutes,
    LastTransactions,
    TrialStart,
)
from app.operator.operations.mapping.trial.trial import Trial, TrialRequest, try_mapping
from app.settings.model import load
from connectors.errors import UsageError
from connectors.mysql.lookup.start import AfterGtids, AtCoordinates, AtTime, Latest
from connectors.mysql.position import Coordinates, parse_gtids
from wire.text import printed

DIFFERENT = 3
_CURSOR = "cursor"
_DEFAULT_LAST = 1000
_LAST = re.compile(r"(\d+)(m?)")
_MOST_LAST = 1_000_000
_MOST_SECONDS = 86_400


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the mapping, the destination, and what is read."""
    parser.epilog = (
        "Nothing is written or switched. Exit code 0: no record would be different; 3: some would; 1: an "
        "error, also if a table could not be compared."
    )
    parser.add_argument(
        "mapping", type=Path, metavar="FILE", help="YAML, or a folder of the four JSON documents"
    )
    parser.add_argument(
        "--destination", metavar="DEST", help="default: the only one of the settings"
    )
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--from",
        metavar="POSITION",
        type=_from,
        help=f"begin here: `{_CURSOR}`, which is the destination's own position, file:pos, or a time",
    )
    start.add_argument("--gtid", metavar="SET", type=_gtids, help="begin after these transactions")
    start.add_argument(
        "--last",
        metavar="N",
        type=_last,
        help="begin with the last N transactions, or as 30m with those of the last 30 minutes; "
        f"default: {_DEFAULT_LAST}, and with --seconds at the end of the binlog",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help=f"follow the binlog for S seconds, at most {_MOST_SECONDS}; default: read to its present end",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=3,
        metavar="N",
        help="samples of each kind of difference in a table (default: %(default)s)",
    )
    add_format(parser)
    parser.add_argument(
        "--json", dest="format", action="store_const", const="json", help="same as --format json"
    )


def run(options: argparse.Namespace) -> int:
    """Make the trial and print its result."""
    # Of NaN no comparison is true.
    if options.seconds is not None and not 0 < options.seconds <= _MOST_SECONDS:
        raise UsageError(f"--seconds must be above 0 and at most {_MOST_SECONDS}, a day")
    request = TrialRequest(
        mapping=options.mapping,
        destination=options.destination,
        start=_start(options),
        seconds=options.seconds,
        samples=max(0, options.samples),
    )
    found = run_operation(try_mapping(load(), request, report_unreachable))
    print_answer(options.format, trial_value(found), trial_lines(found))
    return _exit_code(found)


def _exit_code(found: Trial) -> int:
    for name, why in found.not_compared.items():
        table = printed(".".join(name))
        sys.stderr.write(f"{table} could not be compared: {printed(why)}\n")
    if found.not_compared:
        return 1
    return DIFFERENT if found.totals.differ else 0


def _start(options: argparse.Namespace) -> TrialStart:
    chosen: TrialStart | None = getattr(options, "from") or options.gtid or options.last
    if chosen is not None:
        return chosen
    return LastTransactions(_DEFAULT_LAST) if options.seconds is None else Latest()


def _from(text: str) -> TrialStart:
    if text.strip() == _CURSOR:
        return AtCursor()
    match parse_position(text).value:
        case Coordinates() as coordinates:
            return AtCoordinates(coordinates)
        case int() as ts_ms:
            return AtTime(ts_ms)
    raise argparse.ArgumentTypeError(
        f"{text!r} is not `{_CURSOR}`, file:pos or a time; give GTIDs by --gtid"
    )


def _gtids(text: str) -> TrialStart:
    try:
        return AfterGtids(parse_gtids(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _last(text: str) -> TrialStart:
    found = _LAST.fullmatch(text.strip())
    if found is None or not 0 < int(found[1]) <= _MOST_LAST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number of transactions up to {_MOST_LAST} nor minutes such as 30m"
        )
    number = int(found[1])
    return LastMinutes(number) if found[2] else LastTransactions(number)
