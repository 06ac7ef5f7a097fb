"""Results and offsets in one Kafka transaction, with a real broker."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.errors import RequestTimedOutError
from aiokafka.protocol.transaction import EndTxnRequest

from aqueduct_client import KafkaTransactions, Subscriber, subscribe_async
from aqueduct_client.errors import BrokersLost, BrokersRefused, StaleBatch
from aqueduct_client.kafka import kafka_log
from aqueduct_client.kafka_transactions import Outgoing
from aqueduct_client.records import Partition, Record
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.topics import TopicPlan, Topics
from devstack import Stack
from tests.unit.aqueduct_client.made import headers, seqs, value

PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class Copying:
    """A group that copies the numbers of a table's changes to another topic."""

    name: str
    brokers: str

    @property
    def results(self) -> str:
        return f"{self.name}.results"

    @property
    def options(self) -> dict[str, str]:
        return {"bootstrap_servers": self.brokers}

    async def publish(self, *seqs: int) -> None:
        producer = TransactionalProducer(f"{self.name}.w", options=self.options, compression=None)
        await producer.init_transactions()
        async with producer.transaction() as kafka:
            for seq in seqs:
                sent = await kafka.send(
                    f"{self.name}.trade.orders", key=None, value=value(seq),
                    partition=seq % PARTITIONS, headers=headers(seq),
                )  # fmt: skip
                await sent
        await producer.discard()

    @asynccontextmanager
    async def member(self) -> AsyncIterator[tuple[Subscriber, KafkaTransactions]]:
        subscriber = subscribe_async(
            "trade.orders", group=self.name, brokers=self.brokers, prefix=self.name,
            session_seconds=6,
        )  # fmt: skip
        transactions = KafkaTransactions(
            subscriber=subscriber, group=self.name, brokers=self.brokers
        )
        async with subscriber, transactions:
            yield subscriber, transactions

    async def copied(self) -> list[int]:
        """The records visible to read_committed consumers."""
        found, at = [], 0
        async with kafka_log(self.options) as log:
            while records := await log.read(Partition(self.results, 0), at):
                found += [int(raw.value or b"") for raw in records]
                at = records[-1].offset + 1
        return sorted(found)


@pytest.fixture
async def copying(stack: Stack) -> Copying:
    made = Copying(f"copy-{uuid.uuid4().hex[:8]}", stack.kafka)
    for topic, partitions in ((f"{made.name}.trade.orders", PARTITIONS), (made.results, 1)):
        plan = TopicPlan(
            name=topic, partitions=partitions, replication_factor=1, max_message_bytes=10**6
        )
        await Topics(made.options).ensure(plan)
    return made


@pytest.mark.remedy("client.StaleBatch")
async def test_results_appear_once_whatever_fails(copying: Copying) -> None:
    await copying.publish(1, 2, 3, 4)
    failing = True

    async def copy(records: list[Record], outgoing: Outgoing) -> None:
        nonlocal failing
        for record in records:
            await outgoing.send(copying.results, b"%d" % record.seq)
        if failing and records[0].seq % 2:  # one partition is committed, the other is not
            failing = False
            raise InterruptedError("planted")

    async with copying.member() as (subscriber, transactions):
        batch = await subscriber.get_without_ack(timeout=60)
        while len(batch) < 4:
            await subscriber.rollback()
            batch = await subscriber.get_without_ack(timeout=60)
        with pytest.raises(InterruptedError):
            await transactions.handle(batch, copy)
        with pytest.raises(StaleBatch, match="a Kafka transaction failed"):
            await transactions.handle(batch, copy)
        again = await subscriber.get_without_ack(timeout=60)
        await transactions.handle(again, copy)
        assert subscriber.in_flight == ()
    assert await copying.copied() == [1, 2, 3, 4]
    await copying.publish(5)
    async with copying.member() as (subscriber, transactions):
        (one,) = await subscriber.get_without_ack(timeout=60)
        assert one.seq == 5


async def test_a_client_that_was_replaced_cannot_commit(copying: Copying) -> None:
    await copying.publish(2)

    async def copy(records: list[Record], outgoing: Outgoing) -> None:
        for record in records:
            await outgoing.send(copying.results, b"%d" % record.seq)

    async def replaced(records: list[Record], outgoing: Outgoing) -> None:
        await copy(records, outgoing)
        # As after a freeze: another producer of the partition begins.
        other = KafkaTransactions(
            subscriber=transactions.subscriber, group=copying.name, brokers=copying.brokers
        )
        await other._take_over([Partition(f"{copying.name}.trade.orders", 0)])
        await other.__aexit__()

    async with copying.member() as (subscriber, transactions):
        batch = await subscriber.get_without_ack(timeout=60)
        with pytest.raises(StaleBatch, match="rebalanced"):
            await transactions.handle(batch, replaced)
        assert await copying.copied() == []
        with contextlib.suppress(StaleBatch):
            await transactions.handle(batch, copy)
        await transactions.handle(await subscriber.get_without_ack(timeout=60), copy)
    assert await copying.copied() == [2]


async def test_a_late_end_of_a_transaction_does_not_end_the_next_one(copying: Copying) -> None:
    """A request to end a transaction is delayed until another transaction is open (KAFKA-17754)."""
    await copying.publish(2)
    partition, held = Partition(f"{copying.name}.trade.orders", 0), list[Any]()

    async def copy(records: list[Record], outgoing: Outgoing) -> None:
        for record in records:
            await outgoing.send(copying.results, b"%d" % record.seq)

    async def interrupted(records: list[Record], outgoing: Outgoing) -> None:
        await copy(records, outgoing)
        await outgoing.arrived()
        await late(copying, f"{copying.name}.{partition.topic}.0", held)
        raise InterruptedError("planted")

    async with copying.member() as (subscriber, transactions):
        batch = await subscriber.get_without_ack(timeout=60)
        hold_first_end(transactions._producers[partition].client, held)
        with pytest.raises(BrokersLost, match="no answer to the end of a transaction"):
            await transactions.handle(batch, copy)
        again = await subscriber.get_without_ack(timeout=60)
        assert (seqs(again), len(held)) == ([2], 1), "it did not arrive, so nothing was committed"
        with pytest.raises(InterruptedError):
            await transactions.handle(again, interrupted)
        assert await copying.copied() == []
        await transactions.handle(await subscriber.get_without_ack(timeout=60), copy)
    assert await copying.copied() == [2]


def hold_first_end(client: Any, held: list[Any]) -> None:
    """Hold the first request of a producer to end a transaction, which gets no answer."""
    send = client.send

    async def sent(node: int, request: Any, **more: Any) -> Any:
        if isinstance(request, EndTxnRequest) and not held:
            held.append(request)
            raise RequestTimedOutError
        return await send(node, request, **more)

    client.send = sent


async def late(copying: Copying, transactional_id: str, held: list[Any]) -> None:
    """Let the held request arrive; it is refused if its producer was replaced."""
    client = AIOKafkaClient(**copying.options)
    await client.bootstrap()
    node = await client.coordinator_lookup(CoordinationType.TRANSACTION, transactional_id)
    await client.ready(node, group=ConnectionGroup.COORDINATION)
    await client.send(node, held[0], group=ConnectionGroup.COORDINATION)
    await client.close()


@pytest.mark.remedy("client.BrokersRefused")
async def test_a_refused_result_is_not_committed_with_the_offset(copying: Copying) -> None:
    await copying.publish(2)

    async def too_large(_records: list[Record], outgoing: Outgoing) -> None:
        await outgoing.send(copying.results, bytes(1_020_000))

    async with copying.member() as (subscriber, transactions):
        batch = await subscriber.get_without_ack(timeout=60)
        with pytest.raises(BrokersRefused, match="TooLarge"):
            await transactions.handle(batch, too_large)
        again = await subscriber.get_without_ack(timeout=60)
        assert len(again) == 1

        async def small(records: list[Record], outgoing: Outgoing) -> None:
            await outgoing.send(copying.results, b"%d" % records[0].seq)

        await transactions.handle(again, small)
    assert await copying.copied() == [2]
