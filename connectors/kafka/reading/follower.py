"""Many partitions followed from given offsets on, among them topics that appear later.

Invariant: committed records only, those of a partition in order, each once; no group is joined and no offset is
stored. The caller decides where each partition begins.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from connectors.errors import RecordsGone
from connectors.kafka.error_mapping import explained

_FETCH_BYTES = 1024 * 1024

Partition = tuple[str, int]
"""Topic and number."""


class Follower:
    """The committed records of many partitions. Made by ``opened``."""

    def __init__(
        self, options: Mapping[str, Any], committed: AIOKafkaConsumer, ends: AIOKafkaConsumer
    ) -> None:
        self._options, self._committed, self._ends = options, committed, ends
        self._followed: set[TopicPartition] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, options: Mapping[str, Any]) -> AsyncIterator[Follower]:
        """Connect; raises as all of its methods do: KafkaLost, KafkaDenied or RecordsGone."""
        consumers = [
            AIOKafkaConsumer(
                **options,
                isolation_level=isolation,
                auto_offset_reset="none",
                enable_auto_commit=False,
                fetch_max_wait_ms=50,
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

    async def read(self, seconds: float) -> dict[Partition, list[Any]]:
        """Records as they come, after at most so many seconds; each as aiokafka has it."""
        if not self._followed:
            # aiokafka would wait for its first partition, however long that takes.
            await asyncio.sleep(seconds)
            return {}
        async with self._explained():
            batches = await self._committed.getmany(timeout_ms=int(1000 * seconds))
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
