"""The offsets that the benchmark's clock reads are those visible to a read_committed consumer."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from bench import contents
from bench.peers.aqueduct import Aqueduct
from bench.stable import StableOffsets
from bench.workloads import small
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.topics import TopicPlan, Topics
from devstack import Stack
from tests.harness.wait import until_in_loop

MARKER = 1
"""A commit or an abort takes one offset in each partition it touches."""
VALUE = b'{"op":"c"}'


@pytest.fixture
async def topic(stack: Stack) -> str:
    name = f"bench-{uuid4().hex[:8]}"
    plan = TopicPlan(name=name, partitions=2, replication_factor=1, max_message_bytes=100_000)
    await Topics({"bootstrap_servers": stack.kafka}).ensure(plan)
    return name


@pytest.fixture
async def producer(stack: Stack, topic: str) -> AsyncIterator[TransactionalProducer]:
    options = {"bootstrap_servers": stack.kafka}
    one = TransactionalProducer(topic, options=options, compression="lz4")
    await one.init_transactions()
    yield one
    await one.discard()


async def test_records_count_once_their_transaction_is_committed_and_not_before(
    stack: Stack, topic: str, producer: TransactionalProducer
) -> None:
    with StableOffsets(stack.kafka, {topic: 2, f"{topic}-not-there": 1}) as stable:
        assert stable.total() == 0
        async with producer.transaction() as kafka:
            sent = [await kafka.send(topic, VALUE, partition=n % 2) for n in range(10)]
            await asyncio.gather(*sent)
            assert stable.total() == 0
        await until_in_loop(  # the commit's markers come a little after its answer
            lambda: stable.total() == 10 + 2 * MARKER,
            glance=0.1,
            late=lambda: "the records never became visible",
        )


async def test_the_contents_are_what_was_committed_however_often_a_key_was_written(
    stack: Stack, topic: str, producer: TransactionalProducer
) -> None:
    async with producer.transaction() as kafka:
        for key in (b"1", b"2", b"2"):
            await (await kafka.send(topic, VALUE, key=key, partition=0))
        await (await kafka.send(topic, None, key=b"2", partition=0))
    found = await contents.read(stack.kafka, [topic], Aqueduct())
    assert (found.messages, found.tombstones) == (3, 1)
    assert found.faults(small("x", 3), tombstones=False) == [
        "0 records with op u, not 1",
        "1 tombstones, not 0",
        "2 keys created, not 3",
    ]
