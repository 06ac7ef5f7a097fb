"""Exactly once from Kafka to Kafka: the results of a batch and its offsets are one Kafka transaction.

Invariant: each partition has its own producer, whose transactional id consists of the group and the partition.
So a client that takes over a partition ends the previous client's transaction before it reads the group's
offset. After any failure nothing is assumed: the client joins the group again, and the stored offsets decide
what comes next. aiokafka repeats an EndTxn without an answer, which by then may end the next transaction
(KAFKA-17754). Here the first EndTxn without an answer is an error, and the producer is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.client import CoordinationType
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError
from aiokafka.producer.sender import EndTxnHandler

from aqueduct_client.errors import BrokersLost, StaleBatch
from aqueduct_client.in_flight import Batch
from aqueduct_client.kafka import Options, translated
from aqueduct_client.records import Partition, Record
from aqueduct_client.subscriber import Subscriber


class _EndTxnOnce(EndTxnHandler):  # type: ignore[misc]
    """Ends a transaction with a single request; without an answer the producer has failed."""

    async def do(self, node_id: int) -> bool:
        manager = self._sender._txn_manager
        try:
            answer = await self._sender.client.send(
                node_id, self.create_request(), group=self.group
            )
        except IncompatibleBrokerVersion:
            raise
        except KafkaError as error:
            manager.fatal_error(
                BrokersLost(
                    f"no answer to the end of a transaction ({error!r}); the group's offset shows its outcome"
                )
            )
            return True
        backoff = self.handle_response(answer)
        if backoff is not None:
            await asyncio.sleep(backoff)
        return backoff is None


def _end_once(producer: AIOKafkaProducer) -> None:
    """Let a producer end transactions as aiokafka's sender does, but with a single request."""
    sender = producer._sender

    async def end(commit_result: Any) -> None:
        await sender._message_accumulator.flush_for_commit()
        manager = sender._txn_manager
        if manager.is_empty_transaction():
            manager.complete_transaction()
            return
        node = await sender._find_coordinator(
            CoordinationType.TRANSACTION, manager.transactional_id
        )
        await _EndTxnOnce(sender, commit_result).do(node)

    sender._do_txn_commit = end


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
        with translated("Write", topic=topic):
            sent = await self.producer.send(topic, value=value, key=key, headers=list(headers))
        # Otherwise asyncio reports the errors of a transaction that has already failed.
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
    """Seconds after which Kafka ends a transaction of a client that is gone."""
    _producers: dict[Partition, Any] = field(default_factory=dict)

    async def __aenter__(self) -> KafkaTransactions:
        self.subscriber.before_positions = self._take_over
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._discard(list(self._producers))

    async def handle(self, batch: Batch, handles: Handles) -> None:
        """Call ``handles`` with the records of each partition, and commit its results and the offset together.

        If it raises, records that were not committed are delivered again, and their results are not visible.
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
        with translated("Write", **where):
            await producer.begin_transaction()
        outgoing = Outgoing(producer)
        try:
            await handles(records, outgoing)
            with translated("Write", **where):
                await outgoing.arrived()
                offsets = {TopicPartition(*partition): end}
                await producer.send_offsets_to_transaction(offsets, self.group)
        except BaseException:
            # aiokafka asserts its state: a producer that was replaced has nothing to abort.
            with contextlib.suppress(KafkaError, BrokersLost, OSError, AssertionError):
                await producer.abort_transaction()
            raise
        with translated("Write", **where):
            await producer.commit_transaction()

    async def _take_over(self, partitions: Collection[Partition]) -> None:
        """Replace all producers by one for each of these partitions, which fences its predecessor."""
        await self._discard(list(self._producers))
        for partition in sorted(partitions):
            # Well below the transaction's timeout, so that a request without an answer ends first.
            options = {"request_timeout_ms": int(self.timeout_seconds * 667), **self.kafka}
            own = f"{self.group}.{partition.topic}.{partition.number}"
            producer = AIOKafkaProducer(
                bootstrap_servers=self.brokers,
                **options,
                transactional_id=own,
                transaction_timeout_ms=int(self.timeout_seconds * 1000),
            )
            _end_once(producer)
            # Before it starts, so that a producer that is denied is closed too.
            self._producers[partition] = producer
            with translated("Write", brokers=self.brokers, transactional_id=own):
                await producer.start()

    async def _discard(self, partitions: Iterable[Partition]) -> None:
        """Close producers within seconds, without sending anything more."""
        for partition in partitions:
            producer = self._producers.pop(partition)
            producer._closed = True
            if (task := producer._sender.sender_task) is not None:
                task.cancel()
                await asyncio.wait([task], timeout=2)
            with contextlib.suppress(KafkaError, OSError, TimeoutError):
                async with asyncio.timeout(5):
                    await producer.client.close()
