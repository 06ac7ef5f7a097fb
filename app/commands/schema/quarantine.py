"""`python -m app schema quarantine`: tables that are set aside, since when and why, and those given up."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Mapping

from app.commands import arguments
from app.commands.journal_access import Journal
from app.commands.output import answer, given_value, when
from app.pipeline.gather.parked_event import key_of
from connectors.kafka.reading.partition_reader import read_each
from connectors.wire import quarantine_topic
from tables.quarantine import Entry

Name = tuple[str, str]


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination."""
    arguments.add_destination(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(options: argparse.Namespace) -> int:
    """Tell; 1 where a table waits, so that a script sees it."""
    asked = Journal.of(options.destination)
    quarantine = asked.state(whole_history=False).quarantine
    entries, given_up = quarantine.set_aside, sorted(quarantine.given_up.items())
    waiting = asyncio.run(_waiting(asked, entries)) if entries else {}
    if options.format == "json":
        told = [_json(entry, waiting[name]) for name, entry in sorted(entries.items())]
        told += [_json(entry, 0) for _, entry in given_up]
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        lines = [
            line for name, entry in sorted(entries.items()) for line in _lines(entry, waiting[name])
        ]
        if not entries:
            lines.append(f"no table of {options.destination} is set aside")
        lines += [f"{'.'.join(entry.name)}: {given_up_text(entry)}" for _, entry in given_up]
        answer("text", None, lines)
    return 1 if entries else 0


async def _waiting(asked: Journal, entries: Mapping[Name, Entry]) -> dict[Name, int]:
    """How many events wait for each."""
    keys = {key_of(name): name for name in entries}
    found: Counter[Name] = Counter()

    def count(record: object) -> None:
        key, offset = getattr(record, "key", b""), getattr(record, "offset", 0)
        name = keys.get(key)
        if name is not None and offset >= entries[name].offset:
            found[name] += 1

    topic = quarantine_topic(asked.settings.prefix, asked.plan.name)
    start = min(entry.offset for entry in entries.values())
    await read_each(asked.options, topic, 0, start=start, take=count)
    return {name: found[name] for name in entries}


def _lines(entry: Entry, waiting: int) -> list[str]:
    lines = [
        f"{'.'.join(entry.name)}: {waiting} event(s) wait since {entry.since}",
        f"  why: {entry.why}",
    ]
    if entry.reason:
        lines.append(f"  the last resolution was refused: {entry.reason}")
    return lines


def given_up_text(entry: Entry) -> str:
    """Of a table that was given up, who did that and what it came to."""
    who = f" by {entry.given.by}, {when(entry.given.ts_ms)}" if entry.given else ""
    return f"given up{who}; {entry.lost} event(s) are lost, and what comes of it is dropped"


def _json(entry: Entry, waiting: int) -> dict[str, object]:
    return {
        "database": entry.name[0],
        "table": entry.name[1],
        "since": str(entry.since),
        "why": entry.why,
        "state": entry.outcome.value,
        "refused": entry.reason or None,
        "waiting": waiting,
        "given_up": given_value(entry.given),
        "lost": entry.lost,
    }
