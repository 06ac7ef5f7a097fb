"""`dead-letters`: a destination's undecodable rows, and why."""

from __future__ import annotations

import argparse
from typing import Any

from app.operator.arguments import add_destination, add_format
from app.operator.journal_access import Journal
from app.operator.terminal import print_answer, run_operation
from app.settings.model import load
from app.worker.pipeline.encode import dead_letter_fields
from connectors.kafka.reading import StoredRecord, read_each
from connectors.kafka.topics import Topics
from wire.text import utc


async def list_dead_letters(journal: Journal, *, start: int = 0) -> list[dict[str, Any]]:
    """Return the dead letters from an offset on, as ``dead_letter_fields`` reads them; empty without a topic.

    ``kind`` is ``row``, or ``event`` if the event's rows cannot be separated. ``row`` is the number of the row
    within the transaction. ``bytes`` are the event's bytes in hexadecimal digits, sealed if ``sealed`` names a
    key.
    """
    plan = journal.plan.topics.dead_letters(journal.plan.name)
    if not await Topics(journal.options).has(plan):
        return []
    found: list[dict[str, Any]] = []

    def take(record: StoredRecord) -> None:
        headers = dict(record.headers)
        found.append(dead_letter_fields(record.key, record.value, headers, record.offset))

    await read_each(journal.options, plan.name, 0, start=start, take=take)
    return found


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Take a destination."""
    add_destination(parser)
    add_format(parser)
    parser.add_argument(
        "--from-offset", type=int, default=0, metavar="N", help="omit those before this offset"
    )


def run_list(options: argparse.Namespace) -> int:
    """List the dead letters; return 1 if there are any, for scripts."""
    journal = Journal.of(load(), options.destination)
    found = run_operation(list_dead_letters(journal, start=options.from_offset))
    lines = [line for letter in found for line in _text(letter)]
    print_answer(options.format, found, lines or [f"no dead letters of {options.destination}"])
    return 1 if found else 0


def _text(letter: dict[str, Any]) -> list[str]:
    what = "row" if letter["kind"] == "row" else "rows event, from row"
    size = len(letter["bytes"]) // 2
    size_text = f"{size} bytes" + (
        f", sealed with key {letter['sealed']}" if letter["sealed"] else ""
    )
    position = f"{letter['file']}:{letter['pos']}"
    return [
        f"{letter['offset']}  {letter['database']}.{letter['table']}  {utc(letter['ts_ms'])}",
        f"  {what} {letter['row']} of {letter['gtid'] or 'a transaction'} at {position}, {size_text}",
        f"  why: {letter['reason']}",
    ]
