"""The contract of the client's members and logs: the in-memory twin and a real broker."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest

from aqueduct_client.errors import StaleBatch
from aqueduct_client.kafka import KafkaGroup, kafka_log
from aqueduct_client.memory import MemoryKafka
from aqueduct_client.protocol import Consumer, JoinsGroup, OpensLog
from aqueduct_client.records import Partition, RawRecord
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.topics import TopicPlan, Topics
from devstack import Stack
from tests.harness.wait import TIMEOUT

Write = Callable[[int, Sequence[bytes | None]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Broker:
    """A topic of two partitions."""

    topic: str
    write: Write
    """Adds values to a partition, committed."""
    abort: Write
    joins: Callable[[str], JoinsGroup]
    logs: OpensLog

    def __getitem__(self, number: int) -> Partition:
        return Partition(self.topic, number)


def twin(topic: str) -> Broker:
    kafka = MemoryKafka()
    kafka.create(topic, 2)

    async def write(partition: int, values: Sequence[bytes | None]) -> None:
        for value in values:
            kafka.send(
                Partition(topic, partition), value, headers=[("tags", b"a,b")], ts_ms=_now_ms()
            )

    async def abort(partition: int, values: Sequence[bytes | None]) -> None:
        """The twin has committed records alone."""

    return Broker(topic, write, abort, lambda group: kafka.joins(group, [topic]), kafka.log)


async def real(topic: str, brokers: str) -> Broker:
    options = {"bootstrap_servers": brokers}
    plan = TopicPlan(name=topic, partitions=2, replication_factor=1, max_message_bytes=10**6)
    await Topics(options).ensure(plan)

    async def send(partition: int, values: Sequence[bytes | None], *, fail: bool) -> None:
        producer = TransactionalProducer(f"{topic}.w", options=options, compression=None)
        try:
            await producer.init_transactions()
            async with producer.transaction() as kafka:
                for value in values:
                    sent = await kafka.send(
                        topic, key=b"k", value=value, partition=partition,
                        headers=[("tags", b"a,b")],
                    )  # fmt: skip
                    await sent
                if fail:
                    raise InterruptedError
        except InterruptedError:
            pass
        finally:
            await producer.discard()

    def joins(group: str) -> JoinsGroup:
        return KafkaGroup(
            options=options, group=group, topics=frozenset({topic}), session_seconds=6
        )

    return Broker(
        topic, partial(send, fail=False), partial(send, fail=True), joins, partial(kafka_log, options)
    )  # fmt: skip


@pytest.fixture(params=["twin", "kafka"])
async def broker(request: pytest.FixtureRequest) -> Broker:
    topic = f"client-{uuid.uuid4().hex[:8]}"
    if request.param == "twin":
        return twin(topic)
    stack: Stack = request.getfixturevalue("stack")
    return await real(topic, stack.kafka)


class Assigned:
    """Each assignment of a member, in order."""

    def __init__(self) -> None:
        self.each: list[frozenset[Partition]] = []

    def __call__(self, partitions: frozenset[Partition]) -> None:
        self.each.append(partitions)

    async def until(self, count: int, consumer: Consumer) -> None:
        """Wait for so many partitions."""
        async with asyncio.timeout(TIMEOUT):
            while not self.each or len(self.each[-1]) != count:
                await consumer.poll(seconds=0.05, most=1)


async def polled(consumer: Consumer, count: int) -> list[tuple[int, int, bytes | None]]:
    """The given number of records, as partition, offset and value."""
    found: list[RawRecord] = []
    async with asyncio.timeout(TIMEOUT):
        while len(found) < count:
            found += await consumer.poll(seconds=0.2, most=count - len(found))
    return [(raw.partition.number, raw.offset, raw.value) for raw in found]


async def test_records_come_once_a_position_was_chosen_and_nothing_aborted_is_seen(
    broker: Broker,
) -> None:
    await broker.abort(0, [b"never"])
    await broker.write(0, [b"0", None, b"2"])
    assigned = Assigned()
    async with broker.joins(broker.topic)(assigned) as consumer:
        await assigned.until(2, consumer)
        assert set(assigned.each[-1]) == {broker[0], broker[1]}
        assert await consumer.committed(assigned.each[-1]) == {}
        assert await consumer.poll(seconds=0.3, most=10) == []
        await consumer.seek({broker[0]: 0, broker[1]: 0})
        found = await polled(consumer, 3)
        assert [value for _, _, value in found] == [b"0", None, b"2"]
        await consumer.seek({broker[0]: found[1][1]})
        (again,) = await consumer.poll(seconds=5, most=1)
        assert (again.offset, again.tags) == (found[1][1], frozenset("ab"))


async def test_the_next_member_begins_at_what_was_committed_alone(broker: Broker) -> None:
    await broker.write(0, [b"0", b"1", b"2"])
    assigned = Assigned()
    async with broker.joins(broker.topic)(assigned) as consumer:
        await assigned.until(2, consumer)
        await consumer.seek({broker[0]: 0, broker[1]: 0})
        found = await polled(consumer, 3)
        committed = {broker[0]: found[0][1] + 1, broker[1]: 0}
        await consumer.commit(committed)
    async with broker.joins(broker.topic)(Assigned()) as consumer:
        assert [value for _, _, value in await polled(consumer, 2)] == [b"1", b"2"]
        assert await consumer.committed(committed) == committed


async def test_a_poll_without_a_partition_leaves_its_records_to_a_later_one(broker: Broker) -> None:
    await broker.write(0, [b"0"])
    await broker.write(1, [b"1", b"2"])
    assigned = Assigned()
    async with broker.joins(broker.topic)(assigned) as consumer:
        await assigned.until(2, consumer)
        await consumer.seek({broker[0]: 0, broker[1]: 0})
        found: list[RawRecord] = []
        async with asyncio.timeout(TIMEOUT):
            while len(found) < 2:
                found += await consumer.poll(seconds=0.2, most=9, without=[broker[0]])
        assert [raw.value for raw in found] == [b"1", b"2"]
        assert await consumer.poll(seconds=0.3, most=9, without=[broker[0]]) == []
        assert await polled(consumer, 1) == [(0, 0, b"0")]


async def test_a_second_member_takes_a_share_and_the_first_cannot_commit_it(broker: Broker) -> None:
    one, other = Assigned(), Assigned()
    async with broker.joins(broker.topic)(one) as first:
        await one.until(2, first)
        async with broker.joins(broker.topic)(other) as second:
            await asyncio.gather(one.until(1, first), other.until(1, second))
            assert frozenset() in one.each, "it is notified when a rebalance begins"
            (lost,) = other.each[-1]
            with pytest.raises(StaleBatch):
                await first.commit({lost: 0})
            await second.commit({lost: 0})


async def test_a_log_that_nothing_is_read_of_ends_as_any_other(broker: Broker) -> None:
    async with broker.logs():
        pass


async def test_a_log_is_read_without_a_group(broker: Broker) -> None:
    await broker.write(1, [b"0", None])
    await asyncio.sleep(0.05)
    later = _now_ms()
    await asyncio.sleep(0.05)
    await broker.write(1, [None, b"3", b"4"])
    await broker.abort(1, [b"never"])
    async with broker.logs() as log:
        beginning, end = await log.bounds(broker[1])
        assert beginning == 0
        records, at = [], 0
        while found := await log.read(broker[1], at):
            records += found
            at = found[-1].offset + 1
        assert [raw.value for raw in records] == [b"0", b"3", b"4"]
        assert records[-1].offset < end
        written = await log.offset_at(broker[1], later)
        assert written is not None
        assert records[0].offset < written <= records[1].offset
        assert await log.offset_at(broker[1], later + 60_000) is None
        assert await log.bounds(broker[0]) == (0, 0)
        assert await log.read(broker[0], 0) == []


def _now_ms() -> int:
    return int(time.time() * 1000)
