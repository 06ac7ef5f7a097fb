"""Other producers' open transactions that keep a topic from being read: list them, end one.

Invariant: only the named transaction is ended, and only if it is open in that partition.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from connectors.errors import StateUnknown
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading.open_transactions import OpenTransaction, open_transactions
from tables.state.journal.state import JournalPartition


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"--topic {shlex.quote(self.topic)} --partition {self.partition}"


async def list_open(
    journal: JournalPartition, partition: TopicPartition
) -> tuple[OpenTransaction, ...]:
    """Return the transactions that are open in a partition."""
    return tuple(await open_transactions(journal.options, partition.topic, partition.partition))


async def end_transaction(
    journal: JournalPartition, partition: TopicPartition, transactional_id: str
) -> None:
    """Make the broker abort the transaction of a transactional id; raise StateUnknown if none is open."""
    if transactional_id not in {
        one.transactional_id for one in await list_open(journal, partition)
    }:
        raise StateUnknown(
            "no transaction of this transactional id is open in the partition",
            destination=journal.destination,
            topic=partition.topic,
            partition=partition.partition,
            remedy="It may have ended meanwhile. To list the open ones, run python -m app journal abort DEST "
            f"{partition}.",
        )
    producer = TransactionalProducer(transactional_id, options=journal.options, compression=None)
    try:
        # Taking the transactional id over ends the transaction that is open under it.
        await producer.init_transactions()
    finally:
        await producer.discard()
