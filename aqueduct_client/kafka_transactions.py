"""Exactly once from Kafka to Kafka: the results of a batch and its offsets are one Kafka transaction.

Invariant: each partition has a producer of its own, whose id is the group's and the partition's, so that the
client that takes a partition over ends what the one before has begun, before it reads the group's offset. After
any failure nothing is assumed: the group is joined again, and its stored offsets decide what comes next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from aqueduct_client.batch import Batch
from aqueduct_client.errors import StaleBatch
from aqueduct_client.kafka import Options, translated
from aqueduct_client.records import Partition, Record
from aqueduct_client.subscriber import Subscriber


@dataclass(slots=True)
class Outgoing:
    """The results of one partition's records."""

    producer: Any
    _sent: list[Awaitable[object]] = field(default_factory=list)

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes | None = None,
        headers: Iterable[tuple[str, bytes]] = (),
    ) -> None:  # fmt: skip
        """Send a record; it is visible to readers of committed records once the batch is done."""
        with translated(topic=topic):
            sent = await self.producer.send(topic, value=value, key=key, headers=list(headers))
        # Else asyncio reports the errors of a transaction that has failed already.
        sent.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._sent.append(sent)

    async def arrived(self) -> None:
        """Wait for the answers: aiokafka commits a transaction even if a record was refused."""
        for sent in self._sent:
            await sent


Handles = Callable[[list[Record], Outgoing], Awaitable[object]]


@dataclass(slots=True, kw_only=True)
class KafkaTransactions:
    """The transactions of a subscriber. Use it within ``async with``, in the block of the subscriber."""

    subscriber: Subscriber
    group: str
    brokers: str
    kafka: Options = field(default_factory=dict)
    timeout_seconds: float = 15.0
    """After which Kafka ends a transaction of a client that is gone."""
    _producers: dict[Partition, Any] = field(default_factory=dict)

    async def __aenter__(self) -> KafkaTransactions:
        self.subscriber.before_positions = self._take_over
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._discard(list(self._producers))

    async def handle(self, batch: Batch, handles: Handles) -> None:
        """Have the records of each partition handled, and commit results and offsets together.

        If it raises, what was not committed is delivered again, and no result of it is visible.
        """
        if not batch.records:
            return
        offsets = self.subscriber.offsets_of(batch.id)
        try:
            for partition, end in offsets.items():
                records = [each for each in batch if each.raw.partition == partition]
                await self._commit(partition, records, end, handles)
        except BaseException:
            await self.subscriber.rejoin("a Kafka transaction failed")
            raise
        self.subscriber.acknowledged(batch.id)

    async def _commit(
        self, partition: Partition, records: list[Record], end: int, handles: Handles
    ) -> None:
        producer = self._producers.get(partition)
        if producer is None:
            raise StaleBatch("the group has rebalanced", topic=partition.topic)
        where = {"topic": partition.topic, "partition": partition.number}
        with translated(**where):
            await producer.begin_transaction()
        outgoing = Outgoing(producer)
        try:
            await handles(records, outgoing)
            with translated(**where):
                await outgoing.arrived()
                offsets = {TopicPartition(*partition): end}
                await producer.send_offsets_to_transaction(offsets, self.group)
        except BaseException:
            # aiokafka asserts its state: a producer that was replaced has nothing to abort.
            with contextlib.suppress(KafkaError, OSError, AssertionError):
                await producer.abort_transaction()
            raise
        with translated(**where):
            await producer.commit_transaction()

    async def _take_over(self, partitions: Collection[Partition]) -> None:
        """Begin as the only producer of these partitions, and of no others."""
        await self._discard(list(self._producers))
        for partition in sorted(partitions):
            producer = AIOKafkaProducer(
                bootstrap_servers=self.brokers,
                **self.kafka,
                transactional_id=f"{self.group}.{partition.topic}.{partition.number}",
                transaction_timeout_ms=int(self.timeout_seconds * 1000),
            )
            with translated(brokers=self.brokers):
                await producer.start()
            self._producers[partition] = producer

    async def _discard(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            producer = self._producers.pop(partition)
            try:
                async with asyncio.timeout(5):
                    await producer.stop()
            except (KafkaError, OSError, TimeoutError):
                continue
