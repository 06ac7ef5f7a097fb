"""`python -m app schema quarantine`: quarantined tables, since when and why, and those given up."""

from __future__ import annotations

import argparse
import json
import sys

from app.operator import arguments
from app.operator.event_loop import run_operation
from app.operator.journal_access import Journal
from app.operator.operations.schema.quarantine import (
    QuarantineList,
    QuarantineStatus,
    list_quarantined,
)
from app.operator.output import given_value, print_answer, time_text
from app.settings.model import load
from tables.state.quarantine import Entry


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination."""
    arguments.add_destination(parser)
    arguments.add_format(parser)


def run(options: argparse.Namespace) -> int:
    """List them; 1 if a table waits, for scripts."""
    found = run_operation(list_quarantined(Journal.of(load(), options.destination)))
    if options.format == "json":
        entries = [_json(one.entry, one.waiting) for one in found.quarantined]
        entries += [_json(entry, 0) for entry in found.given_up]
        sys.stdout.write(json.dumps(entries) + "\n")
    else:
        print_answer("text", None, _text(options.destination, found))
    return 1 if found.quarantined else 0


def _text(destination: str, found: QuarantineList) -> list[str]:
    lines = [line for one in found.quarantined for line in _lines(one)]
    if not found.quarantined:
        lines.append(f"no table of {destination} is quarantined")
    lines += [f"{'.'.join(entry.name)}: {given_up_text(entry)}" for entry in found.given_up]
    return lines


def _lines(one: QuarantineStatus) -> list[str]:
    entry = one.entry
    lines = [
        f"{'.'.join(entry.name)}: {one.waiting} event(s) have waited since {entry.since}",
        f"  why: {entry.why}",
    ]
    if entry.reason:
        lines.append(f"  the last resolution was refused: {entry.reason}")
    return [*lines, f"  {entry.action}"]


def given_up_text(entry: Entry) -> str:
    """Return who gave a table up, and the events lost."""
    author = f" by {entry.given.by}, {time_text(entry.given.ts_ms)}" if entry.given else ""
    return f"given up{author}; {entry.lost} event(s) are lost, and later ones are dropped"


def _json(entry: Entry, waiting: int) -> dict[str, object]:
    return {
        "database": entry.name[0],
        "table": entry.name[1],
        "since": str(entry.since),
        "why": entry.why,
        "action": entry.action,
        "state": entry.outcome.value,
        "refused": entry.reason or None,
        "waiting": waiting,
        "given_up": given_value(entry.given),
        "lost": entry.lost,
    }
