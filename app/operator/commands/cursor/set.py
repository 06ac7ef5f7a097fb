"""`python -m app cursor set`: set the position from which a destination resumes.

Invariant: only after its cost is shown and confirmed.
"""

from __future__ import annotations

import argparse

from app.operator.commands.arguments import add_destination, add_gtid_or_file
from app.operator.commands.cursor.confirmation import add_reason
from app.operator.commands.cursor.move import confirm_and_move
from app.operator.commands.event_loop import run_operation
from app.operator.commands.operator import operator, report_unreachable
from app.operator.operations.cursor.set import plan_set
from app.operator.operations.journal_access import Journal
from app.settings.model import load
from app.settings.start_position import milliseconds
from connectors.errors import UsageError
from connectors.mysql.lookup.start import (
    FIRST_EVENT,
    AfterGtids,
    AtCoordinates,
    AtTime,
    Earliest,
    Latest,
    Start,
)
from connectors.mysql.position import Coordinates, parse_gtids


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a position and a reason."""
    parser.epilog = (
        "The leader is fenced and continues from there by itself, also after FAILED. Changes between the old "
        "position and the new one are lost to subscribers (forward: reload their tables) or repeated (back)."
    )
    add_destination(parser)
    add_gtid_or_file(
        parser,
        metavar="SET",
        gtid="after these transactions",
        file="a binlog file; without --pos, its beginning",
        pos="position in the file at which a transaction begins",
    )
    parser.add_argument(
        "--server", metavar="UUID",
        help="server_uuid of the file's server; default: the cursor's, or without a cursor the first source's",
    )  # fmt: skip
    parser.add_argument(
        "--time", metavar="T", type=_time,
        help="the first transaction committed then or later: ISO 8601 with a zone, or milliseconds since 1970",
    )  # fmt: skip
    parser.add_argument(
        "--earliest", action="store_true", help="the oldest change that the server still has"
    )
    parser.add_argument("--latest", action="store_true", help="the end of the binlog")
    parser.add_argument(
        "--with-snapshot",
        action="store_true",
        help="with --latest: publish all rows of all captured tables again, in place of those that subscribers "
        "have, so that no change that is passed by is lost",
    )
    add_reason(parser)


def run(options: argparse.Namespace) -> int:
    """Set it; 0 once it is in the journal."""
    journal, start = Journal.of(load(), options.destination), start_of(options)
    if options.with_snapshot and not options.latest:
        raise UsageError(
            "--with-snapshot goes with --latest: existing rows are read beside new changes"
        )
    by = operator() if options.with_snapshot else None
    move = run_operation(
        plan_set(journal, start, report_unreachable, server=options.server, replacing_by=by)
    )
    return confirm_and_move(options, move)


def start_of(options: argparse.Namespace) -> Start:
    """Return the position of the options; raise UsageError for none or more than one."""
    file, pos, ts_ms = options.file, options.pos, options.time
    kinds = [options.gtid, file or ts_ms, options.earliest, options.latest]
    if sum(map(bool, kinds)) != 1 or (pos is not None and (file is None or ts_ms is not None)):
        raise UsageError(
            "give one of: --gtid SET, --file FILE [--pos N], [--file FILE] --time T, --earliest, --latest"
        )
    if options.server is not None and file is None:
        raise UsageError("--server names the server of --file; give --file too")
    if options.gtid:
        try:
            return AfterGtids(parse_gtids(options.gtid))
        except ValueError as error:
            raise UsageError(str(error)) from None
    if ts_ms is not None:
        return AtTime(ts_ms, file)
    if file is not None:
        return AtCoordinates(Coordinates(file, pos or FIRST_EVENT))
    return Earliest() if options.earliest else Latest()


def _time(text: str) -> int:
    try:
        return milliseconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
