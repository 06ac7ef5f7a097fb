"""`python -m app dead-letters list`: a destination's undecodable rows, and why."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from app.operator.arguments import add_destination, add_format
from app.operator.event_loop import run_operation
from app.operator.journal_access import Journal
from app.operator.operations.dead_letters import StoredLetter, list_dead_letters
from app.operator.output import print_answer, time_text
from app.settings.model import load


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination."""
    add_destination(parser)
    add_format(parser)
    parser.add_argument(
        "--from-offset", type=int, default=0, metavar="N", help="omit those before this offset"
    )


def run(options: argparse.Namespace) -> int:
    """List them; 1 if there are any, for scripts."""
    journal = Journal.of(load(), options.destination)
    found = run_operation(list_dead_letters(journal, start=options.from_offset))
    lines = [line for letter in found for line in _text(letter)]
    value = [asdict(letter) for letter in found]
    print_answer(options.format, value, lines or [f"no dead letters of {options.destination}"])
    return 1 if found else 0


def _text(letter: StoredLetter) -> list[str]:
    what = "row" if letter.kind == "row" else "rows event, from row"
    size = len(letter.bytes) // 2
    size_text = f"{size} bytes" + (f", sealed with key {letter.sealed}" if letter.sealed else "")
    position = f"{letter.file}:{letter.pos}"
    return [
        f"{letter.offset}  {letter.database}.{letter.table}  {time_text(letter.ts_ms)}",
        f"  {what} {letter.row} of {letter.gtid or 'a transaction'} at {position}, {size_text}",
        f"  why: {letter.reason}",
    ]
