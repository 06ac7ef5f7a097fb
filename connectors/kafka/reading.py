"""Reading a partition from an offset to its end, seeing only what was committed.

The law: the end is where the partition ended when we began, open transactions included, so that a commit made
before that moment is never missed: another's open transaction hides what stands behind it until it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from connectors.errors import KafkaLost, TopicUnfit
from connectors.kafka.producer import TRANSACTION_TIMEOUT, translated

_DEADLINE = 4 * TRANSACTION_TIMEOUT
_POLL_MS = 200
_PIECE = 500
"""Records at a time."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record as it stands in a partition; tombstones have no value."""

    key: bytes
    value: bytes
    offset: int
    headers: tuple[tuple[str, bytes], ...] = ()


async def read_to_end(
    options: Mapping[str, Any], topic: str, partition: int, *, start: int = 0
) -> list[StoredRecord]:
    """The committed records from ``start`` to the partition's present end, in order.

    Raises KafkaLost where the end is not reached: a transaction stays open, or the broker is silent.
    """
    tp = TopicPartition(topic, partition)
    try:
        async with asyncio.timeout(_DEADLINE):
            end = await _high_watermark(options, tp)
            return await _read_until(options, tp, start=start, end=end)
    except TimeoutError as error:
        raise KafkaLost(
            "the end of the journal was not reached", topic=topic, partition=partition
        ) from error
    except KafkaError as error:
        raise translated(error) from error


async def read_in_pieces(
    options: Mapping[str, Any], topic: str, partition: int, *, start: int
) -> AsyncIterator[list[StoredRecord]]:
    """The same, with headers, some records at a time: for what may be more than memory holds.

    Raises KafkaLost where nothing comes for a while.
    """
    tp = TopicPartition(topic, partition)
    try:
        async with asyncio.timeout(_DEADLINE):
            end = await _high_watermark(options, tp)
        async with _consumer(options, "read_committed") as consumer:
            consumer.assign([tp])
            beginning = (await consumer.beginning_offsets([tp]))[tp]
            consumer.seek(tp, max(start, beginning))
            while await consumer.position(tp) < end:
                async with asyncio.timeout(_DEADLINE):
                    batches: dict[Any, Any] = {}
                    while not batches and await consumer.position(tp) < end:
                        batches = await consumer.getmany(
                            tp, timeout_ms=_POLL_MS, max_records=_PIECE
                        )
                yield [
                    StoredRecord(
                        record.key or b"", record.value or b"", record.offset, tuple(record.headers)
                    )
                    for record in batches.get(tp, [])
                ]
    except TimeoutError as error:
        raise KafkaLost("its end was not reached", topic=topic, partition=partition) from error
    except KafkaError as error:
        raise translated(error) from error


async def _high_watermark(options: Mapping[str, Any], tp: TopicPartition) -> int:
    async with _consumer(options, "read_uncommitted") as consumer:
        ends = await consumer.end_offsets([tp])
        return int(ends[tp])


async def _read_until(
    options: Mapping[str, Any], tp: TopicPartition, *, start: int, end: int
) -> list[StoredRecord]:
    found: list[StoredRecord] = []
    async with _consumer(options, "read_committed") as consumer:
        consumer.assign([tp])
        beginning = (await consumer.beginning_offsets([tp]))[tp]
        if start > end:
            raise TopicUnfit(
                f"it ends at offset {end}, but a checkpoint was made at {start}: it was cut or made anew",
                topic=tp.topic,
            )
        consumer.seek(tp, max(start, beginning))
        while await consumer.position(tp) < end:
            batches = await consumer.getmany(tp, timeout_ms=_POLL_MS)
            found += [
                StoredRecord(record.key or b"", record.value or b"", record.offset)
                for record in batches.get(tp, [])
            ]
    return found


@asynccontextmanager
async def _consumer(options: Mapping[str, Any], isolation: str) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        **options,
        isolation_level=isolation,
        auto_offset_reset="none",
        enable_auto_commit=False,
        fetch_max_wait_ms=_POLL_MS,
    )
    try:
        await consumer.start()
        yield consumer
    finally:
        await consumer.stop()
