"""Readers of committed records with an end: one partition from an offset, all of many, or the newest of many.

Invariant: the end is that of the beginning of the read, open transactions included, so that a commit made
before that moment is never missed: another's open transaction hides later records until it ends, and is an
error once it has done so for a while. Nothing is written, and no group is joined.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
)
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.partitioner import murmur2

from connectors.errors import KafkaLost, TopicUnfit
from connectors.kafka.client import admin_client
from connectors.kafka.error_mapping import explained
from connectors.kafka.producer import TRANSACTION_TIMEOUT
from connectors.kafka.reading.open_transactions import refuse_open
from wire.records import (
    HEADER_FORMAT,
    HEADER_GTID,
    origin_in,
)

SILENCE = 4 * TRANSACTION_TIMEOUT
"""Seconds without progress after which an end is given up."""
_STOP_SECONDS = 5.0
HELD = TRANSACTION_TIMEOUT
"""Seconds without progress after which the brokers are asked for open transactions."""
_POLL_MS = 200
_MOST_RECORDS = 2000
_FETCH_BYTES = 1024 * 1024
_FETCH_BYTES_OF_ONE = 4 * 1024 * 1024
_MOST_PARTITIONS = 8
"""Partitions that do not move for which the brokers are asked at once."""
_FEW, _MORE = 32, 8
"""The number of offsets at a partition's end that are read at first, and its factor for each next time."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record of a partition; tombstones have no value."""

    key: bytes
    value: bytes
    offset: int
    headers: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, one: Any) -> StoredRecord:
        """Return a record as aiokafka has it."""
        return cls(one.key or b"", one.value or b"", one.offset, tuple(one.headers))


Take = Callable[[str, int, StoredRecord], object]
"""Topic, partition and record."""
Wanted = Callable[[StoredRecord], bool]
Away = Callable[[list[str]], Awaitable[Collection[str]]]
"""Returns the topics among these that are not to be read."""


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
    wanted: Wanted,
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


def read_in_pieces(
    options: Mapping[str, Any], topic: str, partition: int, *, start: int
) -> AsyncGenerator[list[StoredRecord]]:
    """Yield the same in pieces, for a caller that processes each before the next is read."""
    return _records(options, TopicPartition(topic, partition), start=start)


async def read_all(
    options: Mapping[str, Any], partitions: Iterable[tuple[str, int]], take: Take
) -> None:
    """Pass on all records of many partitions, those of each in order. See ``read_to_end``."""
    wanted = [TopicPartition(*each) for each in partitions]
    if not wanted:
        return
    async with _explained(options, partitions=len(wanted)):
        ends = await _ends(options, wanted)
        async with open_consumer(options, "read_committed") as consumer:
            async with asyncio.timeout(SILENCE):
                starts = await consumer.beginning_offsets(wanted)
            async for tp, records in _to_ends(options, consumer, starts, ends):
                for record in records:
                    take(tp.topic, tp.partition, record)


async def end_of(options: Mapping[str, Any], topic: str, partition: int) -> int:
    """Return the offset after a partition's last record; 0 if none was ever written."""
    tp = TopicPartition(topic, partition)
    async with _explained(options, topic=topic, partition=partition):
        return int((await _ends(options, [tp], topics=[topic]))[tp])


async def beginnings(
    options: Mapping[str, Any], partitions: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """Return the first offset that each partition still has."""
    wanted = [TopicPartition(*each) for each in partitions]
    if not wanted:
        return {}
    async with _explained(options), open_consumer(options, "read_uncommitted") as consumer:
        found = await consumer.beginning_offsets(wanted)
    return {(tp.topic, tp.partition): offset for tp, offset in found.items()}


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest wanted record of a partition."""

    topic: str
    partition: int
    record: StoredRecord


async def newest(
    options: Mapping[str, Any],
    topics: Iterable[str],
    *,
    since_ms: int | None,
    wanted: Wanted,
    away: Away | None = None,
) -> list[Newest]:
    """Return the newest of each partition of these topics that has a record since then; of all
    without a time. A missing topic has none. See ``read_to_end``.

    A partition is read further back until it shows a wanted record, or its first record since then.
    ``away`` is asked only if there are topics of which a copy is not in sync, with these: a partition without a
    leader cannot be read, and the end of a transaction may be missing where too few copies are in sync.
    """
    names, found = sorted(set(topics)), dict[TopicPartition, StoredRecord]()
    async with (
        _explained(options, topics=len(names)),
        open_consumer(options, "read_committed") as consumer,
    ):
        async with asyncio.timeout(SILENCE):
            spans = await _spans(options, consumer, names, since_ms, away)
        step = _FEW
        while spans:
            starts = {tp: max(low, end - step) for tp, (low, end) in spans.items()}
            ends = {tp: end for tp, (_, end) in spans.items()}
            async for tp, records in _to_ends(options, consumer, starts, ends):
                for record in records:
                    if wanted(record):
                        found[tp] = record
            spans = {
                tp: (low, starts[tp])
                for tp, (low, _) in spans.items()
                if tp not in found and starts[tp] > low
            }
            step *= _MORE
    return [Newest(tp.topic, tp.partition, record) for tp, record in sorted(found.items())]


async def _spans(
    options: Mapping[str, Any],
    consumer: AIOKafkaConsumer,
    topics: list[str],
    since_ms: int | None,
    away: Away | None,
) -> dict[TopicPartition, tuple[int, int]]:
    """The offsets of each partition between which its newest record is; those with none are omitted."""
    cluster = await consumer._client.fetch_all_metadata()
    if away is not None:
        short = [
            name
            for name in topics
            if any(
                len(one.isr) < len(one.replicas) or one.leader < 0
                for one in cluster._partitions.get(name, {}).values()
            )
        ]
        left_out = await away(short) if short else ()
        topics = [name for name in topics if name not in left_out]
    partitions = [
        TopicPartition(topic, one)
        for topic in topics
        for one in cluster.partitions_for_topic(topic) or ()
    ]
    if not partitions:
        return {}
    lows = dict(await consumer.beginning_offsets(partitions))
    if since_ms is not None:
        times = await consumer.offsets_for_times(dict.fromkeys(partitions, since_ms))
        lows = {tp: at.offset for tp, at in times.items() if at is not None}
    ends = await _ends(options, list(lows)) if lows else {}
    return {tp: (low, ends[tp]) for tp, low in lows.items() if low < ends[tp]}


async def _records(
    options: Mapping[str, Any], tp: TopicPartition, *, start: int, waits_for_open: bool = True
) -> AsyncGenerator[list[StoredRecord]]:
    """Yield a partition's records as they arrive, until the end that it had at first."""
    isolation = "read_uncommitted" if waits_for_open else "read_committed"
    async with _explained(options, topic=tp.topic, partition=tp.partition):
        end = (await _ends(options, [tp], isolation, topics=[tp.topic]))[tp]
        async with open_consumer(
            options, "read_committed", tp.topic, fetch_bytes=_FETCH_BYTES_OF_ONE
        ) as consumer:
            async with asyncio.timeout(SILENCE):
                beginning = (await consumer.beginning_offsets([tp]))[tp]
            if start > end:
                raise TopicUnfit(
                    f"it ends at offset {end}, but a checkpoint was written at {start}: "
                    "it was truncated or recreated",
                    topic=tp.topic,
                )
            starts = {tp: max(start, beginning)}
            async with aclosing(_to_ends(options, consumer, starts, {tp: end})) as found:
                async for _, records in found:
                    yield records


async def _to_ends(
    options: Mapping[str, Any],
    consumer: AIOKafkaConsumer,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> AsyncGenerator[tuple[TopicPartition, list[StoredRecord]]]:
    """Yield the records of partitions from their starts to their ends as they arrive, each one's in order.

    Raises TransactionOpen for one that keeps a partition from moving, KafkaLost where none moves otherwise.
    The caller's own time is not counted.
    """
    loop = asyncio.get_running_loop()
    consumer.assign(list(starts))
    for tp, start in starts.items():
        consumer.seek(tp, start)
    unread, reached = set(starts), dict.fromkeys(starts, -1)
    moved = asked = loop.time()
    while True:
        async with asyncio.timeout(SILENCE):
            for tp in list(unread):
                position = await consumer.position(tp)
                if position > reached[tp]:
                    # Markers whose transactions were compacted away give no record, and are many.
                    reached[tp], moved = position, loop.time()
                    asked = moved
                if position >= ends[tp]:
                    unread.discard(tp)
                    if unread:
                        consumer.pause(tp)
        if not unread:
            return
        is_over = loop.time() - moved > SILENCE
        if is_over or loop.time() - asked > HELD:
            # A transaction may stay open longer than the wait here; the reason is shown meanwhile.
            for tp in sorted(unread)[:_MOST_PARTITIONS]:
                await refuse_open(options, *tp, position=reached[tp])
            asked = loop.time()
        if is_over:
            raise TimeoutError
        async with asyncio.timeout(SILENCE):
            batches = await consumer.getmany(
                *unread, timeout_ms=_POLL_MS, max_records=_MOST_RECORDS
            )
        for tp, records in batches.items():
            if found := [StoredRecord.of(one) for one in records if one.offset < ends[tp]]:
                yield tp, found
        if batches:
            moved = asked = loop.time()


async def _ends(
    options: Mapping[str, Any],
    partitions: list[TopicPartition],
    isolation: str = "read_uncommitted",
    *,
    topics: Iterable[str] = (),
) -> dict[TopicPartition, int]:
    """Return the high watermarks; for committed records the last stable offsets."""
    async with open_consumer(options, isolation, *topics) as consumer, asyncio.timeout(SILENCE):
        return dict(await consumer.end_offsets(partitions))


@asynccontextmanager
async def _explained(options: Mapping[str, Any], **where: object) -> AsyncIterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise KafkaLost("an end was not reached", remedy="", **where) from error
    except KafkaError as error:
        raise await explained(error, options) from error


@asynccontextmanager
async def open_consumer(
    options: Mapping[str, Any],
    isolation: str,
    *topics: str,
    fetch_bytes: int = _FETCH_BYTES,
    wait_ms: int = _POLL_MS,
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer without a group that knows these topics; stopped at the block's end.

    ``wait_ms``: how long a broker holds a fetch for which it has nothing.
    """
    consumer = AIOKafkaConsumer(
        **options,
        isolation_level=isolation,
        auto_offset_reset="none",
        enable_auto_commit=False,
        fetch_max_wait_ms=wait_ms,
        max_partition_fetch_bytes=fetch_bytes,
    )
    try:
        async with asyncio.timeout(SILENCE):
            await consumer.start()
            # Else the first request for a topic fails, and aiokafka repeats it a tenth of a second later.
            for topic in topics:
                await consumer._client._wait_on_metadata(topic)
        yield consumer
    finally:
        # What was read is read, whatever becomes of the connections.
        with suppress(KafkaError, OSError, TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await consumer.stop()


async def cluster(options: Mapping[str, Any]) -> str | None:
    """Return the cluster's id, if it has one."""
    async with admin_client(options) as client:
        described = await client.describe_cluster()
    return described.get("cluster_id") or None


async def topics(options: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of partitions of each existing topic."""
    async with admin_client(options) as client:
        described = await client.describe_topics()
    return {topic["topic"]: len(topic["partitions"]) for topic in described}


def partition_of(key: bytes, partitions: int) -> int:
    """Return a key's partition by Kafka's own rule, not by our implementation of it: for audits."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


def format_of(record: StoredRecord) -> str | None:
    """Return the format of a record or tombstone; None for the envelope."""
    found = dict(record.headers).get(HEADER_FORMAT)
    return None if found is None else found.decode()


def source_of(record: StoredRecord) -> dict[str, Any]:
    """Return ``source`` of a record: of one in another format than the envelope, what of it is in headers
    (``docs/formats.md``). Empty for a tombstone.

    Raises KeyError or ValueError for a record in another format that lacks them.
    """
    if not record.value:
        return {}
    if format_of(record) is None:
        source = orjson.loads(record.value).get("source")
        return source if isinstance(source, dict) else {}
    headers = dict(record.headers)
    name, epoch, seq = origin_in(headers)
    gtid = headers[HEADER_GTID].decode() if HEADER_GTID in headers else None
    return {"name": name, "seq": seq, "epoch": epoch, "gtid": gtid}
