"""The records read by a consumer of whole topics, and its error for a missing topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from connectors.kafka.protocol_requests import Ask
from devstack import Stack, topics
from tests.harness.wait import TIMEOUT

pytestmark = pytest.mark.stack


@pytest.fixture
async def topic(stack: Stack) -> str:
    name = f"consumed-{uuid4().hex[:8]}"
    admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
    finally:
        await admin.close()
    return name


@pytest.fixture
async def producer(stack: Stack, topic: str) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=stack.kafka, transactional_id=topic) as made:
        yield made


async def read(stack: Stack, *names: str) -> list[bytes]:
    return [
        record.value async for records in topics.batches(stack.kafka, names) for record in records
    ]


async def test_committed_records_of_each_partition_are_read_and_aborted_ones_are_not(
    stack: Stack, topic: str, producer: AIOKafkaProducer
) -> None:
    assert await read(stack, topic) == []
    await producer.begin_transaction()
    await producer.send_and_wait(topic, b"aborted", partition=0)
    await producer.abort_transaction()
    async with producer.transaction():
        for value, partition in ((b"first", 0), (b"second", 0), (b"other", 1)):
            await producer.send_and_wait(topic, value, partition=partition)
    await producer.begin_transaction()  # the markers of the one before are written by now
    await producer.send_and_wait(topic, b"open", partition=0)
    found = await read(stack, topic)
    assert sorted(found) == [b"first", b"other", b"second"]
    assert found.index(b"first") < found.index(b"second")
    await producer.abort_transaction()


async def test_an_end_is_taken_when_the_transactions_that_end_have_their_markers() -> None:
    client = Ending([{"a", "b"}, {"b", "later"}, {"later"}, set()])
    await topics.until_marked(client)
    assert client.answers == [set()]


async def test_the_broker_lists_no_transaction_that_is_open_or_ended(
    stack: Stack, topic: str, producer: AIOKafkaProducer
) -> None:
    async with producer.transaction():
        await producer.send_and_wait(topic, b"committed", partition=0)
    await producer.begin_transaction()
    await producer.send_and_wait(topic, b"open", partition=0)
    async with (
        asyncio.timeout(TIMEOUT),
        AIOKafkaConsumer(bootstrap_servers=stack.kafka) as consumer,
    ):
        await topics.until_marked(consumer._client)
    await producer.abort_transaction()


@dataclass(slots=True)
class Ending:
    """A client of one broker, and its transactional ids that end, one set for each request."""

    answers: list[set[str]]
    cluster: Any = field(
        default_factory=lambda: SimpleNamespace(brokers=lambda: [SimpleNamespace(nodeId=1)])
    )

    async def send(self, node: int, request: Ask) -> Any:
        assert node == 1
        request.prepare({request.API_KEY: (0, 0)})
        return SimpleNamespace(
            transaction_states=[(name, 1, "PrepareCommit", {}) for name in self.answers.pop(0)]
        )


async def test_a_missing_topic_is_reported(stack: Stack, topic: str) -> None:
    assert topic in await topics.names(stack.kafka)
    missing = f"{topic}-missing"
    with pytest.raises(topics.TopicsUnreadable, match=f"lacks one of {topic}, {missing}"):
        await topics.ends(stack.kafka, [topic, missing], request_timeout_ms=1000)
    assert await read(stack) == []
