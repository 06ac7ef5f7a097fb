"""The open transactions of a partition, which keep all later records from being read.

Invariant: nothing is written. Transactions that the brokers do not report, or not to this account,
are omitted.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from connectors.errors import TransactionOpen
from connectors.kafka.protocol_requests import producers, transactions

log = logging.getLogger(__name__)

_ANSWER_SECONDS = 5.0
"""Seconds for the brokers to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that is neither committed nor aborted."""

    producer_id: int
    transactional_id: str | None
    """None if no broker reports that it coordinates the transaction. If indeed no broker does, the transaction
    hangs, and no time-out ends it."""
    offset: int
    """The offset of its first record in the partition."""
    written_ms: int
    """The time of its producer's last write to the partition, in milliseconds since 1970."""

    def __str__(self) -> str:
        owner = (
            f"transactional id {self.transactional_id!r}"
            if self.transactional_id is not None
            else "no transactional id that a broker knows"
        )
        at = datetime.fromtimestamp(self.written_ms / 1000, UTC).isoformat(timespec="seconds")
        return f"{owner}, producer {self.producer_id}, from offset {self.offset}, last written {at}"

    def ending(self, topic: str, partition: int) -> str:
        """Return the command that ends the transaction."""
        partition_options = f"--topic {shlex.quote(topic)} --partition {partition}"
        if self.transactional_id is None:
            # Brokers omit ids that the account may not describe (KIP-664), of transactions that are alive.
            tool = "kafka-transactions.sh --bootstrap-server SERVER"
            return (
                f"if `{tool} find-hanging {partition_options}` lists it to an account that may describe all "
                f"transactional ids: {tool} abort {partition_options} --start-offset {self.offset}"
            )
        owner = shlex.quote(self.transactional_id)
        return f"python -m app journal abort DEST {partition_options} --transactional-id {owner}"


def held_up(found: Sequence[OpenTransaction], topic: str, partition: int) -> TransactionOpen:
    """Return an error that names these open transactions of a partition, each with the command that ends it."""
    commands = "; ".join(one.ending(topic, partition) for one in found)
    return TransactionOpen(
        "; ".join(map(str, found)),
        topic=topic,
        partition=partition,
        remedy="Aqueduct tries again by itself until it ends. Find who writes to the topic; or end it: "
        f"{commands}.",
    )


async def open_transactions(
    options: Mapping[str, Any], topic: str, partition: int
) -> list[OpenTransaction]:
    """Return a partition's open transactions, the oldest first; empty if the brokers do not report them."""
    client = AIOKafkaClient(**options)
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await client.bootstrap()
            return await _open_in(client, topic, partition)
    except (KafkaError, OSError, TimeoutError, ValueError) as error:
        log.debug("open transactions are not known", exc_info=error)
        return []
    finally:
        await client.close()


async def refuse_open(
    options: Mapping[str, Any], topic: str, partition: int, *, position: int
) -> None:
    """Raise TransactionOpen if a transaction that began at or before a position is still open."""
    found = await open_transactions(options, topic, partition)
    if held := [one for one in found if one.offset <= position]:
        raise held_up(held, topic, partition)


async def _open_in(client: AIOKafkaClient, topic: str, partition: int) -> list[OpenTransaction]:
    cluster = await client.fetch_all_metadata()
    client.cluster = cluster
    parts = cluster._partitions.get(topic, {}).values()
    leader = next((one.leader for one in parts if one.partition == partition), None)
    if leader is None:
        return []
    answer = await client.send(leader, producers(topic, partition))
    active = [
        one
        for _topic, partitions, _ in answer.topics
        for _number, error, _text, found, _ in partitions
        if not error
        for one in found
        if one[5] >= 0
    ]
    ids: dict[int, str] = {}
    for broker in cluster.brokers():
        described = await client.send(broker.nodeId, transactions([one[0] for one in active]))
        ids.update({producer: name for name, producer, *_ in described.transaction_states})
    found = [
        OpenTransaction(
            producer_id=one[0], transactional_id=ids.get(one[0]), offset=one[5], written_ms=one[3]
        )
        for one in active
    ]
    return sorted(found, key=lambda one: one.offset)
