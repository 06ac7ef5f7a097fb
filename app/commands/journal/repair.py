"""`python -m app journal repair`: repair a destination's unreadable records."""

from __future__ import annotations

import argparse
from typing import Any

from app.commands.arguments import add_destination, add_format
from app.commands.event_loop import run_operation
from app.commands.operator import operator
from app.commands.output import print_answer
from app.operations.journal.repair import RewrittenRecord, repair
from app.operations.journal_access import Journal
from app.settings.model import load


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination and a reason."""
    add_destination(parser)
    parser.add_argument("--why", required=True, help="reason; stored with the change")
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Repair them; 0 also if there is nothing to repair."""
    journal, name = Journal.of(load(), options.destination), options.destination
    found = [_value(one) for one in run_operation(repair(journal, by=operator(), why=options.why))]
    lines = [
        f"offset {one['offset']}, key {one['key']}: rewritten as at offset {one['as_at']}"
        for one in found
    ]
    last = (
        f"next, run: python -m app destination restart {name}"
        if found
        else "all records are readable"
    )
    print_answer(
        options.format, {"destination": name, "repaired": found}, [*lines, f"{name}: {last}"]
    )
    return 0


def _value(one: RewrittenRecord) -> dict[str, Any]:
    key = one.key.decode("utf-8", "replace")
    return {"offset": one.offset, "key": key, "as_at": one.as_at}
