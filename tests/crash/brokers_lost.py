"""Three real brokers: what was committed survives one and its disk, and nothing is committed on one alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.errors import KafkaLost, TooFewBrokers
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import read_to_end
from connectors.kafka.topics import TopicPlan, Topics
from devstack import Stack
from devstack.kafka_cluster import KafkaCluster

PLAN = TopicPlan(name="durable", partitions=1, replication_factor=3, max_message_bytes=100_000)


@pytest.fixture
def cluster(stack: Stack, tmp_path: Path) -> Iterator[KafkaCluster]:
    program, libraries = stack._java("kafka")
    with KafkaCluster(tmp_path, libraries, java=program, owner=stack.children) as running:
        yield running


async def write(options: dict[str, Any], value: bytes) -> None:
    producer = TransactionalProducer("durable", options=options, compression=None)
    try:
        await producer.init_transactions()
        await producer.learn([PLAN.name])
        async with producer.transaction() as kafka:
            await (await kafka.send(PLAN.name, key=b"k", value=value, partition=0))
    finally:
        await producer.discard()


async def write_once_it_can(options: dict[str, Any], value: bytes) -> None:
    async with asyncio.timeout(90):
        while True:
            try:
                return await write(options, value)
            except KafkaLost:
                await asyncio.sleep(0.5)


async def test_two_brokers_away_are_waited_for_and_a_lost_disk_loses_nothing(
    cluster: KafkaCluster,
) -> None:
    options = {"bootstrap_servers": cluster.addresses}
    weak: dict[str, tuple[str, ...]] = {}
    await Topics(options).ensure(PLAN)
    await Topics(options, report=weak.__setitem__).ensure(PLAN)
    assert weak == {PLAN.name: ()}
    await write(options, b"on three")
    second, third = cluster.brokers[1:]
    await asyncio.to_thread(second.stop)
    await write_once_it_can(options, b"on two")
    await asyncio.to_thread(third.kill)
    with pytest.raises(TooFewBrokers):
        await failing(options)
    cluster.lose_disk(2)
    await asyncio.to_thread(second.start)
    await write_once_it_can(options, b"on two again")
    found = [record.value for record in await read_to_end(options, PLAN.name, 0)]
    assert found == [b"on three", b"on two", b"on two again"]


async def failing(options: dict[str, Any]) -> None:
    """Try until the broker that is left knows that it is alone."""
    async with asyncio.timeout(90):
        while True:
            try:
                await write(options, b"on one")
            except TooFewBrokers:
                raise
            except KafkaLost:
                continue
