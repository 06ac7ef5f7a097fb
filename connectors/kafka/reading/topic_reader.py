"""The complete contents of many topics at one moment, read by a consumer, for audits.

Invariant: each partition is read from its beginning to the end that it had at first, open
transactions included, committed records only; nothing is written, and no group is joined.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.partitioner import murmur2

from connectors.errors import KafkaLost
from connectors.kafka.error_mapping import explained
from connectors.kafka.producer import TRANSACTION_TIMEOUT
from connectors.kafka.reading.partition_reader import StoredRecord

_SILENCE = 4 * TRANSACTION_TIMEOUT
"""Seconds without any record after which an end is given up."""
_POLL_MS = 200
_FETCH_BYTES = 1024 * 1024
_MOST_RECORDS = 2000

Take = Callable[[str, int, StoredRecord], object]
"""Topic, partition and record."""


async def cluster(options: Mapping[str, Any]) -> str | None:
    """Return the cluster's id, if it has one."""
    client = AIOKafkaAdminClient(**options)
    try:
        await client.start()
        described = await client.describe_cluster()
        return described.get("cluster_id") or None
    except KafkaError as error:
        raise await explained(error, options) from error
    finally:
        await client.close()


async def topics(options: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of partitions of each existing topic."""
    client = AIOKafkaAdminClient(**options)
    try:
        await client.start()
        described = await client.describe_topics()
        return {topic["topic"]: len(topic["partitions"]) for topic in described}
    except KafkaError as error:
        raise await explained(error, options) from error
    finally:
        await client.close()


async def beginnings(
    options: Mapping[str, Any], partitions: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """Return the first offset that each partition still has."""
    wanted = [TopicPartition(*each) for each in partitions]
    consumer = _consumer(options, "read_uncommitted")
    try:
        await consumer.start()
        found = await consumer.beginning_offsets(wanted) if wanted else {}
        return {(tp.topic, tp.partition): offset for tp, offset in found.items()}
    except KafkaError as error:
        raise await explained(error, options) from error
    finally:
        await consumer.stop()


async def read_all(
    options: Mapping[str, Any], partitions: Iterable[tuple[str, int]], take: Take
) -> None:
    """Pass on all records, those of a partition in order; raise KafkaLost if an end is not reached."""
    wanted = [TopicPartition(*each) for each in partitions]
    if not wanted:
        return
    ends = await _ends(options, wanted)
    consumer = _consumer(options, "read_committed")
    try:
        await consumer.start()
        consumer.assign(wanted)
        await consumer.seek_to_beginning(*wanted)
        await _read(consumer, ends, take)
    except KafkaError as error:
        raise await explained(error, options) from error
    finally:
        await consumer.stop()


async def _read(consumer: AIOKafkaConsumer, ends: dict[TopicPartition, int], take: Take) -> None:
    loop = asyncio.get_running_loop()
    last_arrival = loop.time()
    remaining, reached = set(ends), dict[TopicPartition, int]()
    while remaining:
        batches = await consumer.getmany(*remaining, timeout_ms=_POLL_MS, max_records=_MOST_RECORDS)
        if loop.time() - last_arrival > _SILENCE:
            raise KafkaLost("the end of some partitions was not reached", partitions=len(remaining))
        for tp, records in batches.items():
            for one in records:
                if one.offset < ends[tp]:
                    take(tp.topic, tp.partition, _stored(one))
        for tp in list(remaining):
            position = await consumer.position(tp)
            if position > reached.get(tp, -1):
                # Markers of transactions whose records were compacted away give no record.
                reached[tp], last_arrival = position, loop.time()
            if position >= ends[tp]:
                remaining.discard(tp)
                consumer.pause(tp)


def partition_of(key: bytes, partitions: int) -> int:
    """Return a key's partition by Kafka's own rule, not by our implementation of it."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


def _stored(one: Any) -> StoredRecord:
    return StoredRecord(one.key or b"", one.value or b"", one.offset, tuple(one.headers))


async def _ends(
    options: Mapping[str, Any], wanted: list[TopicPartition]
) -> dict[TopicPartition, int]:
    consumer = _consumer(options, "read_uncommitted")
    try:
        await consumer.start()
        return dict(await consumer.end_offsets(wanted))
    finally:
        await consumer.stop()


def _consumer(options: Mapping[str, Any], isolation: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        **options,
        isolation_level=isolation,
        auto_offset_reset="none",
        enable_auto_commit=False,
        fetch_max_wait_ms=_POLL_MS,
        max_partition_fetch_bytes=_FETCH_BYTES,
    )
