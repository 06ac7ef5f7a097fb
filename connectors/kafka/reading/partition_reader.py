"""Reading of a partition from an offset to its end, committed records only.

Invariant: the end is that of the beginning of the read, open transactions included, so that a
commit made before that moment is never missed: another's open transaction hides later records until
it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from connectors.errors import KafkaLost, TopicUnfit
from connectors.kafka.error_mapping import explained
from connectors.kafka.producer import TRANSACTION_TIMEOUT
from connectors.kafka.reading.open_transactions import refuse_open

_DEADLINE = 4 * TRANSACTION_TIMEOUT
"""Seconds without progress after which the end is given up."""
HELD = TRANSACTION_TIMEOUT
"""Seconds without progress after which the brokers are asked for open transactions."""
_POLL_MS = 200
_FETCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record of a partition; tombstones have no value."""

    key: bytes
    value: bytes
    offset: int
    headers: tuple[tuple[str, bytes], ...] = ()


async def read_to_end(
    options: Mapping[str, Any], topic: str, partition: int, *, start: int = 0
) -> list[StoredRecord]:
    """Return the committed records from ``start`` to the partition's present end, in order.

    Raises TransactionOpen if a transaction stays open, KafkaLost if the end is not reached
    otherwise.
    """
    found: list[StoredRecord] = []
    await read_each(options, topic, partition, start=start, take=found.append)
    return found


async def read_each(
    options: Mapping[str, Any],
    topic: str,
    partition: int,
    *,
    start: int = 0,
    take: Callable[[StoredRecord], object],
    waits_for_open: bool = True,
) -> int:
    """Pass on each of these records as it arrives, so that they need not all fit into memory;
    return their count.

    Unless ``waits_for_open``, only what can be read now: nothing after a transaction that is still open.
    """
    count, tp = 0, TopicPartition(topic, partition)
    async for records in _records(options, tp, start=start, waits_for_open=waits_for_open):
        for record in records:
            take(record)
        count += len(records)
    return count


async def read_first(
    options: Mapping[str, Any],
    topic: str,
    partition: int,
    *,
    start: int = 0,
    wanted: Callable[[StoredRecord], bool],
    waits_for_open: bool = True,
) -> StoredRecord | None:
    """Return the first wanted record from an offset on; later ones are not read. See ``read_each``."""
    tp = TopicPartition(topic, partition)
    found = _records(options, tp, start=start, waits_for_open=waits_for_open)
    async with aclosing(found) as batches:
        async for records in batches:
            for record in records:
                if wanted(record):
                    return record
    return None


async def end_of(options: Mapping[str, Any], topic: str, partition: int) -> int:
    """Return the offset after a partition's last record; 0 if none was ever written."""
    try:
        async with asyncio.timeout(_DEADLINE):
            return await _end(options, TopicPartition(topic, partition), "read_uncommitted")
    except TimeoutError as error:
        raise KafkaLost(
            "its end offset was not reported", topic=topic, partition=partition
        ) from error
    except KafkaError as error:
        raise await explained(error, options) from error


def read_in_pieces(
    options: Mapping[str, Any], topic: str, partition: int, *, start: int
) -> AsyncGenerator[list[StoredRecord]]:
    """Yield the same in pieces, for a caller that processes each before the next is read."""
    return _records(options, TopicPartition(topic, partition), start=start)


async def _records(
    options: Mapping[str, Any], tp: TopicPartition, *, start: int, waits_for_open: bool = True
) -> AsyncGenerator[list[StoredRecord]]:
    """Yield records as they arrive, until the end that the partition had at first."""
    loop, last = asyncio.get_running_loop(), -1
    try:
        async with asyncio.timeout(_DEADLINE) as limit:
            end = await _end(
                options, tp, "read_uncommitted" if waits_for_open else "read_committed"
            )
            async with open_consumer(options, tp.topic, "read_committed") as consumer:
                await _go_to(consumer, tp, start=start, end=end)
                moved = loop.time()
                while (position := await consumer.position(tp)) < end:
                    if position > last:
                        # Markers whose transactions were compacted away give no record, and are
                        # many.
                        limit.reschedule(loop.time() + _DEADLINE)
                        last, moved = position, loop.time()
                    elif loop.time() - moved > HELD:
                        # It may stay open longer than the wait here; the reason is shown meanwhile.
                        await refuse_open(options, *tp, position=position)
                        moved = loop.time()
                    batches = await consumer.getmany(tp, timeout_ms=_POLL_MS)
                    if records := batches.get(tp):
                        yield [
                            StoredRecord(
                                one.key or b"", one.value or b"", one.offset, tuple(one.headers)
                            )
                            for one in records
                        ]
    except TimeoutError as error:
        await refuse_open(options, *tp, position=last)
        raise KafkaLost(
            "its end was not reached", topic=tp.topic, partition=tp.partition
        ) from error
    except KafkaError as error:
        raise await explained(error, options) from error


async def _go_to(consumer: AIOKafkaConsumer, tp: TopicPartition, *, start: int, end: int) -> None:
    consumer.assign([tp])
    beginning = (await consumer.beginning_offsets([tp]))[tp]
    if start > end:
        raise TopicUnfit(
            f"it ends at offset {end}, but a checkpoint was written at {start}: it was truncated or recreated",
            topic=tp.topic,
        )
    consumer.seek(tp, max(start, beginning))


async def _end(options: Mapping[str, Any], tp: TopicPartition, isolation: str) -> int:
    """The high watermark; for committed records the last stable offset."""
    async with open_consumer(options, tp.topic, isolation) as consumer:
        ends = await consumer.end_offsets([tp])
        return int(ends[tp])


@asynccontextmanager
async def open_consumer(
    options: Mapping[str, Any], topic: str, isolation: str
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer without a group that knows the topic; stopped at the block's end."""
    consumer = AIOKafkaConsumer(
        **options,
        isolation_level=isolation,
        auto_offset_reset="none",
        enable_auto_commit=False,
        fetch_max_wait_ms=_POLL_MS,
        max_partition_fetch_bytes=_FETCH_BYTES,
    )
    try:
        await consumer.start()
        # Else the first request for the topic fails, and aiokafka repeats it a tenth of a second
        # later.
        await consumer._client._wait_on_metadata(topic)
        yield consumer
    finally:
        await consumer.stop()
