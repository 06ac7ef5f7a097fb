"""Many partitions followed from given offsets on, among them topics that appear later; also up to
their present ends.

Invariant: committed records only, those of a partition in order, each once; no group is joined and no offset is
stored. The caller decides where each partition begins. A transaction that stays open is an error, once the
caller asks for what is unread. A partition without a leader holds up no other one, if the caller wants that.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from connectors.errors import KafkaLost, RecordsGone
from connectors.kafka.error_mapping import explained
from connectors.kafka.reading.open_transactions import refuse_open
from connectors.kafka.reading.partition_reader import (
    HELD,
    SILENCE,
    StoredRecord,
    open_consumer,
)

_MOST_PARTITIONS = 8
"""Partitions that do not move for which the brokers are asked at once."""
_ANSWER_SECONDS = 15.0
"""Seconds for the brokers to say where partitions begin and end."""
_NO_LEADER = -1

Partition = tuple[str, int]
"""Topic and number."""


class Follower:
    """The committed records of many partitions. Made by ``opened``."""

    def __init__(
        self,
        options: Mapping[str, Any],
        committed: AIOKafkaConsumer,
        ends: AIOKafkaConsumer,
        *,
        omits_leaderless: bool = False,
    ) -> None:
        """``omits_leaderless``: see ``opened``."""
        self._omits_leaderless = omits_leaderless
        self._options, self._committed, self._ends = options, committed, ends
        self.leaderless: frozenset[Partition] = frozenset()
        """The partitions without a leader, when topics were last looked for: none of them can be asked for.
        Empty unless these are omitted."""
        self._followed: set[TopicPartition] = set()
        self._away: dict[TopicPartition, int] = {}
        """The followed ones among those, each with its position."""
        self._waiting: dict[Partition, tuple[int, float]] = {}
        """The partitions that have more than was returned: the position of each, and the time since which it
        has not moved."""

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(
        cls,
        options: Mapping[str, Any],
        *,
        wait_seconds: float = 0.05,
        omits_leaderless: bool = False,
    ) -> AsyncIterator[Follower]:
        """Connect; raises as all of its methods do: KafkaLost, KafkaDenied or RecordsGone.

        ``wait_seconds``: how long a broker holds a fetch for which it has nothing. A partition that is added
        meanwhile waits for it; an idle follower asks again each time, which costs both sides a millisecond.

        ``omits_leaderless``: whether what is followed and has no leader is not read until a later look for
        topics finds that it has one; such looks must then be made at intervals.
        """
        async with contextlib.AsyncExitStack() as stack:
            try:
                consumers = [
                    await stack.enter_async_context(
                        open_consumer(options, isolation, wait_ms=int(1000 * wait_seconds))
                    )
                    for isolation in ("read_committed", "read_uncommitted")
                ]
            except (KafkaError, TimeoutError) as error:
                raise await explained(error, options) from error
            yield cls(options, *consumers, omits_leaderless=omits_leaderless)

    async def partitions(self, prefixes: Iterable[str]) -> dict[str, int]:
        """The topics whose names begin so, each with its number of partitions."""
        wanted = tuple(prefixes)
        async with self._explained():
            cluster = await self._ends._client.fetch_all_metadata()
            found = {name: cluster.partitions_for_topic(name) or () for name in cluster.topics()}
            if self._omits_leaderless:
                self.leaderless = frozenset(
                    (name, number)
                    for name, numbers in found.items()
                    for number in numbers
                    if cluster.leader_for_partition(TopicPartition(name, number)) == _NO_LEADER
                )
                if self._away.keys() != {tp for tp in self._followed if tp in self.leaderless}:
                    # aiokafka would ask for the leader of one that is assigned without a pause.
                    await self._assign({})
        return {name: len(numbers) for name, numbers in found.items() if name.startswith(wanted)}

    async def follow(self, starts: Mapping[Partition, int]) -> None:
        """Follow these partitions too, each from its offset on."""
        async with self._explained():
            await self._assign(starts)

    async def leave(self, partitions: Iterable[Partition]) -> None:
        """Follow these no more."""
        async with self._explained():
            self._followed -= {TopicPartition(*one) for one in partitions}
            await self._assign({})

    async def _assign(self, starts: Mapping[Partition, int]) -> None:
        """Read what is followed and has a leader, and these partitions too."""
        positions = {tp: await self._position(tp) for tp in self._followed}
        positions |= {TopicPartition(*one): offset for one, offset in starts.items()}
        self._away = {tp: at for tp, at in positions.items() if tp in self.leaderless}
        read = {tp: at for tp, at in positions.items() if tp not in self._away}
        paused = self._committed.paused() & read.keys()
        self._committed.assign(list(read))
        for tp, offset in read.items():
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
        chosen = [TopicPartition(*one) for one in only]
        if not {*(chosen or self._followed)} - self._away.keys():
            # aiokafka would wait for its first partition, however long that takes.
            await asyncio.sleep(seconds)
            return {}
        chosen = [tp for tp in chosen if tp not in self._away]
        async with self._explained():
            batches = await self._committed.getmany(
                *chosen, timeout_ms=int(1000 * seconds), max_records=most
            )
            return {(tp.topic, tp.partition): records for tp, records in batches.items()}

    async def position(self, partition: Partition) -> int:
        """The offset after the last record that was returned, and what follows that has no record."""
        async with self._explained():
            return await self._position(TopicPartition(*partition))

    async def _position(self, tp: TopicPartition) -> int:
        at = self._away.get(tp)
        return int(await self._committed.position(tp)) if at is None else at

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
        asked at intervals. Those without a leader are omitted.

        Raises TransactionOpen if a transaction that stays open has kept one from being read for a while.
        """
        asked = self._followed - self._away.keys()
        ends = await self.ends([(tp.topic, tp.partition) for tp in asked])
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
        wanted = {TopicPartition(*one) for one in partitions} & (self._followed - self._away.keys())
        now = set(self._committed.paused())
        self._committed.pause(*(wanted - now))
        self._committed.resume(*(now - wanted))

    async def _offsets(self, ask: Any, partitions: Collection[Partition]) -> dict[Partition, int]:
        if not partitions:
            return {}
        try:
            async with self._explained(), asyncio.timeout(_ANSWER_SECONDS):
                answer = await ask([TopicPartition(*one) for one in partitions])
        except TimeoutError:
            named = ", ".join(f"{name} [{number}]" for name, number in sorted(partitions)[:3])
            raise KafkaLost(
                f"no answer within {_ANSWER_SECONDS:.0f} s for offsets of {len(partitions)} partitions: {named}"
            ) from None
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

    Raises TransactionOpen if a transaction that stays open hides an end, KafkaLost where no partition moves
    otherwise, and the errors of the follower. The caller's own time is not counted.
    """
    ends, reached = await follower.ends(list(partitions)), dict[Partition, int]()
    glanced = moved = time.monotonic()
    while True:
        before, reached = reached, {one: await follower.position(one) for one in ends}
        unread = [one for one, end in ends.items() if reached[one] < end]
        if not unread:
            return
        count, now = await read_some(follower, unread, take), time.monotonic()
        if count or reached != before:
            moved = now
        elif now - moved > SILENCE:
            topic, number = unread[0]
            raise KafkaLost("an end was not reached", topic=topic, partition=number, remedy="")
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
