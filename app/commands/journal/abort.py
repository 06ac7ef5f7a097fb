"""`python -m app journal abort`: another producer's transaction that keeps a topic from being read is ended.

Invariant: only a transaction that is open in that partition is ended, and only the one that is named. Without
``--topic`` it is the destination's partition of the journal.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
from dataclasses import asdict
from typing import NamedTuple

from app.commands.arguments import add_destination, add_format
from app.commands.journal_access import Journal
from app.commands.output import answer
from connectors.errors import StateUnknown, UsageError
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading.open_transactions import OpenTransaction, open_transactions


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination, a partition and a transactional id."""
    add_destination(parser)
    parser.add_argument(
        "--transactional-id",
        metavar="ID",
        help="end the transaction of this one, whose producer is fenced; without it all are listed",
    )
    parser.add_argument("--topic", help="another topic than the journal")
    parser.add_argument(
        "--partition", type=int, metavar="N", help="of the topic; without both, the destination's"
    )
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """End or list them; 0 once it has ended, or where there is none."""
    asked = Journal.of(options.destination)
    where = _where(asked, options)
    found = asyncio.run(open_transactions(asked.options, where.topic, where.partition))
    if options.transactional_id is None:
        return _listed(asked, where, found, options.format)
    if options.transactional_id not in {one.transactional_id for one in found}:
        raise StateUnknown(
            "no transaction of that transactional id is open there",
            destination=asked.plan.name,
            topic=where.topic,
            partition=where.partition,
            remedy="It may have ended meanwhile. List those that are open: python -m app journal abort DEST "
            f"{where}.",
        )
    asyncio.run(_ended(asked, options.transactional_id))
    answer(
        options.format,
        {"destination": asked.plan.name, "aborted": options.transactional_id},
        [f"{asked.plan.name}: the transaction of {options.transactional_id!r} is aborted"],
    )
    return 0


class Where(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"--topic {shlex.quote(self.topic)} --partition {self.partition}"


def _where(asked: Journal, options: argparse.Namespace) -> Where:
    if (options.topic is None) != (options.partition is None):
        raise UsageError("give --topic and --partition together, or neither for the journal")
    if options.topic is None:
        return Where(asked.topic, asked.partition)
    return Where(options.topic, options.partition)


def _listed(asked: Journal, where: Where, found: list[OpenTransaction], form: str) -> int:
    name = asked.plan.name
    lines = []
    for one in found:
        command = one.ending(*where).replace("DEST", name)
        lines += [str(one), f"  end it: {command}"]
    if not found:
        lines.append(f"no transaction is open in partition {where.partition} of {where.topic}")
    value = {
        "destination": name,
        "topic": where.topic,
        "partition": where.partition,
        "open": [asdict(one) for one in found],
    }
    answer(form, value, lines)
    return 1 if found else 0


async def _ended(asked: Journal, transactional_id: str) -> None:
    """Take the transactional id over, which makes the broker abort what is open under it."""
    producer = TransactionalProducer(transactional_id, options=asked.options, compression=None)
    try:
        await producer.init_transactions()
    finally:
        await producer.discard()
