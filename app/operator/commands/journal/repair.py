"""`python -m app journal repair`: repair a destination's unreadable records, or a merge's, or those of logical
schemas."""

from __future__ import annotations

import argparse
from typing import Any

from app.operator.arguments import add_destination, add_format
from app.operator.event_loop import run_operation
from app.operator.journal_access import journal_of
from app.operator.operations.journal.repair import RewrittenRecord, repair
from app.operator.output import print_answer
from app.operator.terminal import operator
from app.settings.model import load


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination and a reason."""
    parser.epilog = "DEST may be a merge, as merge.NAME, or logical.schemas."
    add_destination(parser)
    parser.add_argument("--why", required=True, help="reason; stored with the change")
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Repair them; 0 also if there is nothing to repair."""
    settings, name = load(), options.destination
    repairing = repair(
        journal_of(settings, name), worker=settings.worker.id, by=operator(), why=options.why
    )
    found = [_value(one) for one in run_operation(repairing)]
    lines = [f"offset {one['offset']}, key {one['key']}: {_done(one['as_at'])}" for one in found]
    if not found:
        last = "all records are readable"
    elif name in settings.destinations:
        last = f"next, run: python -m app destination restart {name}"
    else:
        last = "it continues by itself"
    print_answer(
        options.format, {"destination": name, "repaired": found}, [*lines, f"{name}: {last}"]
    )
    return 0


def _done(as_at: int | None) -> str:
    if as_at is None:
        return "removed, as there is no earlier record; see `python -m app shards show`, and decide again"
    return f"rewritten as at offset {as_at}"


def _value(one: RewrittenRecord) -> dict[str, Any]:
    key = one.key.decode("utf-8", "replace")
    return {"offset": one.offset, "key": key, "as_at": one.as_at}
