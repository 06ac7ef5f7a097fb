"""Many partitions followed from given offsets on, among them topics that appear later; also up to
their present ends.

Invariant: committed records only, those of a partition in order, each once; no group is joined and no offset is
stored. The caller decides where each partition begins. A transaction that stays open is an error, once the
caller asks for what is unread.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from connectors.errors import RecordsGone
from connectors.kafka.error_mapping import explained
from connectors.kafka.reading.open_transactions import refuse_open
from connectors.kafka.reading.partition_reader import HELD, StoredRecord

_FETCH_BYTES = 1024 * 1024
_MOST_PARTITIONS = 8
"""Partitions that do not move for which the brokers are asked at once."""

Partition = tuple[str, int]
"""Topic and number."""


class Follower:
    """The committed records of many partitions. Made by ``opened``."""

    def __init__(
        self, options: Mapping[str, Any], committed: AIOKafkaConsumer, ends: AIOKafkaConsumer
    ) -> None:
        self._options, self._committed, self._ends = options, committed, ends
        self._followed: set[TopicPartition] = set()
        self._waiting: dict[Partition, tuple[int, float]] = {}
        """The partitions that have more than was returned: the position of each, and the time since which it
        has not moved."""

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(
        cls, options: Mapping[str, Any], *, wait_seconds: float = 0.05
    ) -> AsyncIterator[Follower]:
        """Connect; raises as all of its methods do: KafkaLost, KafkaDenied or RecordsGone.

        ``wait_seconds``: how long a broker holds a fetch for which it has nothing. A partition that is added
        meanwhile waits for it; an idle follower asks again each time, which costs both sides a millisecond.
        """
        consumers = [
            AIOKafkaConsumer(
                **options,
                isolation_level=isolation,
                auto_offset_reset="none",
                enable_auto_commit=False,
                fetch_max_wait_ms=int(1000 * wait_seconds),
                max_partition_fetch_bytes=_FETCH_BYTES,
            )
            for isolation in ("read_committed", "read_uncommitted")
        ]
        try:
            try:
                for one in consumers:
                    await one.start()
            except KafkaError as error:
                raise await explained(error, options) from error
            yield cls(options, *consumers)
        finally:
            for one in consumers:
                with contextlib.suppress(KafkaError, OSError, TimeoutError):
                    async with asyncio.timeout(5):
                        await one.stop()

    async def partitions(self, prefixes: Iterable[str]) -> dict[str, int]:
        """The topics whose names begin so, each with its number of partitions."""
        wanted = tuple(prefixes)
        async with self._explained():
            cluster = await self._ends._client.fetch_all_metadata()
        return {
            name: len(cluster.partitions_for_topic(name) or ())
            for name in cluster.topics()
            if name.startswith(wanted)
        }

    async def follow(self, starts: Mapping[Partition, int]) -> None:
        """Follow these partitions too, each from its offset on."""
        async with self._explained():
            positions = {tp: await self._committed.position(tp) for tp in self._followed}
            positions |= {TopicPartition(*one): offset for one, offset in starts.items()}
            paused = self._committed.paused()
            self._committed.assign(list(positions))
            for tp, offset in positions.items():
                self._committed.seek(tp, offset)
            if paused:
                self._committed.pause(*paused)
            self._followed = set(positions)

    async def read(
        self, seconds: float, *, most: int | None = None, only: Iterable[Partition] = ()
    ) -> dict[Partition, list[Any]]:
        """Records as they come, after at most so many seconds; each as aiokafka has it.

        Without ``most``, all that were fetched meanwhile, however many those are. ``only``: from these
        partitions; from all if there is none.
        """
        if not self._followed:
            # aiokafka would wait for its first partition, however long that takes.
            await asyncio.sleep(seconds)
            return {}
        chosen = [TopicPartition(*one) for one in only]
        async with self._explained():
            batches = await self._committed.getmany(
                *chosen, timeout_ms=int(1000 * seconds), max_records=most
            )
            return {(tp.topic, tp.partition): records for tp, records in batches.items()}

    async def position(self, partition: Partition) -> int:
        """The offset after the last record that was returned, and what follows that has no record."""
        async with self._explained():
            return int(await self._committed.position(TopicPartition(*partition)))

    async def beginnings(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The first offset that each still has."""
        return await self._offsets(self._ends.beginning_offsets, partitions)

    async def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The offset after the last record of each, open transactions included."""
        return await self._offsets(self._ends.end_offsets, partitions)

    async def readable(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The offset up to which each can be read now: before its first open transaction."""
        return await self._offsets(self._committed.end_offsets, partitions)

    async def unread(self) -> dict[Partition, int]:
        """The number of offsets of each partition that were not returned yet, open transactions included; to be
        asked at intervals.

        Raises TransactionOpen if a transaction that stays open has kept one from being read for a while.
        """
        ends = await self.ends([(tp.topic, tp.partition) for tp in self._followed])
        positions = {one: await self.position(one) for one in ends}
        await self._refuse_open({one: at for one, at in positions.items() if at < ends[one]})
        return {one: max(0, end - positions[one]) for one, end in ends.items()}

    async def _refuse_open(self, waiting: Mapping[Partition, int]) -> None:
        """Ask for the open transactions of partitions that have more to read and do not move."""
        now, paused = asyncio.get_running_loop().time(), self._committed.paused()
        before, self._waiting = self._waiting, {}
        for one, at in waiting.items():
            if TopicPartition(*one) not in paused:
                same = before.get(one)
                self._waiting[one] = same if same is not None and same[0] == at else (at, now)
        still = [one for one, (_, since) in self._waiting.items() if now - since > HELD]
        for one in still[:_MOST_PARTITIONS]:
            await refuse_open(self._options, *one, position=waiting[one])
            self._waiting[one] = waiting[one], now

    def pause(self, partitions: Collection[Partition]) -> None:
        """Fetch no more of these, and all others again."""
        wanted = {TopicPartition(*one) for one in partitions} & self._followed
        now = set(self._committed.paused())
        self._committed.pause(*(wanted - now))
        self._committed.resume(*(now - wanted))

    async def _offsets(self, ask: Any, partitions: Collection[Partition]) -> dict[Partition, int]:
        if not partitions:
            return {}
        async with self._explained():
            answer = await ask([TopicPartition(*one) for one in partitions])
            return {(tp.topic, tp.partition): int(offset) for tp, offset in answer.items()}

    @contextlib.asynccontextmanager
    async def _explained(self) -> AsyncIterator[None]:
        try:
            yield
        except OffsetOutOfRangeError as error:
            lost = error.args[0] if error.args else {}
            where = ", ".join(
                f"{tp.topic} [{tp.partition}] has no offset {at}" for tp, at in lost.items()
            )
            raise RecordsGone(where) from error
        except KafkaError as error:
            raise await explained(error, self._options) from error


# Followed partitions read up to their present ends.
#
# Invariant: an end includes transactions that are still open, so what was committed before the
# call is certainly read. Records come in the order of each partition, and in bounded numbers.


Take = Callable[[Partition, StoredRecord], object]

_POLL_SECONDS = 0.2
_MOST_RECORDS = 2000
_GLANCE_SECONDS = 1.0
"""The time without records after which open transactions are looked for."""


async def read_to_ends(follower: Follower, partitions: Iterable[Partition], take: Take) -> None:
    """Pass on all records up to the ends that these followed partitions have now.

    Raises TransactionOpen if a transaction that stays open hides an end, and the errors of the follower.
    """
    ends = await follower.ends(list(partitions))
    glanced = time.monotonic()
    while unread := [one for one, end in ends.items() if await follower.position(one) < end]:
        count, now = await read_some(follower, unread, take), time.monotonic()
        if not count and now - glanced > _GLANCE_SECONDS:
            await follower.unread()
            glanced = now


async def read_some(follower: Follower, partitions: Iterable[Partition], take: Take) -> int:
    """Pass on the records that come within a moment; return their count."""
    batches = await follower.read(_POLL_SECONDS, most=_MOST_RECORDS, only=partitions)
    for partition, records in batches.items():
        for one in records:
            take(partition, StoredRecord.of(one))
    return sum(map(len, batches.values()))
