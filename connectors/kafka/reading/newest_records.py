"""The newest records of many partitions, read from their ends.

Invariant: committed records only, up to the end that each partition has at first; a partition is
read further back until it shows a wanted record, or its first record since the given time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from connectors.errors import KafkaLost
from connectors.kafka.error_mapping import explained
from connectors.kafka.producer import TRANSACTION_TIMEOUT
from connectors.kafka.reading.open_transactions import refuse_open
from connectors.kafka.reading.partition_reader import HELD, StoredRecord

_SILENCE = 4 * TRANSACTION_TIMEOUT
"""Seconds without any record after which an end is given up."""
_POLL_MS = 200
_MOST_PARTITIONS = 8
"""Partitions with an open transaction for which the brokers are asked at once."""
_FEW, _MORE = 32, 8
"""The number of offsets read at first, and its factor for each next time."""

Wanted = Callable[[StoredRecord], bool]
Away = Callable[[list[str]], Awaitable[Collection[str]]]
"""Returns the topics among these that are not to be read."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest wanted record of a partition."""

    topic: str
    partition: int
    record: StoredRecord


class _Progress:
    """The time since the last record, and the reaction if it is long."""

    def __init__(self, options: Mapping[str, Any], limit: asyncio.Timeout) -> None:
        self._options, self._limit = options, limit
        self._time = asyncio.get_running_loop().time
        self._last = self._time()

    def made(self) -> None:
        """Restart the wait."""
        self._last = self._time()
        self._limit.reschedule(self._last + _SILENCE)

    async def check(self, positions: Mapping[TopicPartition, int]) -> None:
        """Raise TransactionOpen if one has kept a partition at its position for a while."""
        if self._time() - self._last > HELD:
            for tp, position in list(positions.items())[:_MOST_PARTITIONS]:
                await refuse_open(self._options, *tp, position=position)
            self._last = self._time()


async def newest(
    options: Mapping[str, Any],
    topics: Iterable[str],
    *,
    since_ms: int | None,
    wanted: Wanted,
    away: Away | None = None,
) -> list[Newest]:
    """Return the newest of each partition of these topics that has a record since then; of all
    without a time.

    ``away`` is asked only if there are topics of which a copy is not in sync, with these: a partition without a
    leader cannot be read, and the end of a transaction may be missing where too few copies are in sync.

    Raises TransactionOpen if another producer's transaction stays open before an end, KafkaLost if
    an end is not reached otherwise. A missing topic has none.
    """
    try:
        async with asyncio.timeout(_SILENCE) as limit:
            progress = _Progress(options, limit)
            return await _newest(options, sorted(set(topics)), since_ms, wanted, progress, away)
    except TimeoutError as error:
        raise KafkaLost("the ends of topics were not reached", topics=len(set(topics))) from error
    except KafkaError as error:
        raise await explained(error, options) from error


async def _newest(
    options: Mapping[str, Any],
    topics: list[str],
    since_ms: int | None,
    wanted: Wanted,
    progress: _Progress,
    away: Away | None,
) -> list[Newest]:
    consumer = AIOKafkaConsumer(
        **options,
        isolation_level="read_committed",
        auto_offset_reset="none",
        enable_auto_commit=False,
        fetch_max_wait_ms=_POLL_MS,
    )
    found: dict[TopicPartition, StoredRecord] = {}
    try:
        await consumer.start()
        spans = await _spans(options, consumer, topics, since_ms, away)
        step = _FEW
        while spans:
            starts = {tp: max(low, end - step) for tp, (low, end) in spans.items()}
            await _read(consumer, starts, spans, found, wanted, progress)
            spans = {
                tp: (low, starts[tp])
                for tp, (low, _) in spans.items()
                if tp not in found and starts[tp] > low
            }
            step *= _MORE
    finally:
        await consumer.stop()
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


async def _ends(
    options: Mapping[str, Any], partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Open transactions included: a commit after one is not missed."""
    consumer = AIOKafkaConsumer(**options, isolation_level="read_uncommitted")
    try:
        await consumer.start()
        return dict(await consumer.end_offsets(partitions))
    finally:
        await consumer.stop()


async def _read(
    consumer: AIOKafkaConsumer,
    starts: Mapping[TopicPartition, int],
    spans: Mapping[TopicPartition, tuple[int, int]],
    found: dict[TopicPartition, StoredRecord],
    wanted: Wanted,
    progress: _Progress,
) -> None:
    """Read each partition from its start to its span's end, and keep the last wanted record."""
    remaining = set(starts)
    reached: dict[TopicPartition, int] = {}
    consumer.assign(list(starts))
    for tp, start in starts.items():
        consumer.seek(tp, start)
    while remaining:
        for tp, records in (await consumer.getmany(*remaining, timeout_ms=_POLL_MS)).items():
            for one in records:
                stored = StoredRecord(
                    one.key or b"", one.value or b"", one.offset, tuple(one.headers)
                )
                if one.offset < spans[tp][1] and wanted(stored):
                    found[tp] = stored
        for tp in list(remaining):
            position = await consumer.position(tp)
            if position > reached.get(tp, -1):
                reached[tp] = position
                progress.made()
            if position >= spans[tp][1]:
                remaining.discard(tp)
                consumer.pause(tp)
        await progress.check({tp: reached[tp] for tp in remaining})
