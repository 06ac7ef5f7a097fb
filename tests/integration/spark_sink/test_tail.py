"""The reader of the newest records, over a real Kafka."""

from __future__ import annotations

import asyncio
import functools
import operator
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.structs import TopicPartition
from pyspark.sql import SparkSession

from devstack import Stack
from spark_sink.errors import DataLost
from spark_sink.settings.model import Settings
from spark_sink.source.kafka import KafkaTopics
from spark_sink.source.positions import Offsets
from spark_sink.source.tail import Tail
from spark_sink.spark.java import java_class
from tests.harness import wait
from tests.unit.spark_sink.conftest import spark

__all__ = ["spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
A, B = "tail.shop.a", "tail.shop-x.b_1"


@pytest.fixture
async def admin(stack: Stack) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=stack.kafka)
    await client.start()
    yield client
    await client.delete_topics([one for one in await client.list_topics() if one[:5] == "tail."])
    await client.close()


@pytest.fixture
def topics(stack: Stack, spark: SparkSession) -> Iterator[tuple[Settings, KafkaTopics]]:
    settings = Settings(prefix="tail", bootstrap_servers=stack.kafka, warehouse="/nowhere")
    made = KafkaTopics(spark, settings)
    yield settings, made
    made.close()


def read(tail: Tail) -> list[tuple[str, int, int, bytes | None, bytes | None]]:
    """What comes up to the present ends: topic, partition, offset, key and value."""
    found = tail.read(tail.ends()).collect()
    return sorted(
        (
            row.topic,
            row.partition,
            row.offset,
            row.key and bytes(row.key),
            row.value and bytes(row.value),
        )
        for row in found
    )


async def test_it_reads_each_committed_record_once_with_new_topics_and_partitions(
    stack: Stack,
    spark: SparkSession,
    admin: AIOKafkaAdminClient,
    topics: tuple[Settings, KafkaTopics],
) -> None:
    settings, asked = topics
    await admin.create_topics([NewTopic(A, 2, 1)])
    producer = AIOKafkaProducer(bootstrap_servers=stack.kafka, transactional_id="tail")
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send_and_wait(A, b"before", partition=0)
        tail = Tail(spark, settings, asked, start={(A, 0): 2})
        try:
            reach(tail, {(A, 0): 2, (A, 1): 0})
            assert read(tail) == []
            async with producer.transaction():
                await producer.send_and_wait(
                    A, b"one", key=b"k", partition=0, headers=[("h", b"\xff"), ("h", b"")]
                )
                await producer.send_and_wait(A, key=b"gone", partition=1)
            ends = reach(tail, {(A, 0): 4, (A, 1): 2})
            (first, second) = tail.read(ends).orderBy("partition").collect()
            assert (first.offset, bytes(first.key), bytes(first.value)) == (2, b"k", b"one")
            assert [(one.key, bytes(one.value)) for one in first.headers] == [
                ("h", b"\xff"),
                ("h", b""),
            ]
            assert (second.partition, second.offset, second.value, second.headers) == (
                1,
                0,
                None,
                None,
            )
            assert tail.until == ends

            await producer.begin_transaction()
            await producer.send_and_wait(A, b"never", partition=0)
            assert read(tail) == [], "an open transaction"
            await producer.abort_transaction()
            reach(tail, {(A, 0): 6, (A, 1): 2})
            assert read(tail) == []
            assert tail.until[A, 0] == 6, "an aborted record, and the abort"

            await admin.create_topics([NewTopic(B, 1, 1)])
            await admin.create_partitions({A: NewPartitions(3)})
            await known(producer, A, partition=2)
            async with producer.transaction():
                await producer.send_and_wait(B, b"new topic", partition=0)
                await producer.send_and_wait(A, b"new partition", partition=2)
            reach(tail, {(A, 0): 6, (A, 1): 2, (A, 2): 2, (B, 0): 2})
            assert read(tail) == [
                (B, 0, 0, None, b"new topic"),
                (A, 2, 0, None, b"new partition"),
            ]
            assert read(tail) == []
        finally:
            tail.close()
    finally:
        await producer.stop()


def reach(tail: Tail, ends: Offsets) -> Offsets:
    """Wait for these ends: a broker answers a commit before its markers are in the partitions."""
    wait.until(lambda: tail.ends() == ends, late=lambda: f"the ends are {tail.ends()}")
    return ends


async def known(producer: AIOKafkaProducer, topic: str, *, partition: int) -> None:
    """Wait until the producer has a new partition: a broker's metadata follow the controller's answer."""
    async with asyncio.timeout(wait.TIMEOUT):
        while partition not in await producer.partitions_for(topic):
            await producer.client.force_metadata_update()


async def test_of_very_many_records_it_reads_some_and_then_the_others(
    stack: Stack,
    spark: SparkSession,
    admin: AIOKafkaAdminClient,
    topics: tuple[Settings, KafkaTopics],
) -> None:
    settings, asked = topics
    await admin.create_topics([NewTopic(A, 1, 1)])
    async with AIOKafkaProducer(bootstrap_servers=stack.kafka, linger_ms=50) as producer:
        for number in range(60):
            await producer.send(A, b"%d" % number + b"x" * 900_000, partition=0)
    tail = Tail(spark, settings, asked, start={})
    try:
        ends, found = tail.ends(), []
        while tail.until[A, 0] < ends[A, 0]:
            frame = tail.read(ends)
            values = frame.selectExpr("CAST(substring(value, 1, 2) AS STRING) v").collect()
            found.append([int(row.v.rstrip("x")) for row in values])
        assert len(found) > 1
        assert functools.reduce(operator.iadd, found, []) == list(range(60))
    finally:
        tail.close()


async def test_records_that_kafka_has_removed_and_topics_that_are_gone_are_lost(
    stack: Stack,
    spark: SparkSession,
    admin: AIOKafkaAdminClient,
    topics: tuple[Settings, KafkaTopics],
) -> None:
    settings, asked = topics
    await admin.create_topics([NewTopic(A, 1, 1), NewTopic(B, 1, 1)])
    async with AIOKafkaProducer(bootstrap_servers=stack.kafka) as producer:
        for number in range(3):
            await producer.send_and_wait(A, b"%d" % number, partition=0)
    tail = Tail(spark, settings, asked, start={(A, 0): 0, (B, 0): 0})
    try:
        await admin.delete_records({TopicPartition(A, 0): RecordsToDelete(before_offset=2)})
        with pytest.raises(DataLost, match=r"tail\.shop\.a-0"):
            tail.read(tail.ends())
        await admin.delete_topics([B])
        with pytest.raises(DataLost, match=r"topic tail\.shop-x\.b_1, partition 0 is no longer"):
            # The broker answers before it has deleted the topic.
            wait.until(lambda: not tail.ends(), late=lambda: "the topic is there")
    finally:
        tail.close()


def consumers(spark: SparkSession) -> int:
    """The number of Kafka consumers that this JVM has open."""
    gateway: Any = spark._sc._gateway
    jvm = gateway.jvm
    of = java_class(jvm, "java.lang.Class").forName
    types, given = gateway.new_array(jvm.Class, 2), gateway.new_array(jvm.Object, 2)
    types[0], types[1] = of("javax.management.ObjectName"), of("javax.management.QueryExp")
    wanted = "kafka.consumer:type=app-info,id=*"
    given[0] = java_class(jvm, "javax.management.ObjectName")(wanted)
    beans = java_class(jvm, "java.lang.management.ManagementFactory").getPlatformMBeanServer()
    # Its own class is not public.
    query = of("javax.management.MBeanServer").getMethod("queryNames", types)
    return int(query.invoke(beans, given).size())


async def test_reads_of_the_same_partitions_keep_no_more_consumers_than_these_need(
    stack: Stack,
    spark: SparkSession,
    admin: AIOKafkaAdminClient,
    topics: tuple[Settings, KafkaTopics],
) -> None:
    await admin.create_topics([NewTopic(A, 2, 1)])
    producer = AIOKafkaProducer(bootstrap_servers=stack.kafka)
    await producer.start()
    for number in range(20):
        await producer.send_and_wait(A, b"%d" % number, partition=number % 2)
    await producer.stop()
    before = consumers(spark)
    for first in range(8):
        found = topics[1].read({(A, 0): first, (A, 1): 0}, {(A, 0): 9, (A, 1): 9}).collect()
        values = sorted(int(bytes(row.value)) for row in found)
        assert values == sorted([*range(2 * first, 18, 2), *range(1, 18, 2)])
    # Spark keeps them for minutes, each with up to a megabyte that it has read ahead.
    assert consumers(spark) - before <= 2
