"""`python -m app schema resolve`: give a quarantined table's definition, so that it is released.

Invariant: rows are given up only if requested twice.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from app.operator.commands import arguments
from app.operator.commands.event_loop import run_operation
from app.operator.commands.operator import operator, report_unreachable
from app.operator.commands.output import print_answer
from app.operator.commands.waiting import UNCONFIRMED, add_waiting, done_text, seconds_of
from app.operator.operations.journal_access import Journal
from app.operator.operations.mapping.in_force import with_mapping_in_force
from app.operator.operations.schema.resolve import (
    Altered,
    AsInBinlog,
    AsOnServer,
    AsQuarantined,
    Created,
    Definition,
    GivenUp,
    ResolutionOutcome,
    find_waiting_table,
    resolve,
)
from app.settings.model import load
from connectors.errors import UsageError
from wire.text import printed


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a table, and the source of its definition."""
    parser.epilog = (
        "The definition is that of the first waiting row; waiting statements after it take effect at their "
        "positions. The worker tries the definition by itself; `schema quarantine` also shows the outcome."
    )
    arguments.add_destination(parser)
    arguments.add_table(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--server", action="store_true", help="the server's present definition")
    source.add_argument(
        "--binlog", action="store_true",
        help="the definition in the binlog with each row; requires binlog_row_metadata=FULL",
    )  # fmt: skip
    source.add_argument(
        "--again", action="store_true",
        help="the definition that the table had then, where the cause was not in its rows, and is gone: its "
        "topic, the schema registry, a rule of the mapping",
    )  # fmt: skip
    source.add_argument(
        "--definition", type=Path, metavar="FILE.sql", help="a CREATE TABLE statement"
    )
    source.add_argument(
        "--statement", metavar="SQL",
        help="an ALTER TABLE, applied to the definition in the history before the quarantine",
    )  # fmt: skip
    source.add_argument(
        "--give-up", action="store_true",
        help="drop the waiting events, and later ones until the table is recreated or resolved",
    )  # fmt: skip
    parser.add_argument(
        "--yes-lose-rows", action="store_true", help="with --give-up: confirm the loss"
    )
    arguments.add_format(parser)
    add_waiting(parser)


def _name_of(options: argparse.Namespace) -> str:
    """Return the table's name as text."""
    return ".".join(options.table)


def run(options: argparse.Namespace) -> int:
    """Request it; 0 once it is applied, 1 if it was refused or not applied in time, 2 if rows would
    be lost without confirmation."""
    if options.give_up and not options.yes_lose_rows:
        sys.stderr.write(
            f"The waiting events of {printed(_name_of(options))} and later ones would be lost to subscribers. "
            "To confirm, add --yes-lose-rows.\n"
        )
        return 2
    settings = run_operation(with_mapping_in_force(load(), options.destination))
    journal = Journal.of(settings, options.destination)
    waiting = run_operation(find_waiting_table(journal, options.table, gives_up=options.give_up))
    wait, definition = seconds_of(options), _definition(options)
    found = run_operation(
        resolve(waiting, definition, report_unreachable, by=operator(), wait=wait)
    )
    code, text = (0, UNCONFIRMED) if found.tried is None else _outcome(found.tried)
    if options.format == "json":
        value = {"table": _name_of(options), "resolution": found.resolution.id, "message": text}
        sys.stdout.write(json.dumps(value) + "\n")
    else:
        print_answer("text", None, [f"{_name_of(options)}: {text}"])
    return code


def _definition(options: argparse.Namespace) -> Definition:
    """Return the definition of the options."""
    if options.give_up:
        return GivenUp()
    if options.server:
        return AsOnServer()
    if options.binlog:
        return AsInBinlog()
    if options.again:
        return AsQuarantined()
    if options.statement:
        return Altered(sql=options.statement)
    try:
        return Created(sql=options.definition.read_text("utf-8"))
    except OSError as fault:
        raise UsageError(f"{options.definition}: {fault.strerror}") from None


def _outcome(tried: ResolutionOutcome) -> tuple[int, str]:
    """Return the exit code, and the outcome as text."""
    entry = tried.entry
    if entry.is_given_up:
        return 0, (
            f"is given up; {entry.lost} waiting event(s) are lost, and later ones are dropped until the table "
            "is recreated or resolved"
        )
    if entry.is_quarantined:
        return 1, f"refused, it stays quarantined: {entry.reason}"
    return (
        0,
        f"is released; all waiting events are published{done_text(tried.worker, tried.seconds)}",
    )
