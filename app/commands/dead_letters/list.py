"""`python -m app dead-letters list`: the rows of a destination that could not be decoded, and why."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from app.commands.arguments import add_destination, add_format
from app.commands.journal_access import Journal
from app.commands.output import answer, when
from app.pipeline.encode.dead_letter import told_of_dead
from connectors.kafka.reading.partition_reader import StoredRecord, read_each
from connectors.kafka.topics.topics import Topics


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination."""
    add_destination(parser)
    add_format(parser)
    parser.add_argument(
        "--from-offset", type=int, default=0, metavar="N", help="leave out those before this one"
    )


def run(options: argparse.Namespace) -> int:
    """List them; 1 where there is any, so that a script sees it."""
    found = asyncio.run(_read(Journal.of(options.destination), options.from_offset))
    lines = [line for letter in found for line in _text(letter)]
    answer(options.format, found, lines or [f"no dead letters of {options.destination}"])
    return 1 if found else 0


async def _read(asked: Journal, start: int) -> list[dict[str, Any]]:
    plan = asked.plan.topics.dead_letters(asked.plan.name)
    if not await Topics(asked.options).has(plan):
        return []
    found: list[dict[str, Any]] = []

    def take(record: StoredRecord) -> None:
        headers = dict(record.headers)
        found.append(told_of_dead(record.key, record.value, headers, record.offset))

    await read_each(asked.options, plan.name, 0, start=start, take=take)
    return found


def _text(letter: dict[str, Any]) -> list[str]:
    what = "row" if letter["kind"] == "row" else "rows event, from row"
    size = len(letter["bytes"]) // 2
    place = f"{letter['file']}:{letter['pos']}"
    return [
        f"{letter['offset']}  {letter['database']}.{letter['table']}  {when(letter['ts_ms'])}",
        f"  {what} {letter['row']} of {letter['gtid'] or 'a transaction'} at {place}, {size} bytes",
        f"  why: {letter['reason']}",
    ]
