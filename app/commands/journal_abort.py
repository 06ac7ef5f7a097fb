"""`python -m app journal abort`: another producer's transaction that holds the journal up is ended.

Invariant: only a transaction that is open in the destination's partition is ended, and only the one that is
named.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict

from app.commands.arguments import add_destination, add_format
from app.commands.journal import Journal
from app.commands.report import answer
from connectors.errors import StateUnknown
from connectors.kafka.open_transactions import OpenTransaction, open_transactions
from connectors.kafka.producer import TransactionalProducer


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination and a transactional id."""
    add_destination(parser)
    parser.add_argument(
        "--transactional-id",
        metavar="ID",
        help="end the transaction of this one, whose producer is fenced; without it all are listed",
    )
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """End or list them; 0 once it has ended, or where there is none."""
    asked = Journal.of(options.destination)
    found = asyncio.run(open_transactions(asked.options, asked.topic, asked.partition))
    if options.transactional_id is None:
        return _listed(asked, found, options.format)
    if options.transactional_id not in {one.transactional_id for one in found}:
        raise StateUnknown(
            "no transaction of that transactional id is open there",
            destination=asked.plan.name,
            topic=asked.topic,
            partition=asked.partition,
            remedy="List them: python -m app journal abort DEST.",
        )
    asyncio.run(_ended(asked, options.transactional_id))
    answer(
        options.format,
        {"destination": asked.plan.name, "aborted": options.transactional_id},
        [f"{asked.plan.name}: the transaction of {options.transactional_id!r} is aborted"],
    )
    return 0


def _listed(asked: Journal, found: list[OpenTransaction], form: str) -> int:
    lines = []
    for one in found:
        lines.append(str(one))
        if one.transactional_id is None:
            lines.append(
                "  it hangs; end it: kafka-transactions.sh --bootstrap-server SERVER abort "
                f"--topic {asked.topic} --partition {asked.partition} --start-offset {one.offset}"
            )
    if not found:
        lines.append(f"no transaction is open in partition {asked.partition} of {asked.topic}")
    value = {
        "destination": asked.plan.name,
        "topic": asked.topic,
        "partition": asked.partition,
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
