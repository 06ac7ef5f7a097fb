"""`python -m app journal abort`: another producer's transaction that holds the journal up is ended.

Invariant: only a transaction that is open in the destination's partition is ended, and only the one that is
named.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from app.commands.arguments import add_destination
from app.commands.journal import Journal
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


def run(options: argparse.Namespace) -> int:
    """End or list them; 0 once it has ended, or where there is none."""
    asked = Journal.of(options.destination)
    found = asyncio.run(open_transactions(asked.options, asked.topic, asked.partition))
    if options.transactional_id is None:
        return _listed(asked, found)
    if options.transactional_id not in {one.transactional_id for one in found}:
        raise StateUnknown(
            "no transaction of that transactional id is open there",
            destination=asked.plan.name,
            topic=asked.topic,
            partition=asked.partition,
            remedy="List them: python -m app journal abort DEST.",
        )
    asyncio.run(_ended(asked, options.transactional_id))
    sys.stdout.write(
        f"{asked.plan.name}: the transaction of {options.transactional_id!r} is aborted\n"
    )
    return 0


def _listed(asked: Journal, found: list[OpenTransaction]) -> int:
    place = f"partition {asked.partition} of {asked.topic}"
    for one in found:
        sys.stdout.write(f"{one}\n")
        if one.transactional_id is None:
            sys.stdout.write(
                "  it hangs; end it: kafka-transactions.sh --bootstrap-server SERVER abort "
                f"--topic {asked.topic} --partition {asked.partition} --start-offset {one.offset}\n"
            )
    if not found:
        sys.stdout.write(f"no transaction is open in {place}\n")
    return 1 if found else 0


async def _ended(asked: Journal, transactional_id: str) -> None:
    """Take the transactional id over, which makes the broker abort what is open under it."""
    producer = TransactionalProducer(transactional_id, options=asked.options, compression=None)
    try:
        await producer.init_transactions()
    finally:
        await producer.discard()
