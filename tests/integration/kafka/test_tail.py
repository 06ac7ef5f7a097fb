"""A topic that is followed: by everyone, in order, only what was committed, over an outage."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError

from connectors.errors import KafkaLost
from connectors.kafka import reading
from connectors.kafka.producer import TransactionalProducer, append
from connectors.kafka.reading import StoredRecord, Tail
from connectors.kafka.topics import TopicPlan, Topics
from devstack import Stack
from devstack.ports import free_port
from tests.harness.wait import TIMEOUT

PARTITIONS = 2


@pytest.fixture
async def topic(stack: Stack) -> str:
    name = f"tail-{uuid.uuid4().hex[:8]}"
    plan = TopicPlan(
        name=name, partitions=PARTITIONS, replication_factor=1, max_message_bytes=10**6
    )
    await Topics({"bootstrap_servers": stack.kafka}).ensure(plan)
    return name


class Received:
    """The records received by one follower."""

    def __init__(self, options: dict[str, Any], topic: str) -> None:
        self.keys: list[tuple[int, str]] = []
        self._more = asyncio.Event()
        self.tail = Tail(options, topic, range(PARTITIONS), self._take)

    def _take(self, partition: int, record: StoredRecord) -> None:
        self.keys.append((partition, record.key.decode()))
        self._more.set()

    async def until(self, count: int) -> list[tuple[int, str]]:
        async with asyncio.timeout(TIMEOUT):
            while len(self.keys) < count:
                self._more.clear()
                await self._more.wait()
        return sorted(self.keys)


async def test_each_follower_receives_all_that_is_committed_from_its_position_on(
    stack: Stack, topic: str
) -> None:
    options = {"bootstrap_servers": stack.kafka}
    await append(options, topic, 0, key=b"before", value=b"")
    heard = [Received(options, topic) for _ in range(2)]
    tasks = [asyncio.create_task(one.tail.run()) for one in heard]
    for one in heard:
        await one.tail.placed()
    producer = TransactionalProducer(f"{topic}-id", options=options, compression=None)
    await producer.init_transactions()
    async with contextlib.AsyncExitStack() as opened:
        kafka = await opened.enter_async_context(producer.transaction())
        await (await kafka.send(topic, key=b"aborted", value=b"", partition=0))
        opened.pop_all()
    await producer.discard()
    for partition, key in ((0, b"one"), (1, b"two")):
        await append(options, topic, partition, key=key, value=b"")
    producer = TransactionalProducer(f"{topic}-id", options=options, compression=None)
    await producer.init_transactions()  # ends what is open
    await producer.discard()
    for one in heard:
        assert await one.until(2) == [(0, "one"), (1, "two")]
        assert one.tail.to_json() == {"followed": True, "error": None}
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_what_is_written_during_an_outage_comes_once_it_is_over(
    stack: Stack, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, broken = {"bootstrap_servers": stack.kafka}, asyncio.Event()
    real = reading.open_consumer

    @contextlib.asynccontextmanager
    async def breaks(*arguments: Any, **how: Any) -> AsyncIterator[Any]:
        async with real(*arguments, **how) as consumer:
            read = consumer.getmany

            async def getmany(**more: Any) -> Any:
                if broken.is_set():
                    broken.clear()
                    raise KafkaConnectionError("broken")
                return await read(**more)

            consumer.getmany = getmany
            yield consumer

    monkeypatch.setattr(reading, "open_consumer", breaks)
    heard = Received(options, topic)
    task = asyncio.create_task(heard.tail.run())
    await heard.tail.placed()
    await append(options, topic, 1, key=b"one", value=b"")
    await heard.until(1)
    broken.set()
    async with asyncio.timeout(TIMEOUT):
        await heard.tail._failed.wait()
    await append(options, topic, 1, key=b"two", value=b"")
    assert await heard.until(2) == [(1, "one"), (1, "two")]
    assert heard.tail.to_json() == {"followed": True, "error": None}
    task.cancel()
    await asyncio.wait([task])


async def test_a_missing_broker_is_named_to_those_who_wait_for_a_connection(topic: str) -> None:
    heard = Received({"bootstrap_servers": f"127.0.0.1:{free_port()}"}, topic)
    task = asyncio.create_task(heard.tail.run())
    with pytest.raises(KafkaLost):
        await heard.tail.placed()
    assert str(heard.tail.to_json()["error"]).startswith("KafkaLost: ")
    task.cancel()
    await asyncio.wait([task])
