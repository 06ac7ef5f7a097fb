"""Reading of committed records: of partitions up to ends, as they come, or of a topic for a process's life.

Invariant: only committed records are read, each once, and those of a partition in order; no group is joined and
no offset is stored. An end includes open transactions, so a commit made before the end was requested is never
missed. An open transaction of another producer hides later records until it ends, and is an error after HELD
seconds. With ``omits_unreadable``, a partition that cannot be read does not hold up the others. A tail keeps
its position over every outage, and reads later what it cannot read now.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
)
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, TopicAuthorizationFailedError
from aiokafka.partitioner import murmur2

from connectors.backoff import Backoff
from connectors.errors import (
    AqueductError,
    KafkaDenied,
    KafkaLost,
    RecordsGone,
    TooFewBrokers,
    TopicUnfit,
    TransactionOpen,
)
from connectors.kafka.error_mapping import explained, translated
from connectors.kafka.open_transactions import refuse_open
from connectors.kafka.producer import TRANSACTION_TIMEOUT
from wire.records import HEADER_FORMAT, HEADER_GTID, origin_in

log = logging.getLogger(__name__)

SILENCE = 4 * TRANSACTION_TIMEOUT
"""Seconds without progress after which reading up to an end is given up."""
HELD = 2 * TRANSACTION_TIMEOUT
"""Seconds without progress after which the brokers are asked for open transactions. By then the transaction of
a killed worker has ended: every ten seconds a broker looks for transactions that are past their time-out."""
_ANSWER_SECONDS = 15.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.2
_MOST_RECORDS = 2000
_FETCH_BYTES = 1024 * 1024
_FETCH_BYTES_OF_ONE = 4 * 1024 * 1024
_DENIED_SECONDS = 5.0
"""The interval at which a partition is read again that the account might not read."""
_LEAST_READS = 2
"""The number of reads without a refusal after which the account may read a partition."""
_MOST_PARTITIONS = 8
"""The number of stalled partitions for which the brokers are asked at a time."""
_FEW, _MORE = 32, 8
"""The number of offsets at a partition's end that are read first, and the factor for each further read."""
_COMMITTED, _ALL = "read_committed", "read_uncommitted"
_NO_LEADER = -1

Partition = tuple[str, int]
"""Topic and number."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record of a partition; the value of a tombstone is empty."""

    key: bytes
    value: bytes
    offset: int
    headers: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, one: Any) -> StoredRecord:
        """Return the stored record of aiokafka's record."""
        return cls(one.key or b"", one.value or b"", one.offset, tuple(one.headers))


Take = Callable[[str, int, StoredRecord], object]
"""Topic, partition and record."""
TakeFollowed = Callable[[Partition, StoredRecord], object]
Wanted = Callable[[StoredRecord], bool]
Away = Callable[[list[str]], Awaitable[Collection[str]]]
"""Returns the topics among these that are not to be read."""


@dataclass(slots=True)
class Follower:
    """Reads the committed records of many partitions, also of topics that appear later. Made by ``opened``."""

    options: Mapping[str, Any]
    connect: Callable[[str], Awaitable[AIOKafkaConsumer]]
    """Returns a consumer of an isolation level."""
    answer_seconds: float = _ANSWER_SECONDS
    omits_unreadable: bool = False
    leaderless: frozenset[Partition] = frozenset()
    """The partitions that had no leader at the last call of ``partitions``: no broker can be asked about them.
    Empty unless ``omits_unreadable``."""
    _consumers: dict[str, AIOKafkaConsumer] = field(default_factory=dict)
    """By isolation level. The consumer of committed records reads the followed partitions; the other consumer
    is asked for ends, since no fetch delays its requests."""
    _known: set[tuple[str, str]] = field(default_factory=set)
    """Isolation level and topic: the topics that each consumer has looked for."""
    _followed: set[TopicPartition] = field(default_factory=set)
    _away: dict[TopicPartition, int] = field(default_factory=dict)
    """The followed partitions that are not assigned, as they cannot be read now, each with its position."""
    _denied: dict[TopicPartition, float] = field(default_factory=dict)
    """The followed partitions that the account may not read, each with the time of its last refusal."""
    _retried: dict[TopicPartition, int] = field(default_factory=dict)
    """Those of ``_denied`` that are read again, each with the value of ``_reads`` at the first attempt."""
    _reads: int = 0
    """The number of reads of all followed partitions."""
    _held: dict[Partition, tuple[int, TransactionOpen]] = field(default_factory=dict)
    """The followed partitions that an open transaction keeps from moving, each with its position."""
    _waiting: dict[Partition, tuple[int, float]] = field(default_factory=dict)
    """The partitions with records not yet returned: each one's position, and the time since which it has not
    moved."""

    @classmethod
    @asynccontextmanager
    async def opened(
        cls,
        options: Mapping[str, Any],
        *,
        wait_seconds: float = 0.05,
        answer_seconds: float = _ANSWER_SECONDS,
        fetch_bytes: int = _FETCH_BYTES,
        omits_unreadable: bool = False,
    ) -> AsyncIterator[Follower]:
        """Yield a follower, which connects at its first request.

        All of its methods raise KafkaLost, KafkaDenied or RecordsGone.

        ``wait_seconds``: how long a broker holds a fetch for which it has nothing. A partition added meanwhile
        waits as long; an idle follower repeats the fetch each time, which costs both sides a millisecond.

        ``answer_seconds``: how long brokers have to answer a request for partitions' offsets.

        ``omits_unreadable``: whether a followed partition that cannot be read is listed in ``unreadable``, and
        the others are read. ``partitions`` and ``unread`` must then be called at intervals, in this order.
        """
        how = {"wait_ms": int(1000 * wait_seconds), "fetch_bytes": fetch_bytes}
        async with AsyncExitStack() as stack:

            async def connect(isolation: str) -> AIOKafkaConsumer:
                return await stack.enter_async_context(open_consumer(options, isolation, **how))

            yield cls(options, connect, answer_seconds, omits_unreadable)

    @property
    def unreadable(self) -> dict[Partition, AqueductError]:
        """The partitions that cannot be read now, each with the reason; empty unless ``omits_unreadable``.

        TooFewBrokers: it had no leader at the last call of ``partitions``; such partitions are listed even if
        they are not followed. KafkaDenied: the account may not read it. TransactionOpen: a transaction of
        another producer kept it from moving at the last call of ``unread``.
        """
        denied = {
            (tp.topic, tp.partition): KafkaDenied("the account may not read it", topic=tp.topic)
            for tp in self._denied
        }
        leaderless = {
            (topic, number): TooFewBrokers(f"partition {number} has no leader", topic=topic)
            for topic, number in self.leaderless
        }
        held = {one: error for one, (_, error) in self._held.items()}
        return {**held, **denied, **leaderless}

    async def _consumer(self, isolation: str, topics: Iterable[str] = ()) -> AIOKafkaConsumer:
        """The consumer of an isolation level, once it knows these topics."""
        consumer = self._consumers.get(isolation)
        if consumer is None:
            consumer = self._consumers[isolation] = await self.connect(isolation)
        new = {(isolation, topic) for topic in topics} - self._known
        # Without this, the first request for a topic fails, and aiokafka repeats it a tenth of a second later.
        for _, topic in new:
            consumer._client.add_topic(topic)
        for _, topic in new:
            await consumer._client._wait_on_metadata(topic)
        self._known |= new
        return consumer

    async def metadata(self) -> Any:
        """Return all topics of the cluster and their partitions, as aiokafka's metadata."""
        async with self._explained():
            consumer = await self._consumer(_ALL)
            return await consumer._client.fetch_all_metadata()

    async def partitions(self, prefixes: Iterable[str]) -> dict[str, int]:
        """Return the topics whose names have one of these prefixes, each with its number of partitions."""
        wanted, cluster = tuple(prefixes), await self.metadata()
        found = {name: cluster.partitions_for_topic(name) or () for name in cluster.topics()}
        if self.omits_unreadable:
            self.leaderless = frozenset(
                (name, number)
                for name, numbers in found.items()
                for number in numbers
                if cluster.leader_for_partition(TopicPartition(name, number)) == _NO_LEADER
            )
            self._retry_denied()
            if self._away.keys() != {tp for tp in self._followed if self._is_away(tp)}:
                # aiokafka would ask without a pause for the leader of an assigned partition that has none.
                await self._assign({})
        return {name: len(numbers) for name, numbers in found.items() if name.startswith(wanted)}

    def _is_away(self, tp: TopicPartition) -> bool:
        return tp in self.leaderless or (tp in self._denied and tp not in self._retried)

    def _retry_denied(self) -> None:
        """Read denied partitions again; one that is not refused again by then may be read."""
        now = time.monotonic()
        for tp, reads in list(self._retried.items()):
            if self._reads - reads >= _LEAST_READS and tp not in self.leaderless:
                del self._denied[tp], self._retried[tp]
        for tp, at in self._denied.items():
            if now - at >= _DENIED_SECONDS:
                self._retried.setdefault(tp, self._reads)

    async def follow(self, starts: Mapping[Partition, int], *, alone: bool = False) -> None:
        """Follow these partitions too, each from its offset on; with ``alone``, follow only these."""
        if alone:
            self._followed = set()
        await self._assign(starts)

    async def leave(self, partitions: Iterable[Partition]) -> None:
        """Stop following these partitions."""
        left = {TopicPartition(*one) for one in partitions}
        self._followed -= left
        for tp in left:
            self._denied.pop(tp, None)
            self._retried.pop(tp, None)
        self._held = {one: held for one, held in self._held.items() if one not in left}
        await self._assign({})

    async def _assign(self, starts: Mapping[Partition, int]) -> None:
        """Follow these partitions too, and assign all followed partitions that have a leader."""
        async with self._explained():
            committed = await self._consumer(_COMMITTED, (topic for topic, _ in starts))
            begun = {TopicPartition(*one): offset for one, offset in starts.items()}
            positions = {
                tp: await self.position(tp) for tp in self._followed - begun.keys()
            } | begun
            self._away = {tp: at for tp, at in positions.items() if self._is_away(tp)}
            read = {tp: at for tp, at in positions.items() if tp not in self._away}
            paused = self._paused() & (read.keys() - begun.keys())
            committed.assign(list(read))
            for tp, offset in read.items():
                committed.seek(tp, offset)
            if paused:
                committed.pause(*paused)
            self._followed = set(positions)

    async def read(
        self, seconds: float, *, most: int | None = None, only: Iterable[Partition] = ()
    ) -> dict[Partition, list[Any]]:
        """Return the records that arrive, as aiokafka's objects, after at most so many seconds.

        ``most``: the largest number of records; without it, all records fetched meanwhile are returned.
        ``only``: the partitions to read from; if empty, all followed partitions.
        """
        chosen = [TopicPartition(*one) for one in only]
        if not {*(chosen or self._followed)} - self._away.keys():
            # Without an assigned partition, aiokafka would wait for the first one without a limit.
            await asyncio.sleep(seconds)
            return {}
        self._reads += not chosen
        chosen = [tp for tp in chosen if tp not in self._away]
        async with self._explained():
            committed = await self._consumer(_COMMITTED)
            try:
                batches = await committed.getmany(
                    *chosen, timeout_ms=int(1000 * seconds), max_records=most
                )
            except TopicAuthorizationFailedError as error:
                denied = {tp for tp in self._followed if error.args == (tp.topic,)}
                if not denied:
                    raise
                if not self.omits_unreadable:
                    (topic,) = error.args
                    raise KafkaDenied("the account may not read it", topic=topic) from error
                for tp in denied:
                    self._denied[tp] = time.monotonic()
                    self._retried.pop(tp, None)
                await self._assign({})
                return {}
            return {(tp.topic, tp.partition): records for tp, records in batches.items()}

    async def position(self, partition: Partition) -> int:
        """Return the next offset: after the last record returned and the transaction markers that follow it."""
        tp = TopicPartition(*partition)
        if tp in self._away:
            return self._away[tp]
        return int(await self._consumers[_COMMITTED].position(tp))

    async def beginnings(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the first offset that each partition still has."""
        isolation = _ALL if _ALL in self._consumers else _COMMITTED
        return await self._offsets(
            isolation, partitions, lambda one, tps: one.beginning_offsets(tps)
        )

    async def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset after each partition's last record, open transactions included."""
        return await self._offsets(_ALL, partitions, lambda one, tps: one.end_offsets(tps))

    async def readable(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset up to which each partition can be read now: that of its first open transaction."""
        return await self._offsets(_COMMITTED, partitions, lambda one, tps: one.end_offsets(tps))

    async def since(self, partitions: Collection[Partition], time_ms: int) -> dict[Partition, int]:
        """Return the offset of each partition's first readable record of ``time_ms`` or later.

        Partitions without such a record are omitted.
        """

        async def ask(
            one: AIOKafkaConsumer, tps: list[TopicPartition]
        ) -> dict[TopicPartition, int]:
            found = await one.offsets_for_times(dict.fromkeys(tps, time_ms))
            return {tp: at.offset for tp, at in found.items() if at is not None}

        return await self._offsets(_COMMITTED, partitions, ask)

    async def _offsets(
        self,
        isolation: str,
        partitions: Collection[Partition],
        ask: Callable[
            [AIOKafkaConsumer, list[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]
        ],
    ) -> dict[Partition, int]:
        if not partitions:
            return {}
        async with self._explained():
            await self._consumer(isolation)
            try:
                async with asyncio.timeout(self.answer_seconds):
                    consumer = await self._consumer(isolation, (topic for topic, _ in partitions))
                    answer = await ask(consumer, [TopicPartition(*one) for one in partitions])
            except TimeoutError:
                named = ", ".join(f"{name} [{number}]" for name, number in sorted(partitions)[:3])
                raise KafkaLost(
                    f"no answer within {self.answer_seconds:.0f} s for offsets of {len(partitions)} "
                    f"partitions: {named}"
                ) from None
        return {(tp.topic, tp.partition): int(offset) for tp, offset in answer.items()}

    async def unread(self) -> dict[Partition, int]:
        """Return the number of offsets of each partition not returned yet, open transactions included.

        Partitions that are not assigned now, as they cannot be read, are omitted. To be called at intervals:
        raise TransactionOpen if an open transaction has kept a partition from moving for more than HELD
        seconds; with ``omits_unreadable`` it is listed in ``unreadable``.
        """
        asked = self._followed - self._away.keys()
        ends = await self.ends([(tp.topic, tp.partition) for tp in asked])
        positions = {one: await self.position(one) for one in ends}
        now, paused, before = time.monotonic(), self._paused(), self._waiting
        self._waiting = {
            one: same if (same := before.get(one, (at, now)))[0] == at else (at, now)
            for one, at in positions.items()
            if at < ends[one] and (one in self._held or TopicPartition(*one) not in paused)
        }
        self._held = {
            one: (at, error)
            for one, (at, error) in self._held.items()
            if one not in positions or at == positions[one] < ends[one]
        }
        still = {one: at for one, (at, since) in self._waiting.items() if now - since > HELD}
        if self.omits_unreadable:
            await self._note_held(still)
        else:
            await self.refuse_held(still)
        for one, at in islice(still.items(), _MOST_PARTITIONS):
            self._waiting[one] = at, now
        return {one: max(0, end - positions[one]) for one, end in ends.items()}

    async def _note_held(self, positions: Mapping[Partition, int]) -> None:
        """Note which of these partitions open transactions keep from moving."""
        for one, at in islice(positions.items(), _MOST_PARTITIONS):
            self._held.pop(one, None)
            try:
                await refuse_open(self.options, *one, position=at)
            except TransactionOpen as error:
                self._held[one] = at, error

    async def refuse_held(self, positions: Mapping[Partition, int]) -> None:
        """Raise TransactionOpen if an open transaction began at or before one of these positions.

        Brokers are asked about at most _MOST_PARTITIONS.
        """
        for one, at in islice(positions.items(), _MOST_PARTITIONS):
            await refuse_open(self.options, *one, position=at)

    def pause(self, partitions: Collection[Partition]) -> None:
        """Fetch nothing more from these partitions, and fetch again from all others."""
        now = self._paused()
        wanted = {TopicPartition(*one) for one in partitions} & (self._followed - self._away.keys())
        if wanted != now:
            self._consumers[_COMMITTED].pause(*(wanted - now))
            self._consumers[_COMMITTED].resume(*(now - wanted))

    def _paused(self) -> set[TopicPartition]:
        return set(self._consumers[_COMMITTED].paused()) if self._followed else set()

    @asynccontextmanager
    async def _explained(self) -> AsyncIterator[None]:
        try:
            yield
        except OffsetOutOfRangeError as error:
            out = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
            lost = {(tp.topic, tp.partition): at for tp, at in out.items()}
            gone = RecordsGone(
                ", ".join(
                    f"{topic} [{one}] has no offset {at}" for (topic, one), at in lost.items()
                ),
                # A merge, whose records these may be too, raises an error of its own.
                remedy="Run it again: it begins at what the topic has by then. If records are removed again "
                "meanwhile, set a longer retention.ms for the topic.",
            )
            gone.lost = lost
            raise gone from error
        except (KafkaError, TimeoutError) as error:
            raise await explained(error, self.options) from error


@asynccontextmanager
async def open_consumer(
    options: Mapping[str, Any], isolation: str, *, fetch_bytes: int, wait_ms: int
) -> AsyncIterator[AIOKafkaConsumer]:
    """Yield a consumer without a group, which is stopped at the block's end.

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
        yield consumer
    finally:
        # The records have been read; an error when the connections are closed changes nothing.
        with suppress(KafkaError, OSError, TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await consumer.stop()


# Followed partitions read up to ends.


async def to_ends(
    follower: Follower, ends: Mapping[Partition, int], *, stops: bool = False
) -> AsyncGenerator[tuple[Partition, list[StoredRecord]]]:
    """Yield the records of followed partitions up to these ends, as they arrive and in bounded numbers.

    ``stops``: the follower has no other partitions, and no partition is read past its end. Without it, records
    after an end are yielded too if they arrive together with the last records before it.

    Raise TransactionOpen if an open transaction keeps a partition from moving, KafkaLost if no partition moves
    for another reason, and the follower's errors. The caller's own time is not counted.
    """
    unread, reached = dict(ends), dict[Partition, int]()
    moved = asked = time.monotonic()
    while True:
        positions, now = {one: await follower.position(one) for one in unread}, time.monotonic()
        if positions != reached:
            # Positions also move past markers whose records were compacted away, which may be many.
            moved = asked = now
        unread = {one: end for one, end in unread.items() if positions[one] < end}
        reached = {one: positions[one] for one in unread}
        if not unread:
            return
        if stops and len(unread) < len(positions):
            follower.pause(ends.keys() - unread.keys())
        is_over = now - moved > SILENCE
        if is_over or now - asked > HELD:
            # A transaction may stay open longer than SILENCE; the error names it before then.
            await follower.refuse_held(reached)
            asked = time.monotonic()
        if is_over:
            topic, partition = next(iter(unread))
            raise KafkaLost("an end was not reached", topic=topic, partition=partition)
        batches = await follower.read(
            _POLL_SECONDS, most=_MOST_RECORDS, only=() if stops else unread
        )
        for one, records in batches.items():
            if stops and records[-1].offset >= ends[one]:
                records = [each for each in records if each.offset < ends[one]]
            if records:
                yield one, [StoredRecord.of(each) for each in records]


async def read_to_ends(
    follower: Follower, partitions: Iterable[Partition], take: TakeFollowed
) -> None:
    """Pass on all records up to the ends that these followed partitions have now. See ``to_ends``."""
    async for one, records in to_ends(follower, await follower.ends(list(partitions))):
        for record in records:
            take(one, record)


async def read_some(
    follower: Follower, partitions: Iterable[Partition], take: TakeFollowed
) -> None:
    """Pass on the records of these followed partitions that come within a moment."""
    batches = await follower.read(_POLL_SECONDS, most=_MOST_RECORDS, only=partitions)
    for one, records in batches.items():
        for each in records:
            take(one, StoredRecord.of(each))


# Partitions read once, up to the ends that they had at the beginning of the read.


@asynccontextmanager
async def _reading(
    options: Mapping[str, Any], *, fetch_bytes: int = _FETCH_BYTES
) -> AsyncIterator[Follower]:
    try:
        async with Follower.opened(
            options, wait_seconds=_POLL_SECONDS, answer_seconds=SILENCE, fetch_bytes=fetch_bytes
        ) as follower:
            yield follower
    except RecordsGone as error:
        # The next read begins after the records that are gone.
        raise KafkaLost(error.detail) from error


async def read_in_pieces(
    options: Mapping[str, Any],
    topic: str,
    partition: int,
    *,
    start: int = 0,
    waits_for_open: bool = True,
) -> AsyncGenerator[list[StoredRecord]]:
    """Yield the committed records from ``start`` to the partition's present end, in order, as they arrive.

    Without ``waits_for_open``, yield only what can be read now: nothing after a transaction that is still open.

    Raise TransactionOpen if a transaction stays open, KafkaLost if the end is not reached for another reason,
    TopicUnfit if ``start`` is past the end.
    """
    one = topic, partition
    async with _reading(options, fetch_bytes=_FETCH_BYTES_OF_ONE) as follower:
        ask = follower.ends if waits_for_open else follower.readable
        end = (await ask([one]))[one]
        beginning = (await follower.beginnings([one]))[one]
        if start > end:
            raise TopicUnfit(
                f"it ends at offset {end}, but a checkpoint was written at {start}: "
                "it was truncated or recreated",
                topic=topic,
            )
        await follower.follow({one: max(start, beginning)})
        async for _, records in to_ends(follower, {one: end}, stops=True):
            yield records


async def read_each(
    options: Mapping[str, Any],
    topic: str,
    partition: int,
    *,
    start: int = 0,
    take: Callable[[StoredRecord], object],
    waits_for_open: bool = True,
) -> int:
    """Pass on each record of ``read_in_pieces`` as it arrives; return their number.

    The records need not all fit into memory.
    """
    count = 0
    async for records in read_in_pieces(
        options, topic, partition, start=start, waits_for_open=waits_for_open
    ):
        for record in records:
            take(record)
        count += len(records)
    return count


async def read_to_end(
    options: Mapping[str, Any], topic: str, partition: int, *, start: int = 0
) -> list[StoredRecord]:
    """Return the records of ``read_in_pieces``."""
    pieces = read_in_pieces(options, topic, partition, start=start)
    return [record async for records in pieces for record in records]


async def read_first(
    options: Mapping[str, Any],
    topic: str,
    partition: int,
    *,
    start: int = 0,
    wanted: Wanted,
    waits_for_open: bool = True,
) -> StoredRecord | None:
    """Return the first wanted record of ``read_in_pieces``; later pieces are not read."""
    found = read_in_pieces(options, topic, partition, start=start, waits_for_open=waits_for_open)
    async with aclosing(found) as pieces:
        async for records in pieces:
            for record in records:
                if wanted(record):
                    return record
    return None


async def firsts(
    options: Mapping[str, Any], starts: Mapping[Partition, int], *, wanted: Wanted
) -> dict[Partition, StoredRecord]:
    """Return the first wanted record of each partition, from its offset on, among those that can be read now.

    Partitions without such a record are omitted. Each partition is read on until a wanted record is found.
    """
    found: dict[Partition, StoredRecord] = {}
    async with _reading(options) as follower:
        lows, ends = await follower.beginnings(starts), await follower.readable(starts)
        begins, step = {one: max(start, lows[one]) for one, start in starts.items()}, _FEW
        while begins := {one: at for one, at in begins.items() if at < ends[one]}:
            await follower.follow(begins, alone=True)
            tops = {one: min(at + step, ends[one]) for one, at in begins.items()}
            async for one, records in to_ends(follower, tops, stops=True):
                if one not in found and (record := next(filter(wanted, records), None)):
                    found[one] = record
            begins = {one: at for one, at in tops.items() if one not in found}
            step *= _MORE
    return found


async def read_all(options: Mapping[str, Any], partitions: Iterable[Partition], take: Take) -> None:
    """Pass on all records of many partitions, those of each partition in order. See ``read_in_pieces``."""
    wanted = list(partitions)
    if not wanted:
        return
    async with _reading(options) as follower:
        ends = await follower.ends(wanted)
        await follower.follow(await follower.beginnings(wanted))
        async for one, records in to_ends(follower, ends, stops=True):
            for record in records:
                take(*one, record)


async def end_of(options: Mapping[str, Any], topic: str, partition: int) -> int:
    """Return the offset after a partition's last record; 0 if none was ever written."""
    async with _reading(options) as follower:
        return (await follower.ends([(topic, partition)]))[topic, partition]


async def beginnings(
    options: Mapping[str, Any], partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """Return the first offset that each partition still has."""
    async with _reading(options) as follower:
        return await follower.beginnings(list(partitions))


async def newest(
    options: Mapping[str, Any],
    topics: Iterable[str],
    *,
    since_ms: int | None,
    wanted: Wanted,
    away: Away | None = None,
) -> dict[Partition, StoredRecord]:
    """Return the newest wanted record of each partition of these topics, not before ``since_ms`` if given.

    Partitions without such a record are omitted, and so are missing topics. See ``read_in_pieces``.

    A partition is read further back until a wanted record, or its first record since then, is found. ``away``
    is called only with topics of which a copy is not in sync: a partition without a leader cannot be read, and
    the end of a transaction may be missing where too few copies are in sync.
    """
    found: dict[Partition, StoredRecord] = {}
    async with _reading(options) as follower:
        spans, step = await _spans(follower, sorted(set(topics)), since_ms, away), _FEW
        while spans:
            starts = {one: max(low, end - step) for one, (low, end) in spans.items()}
            ends = {one: end for one, (_, end) in spans.items()}
            await follower.follow(starts, alone=True)
            async for one, records in to_ends(follower, ends, stops=True):
                for record in records:
                    if wanted(record):
                        found[one] = record
            spans = {
                one: (low, starts[one])
                for one, (low, _) in spans.items()
                if one not in found and starts[one] > low
            }
            step *= _MORE
    return dict(sorted(found.items()))


async def _spans(
    follower: Follower, topics: list[str], since_ms: int | None, away: Away | None
) -> dict[Partition, tuple[int, int]]:
    """The range of offsets of each partition in which its newest record is; empty partitions are omitted."""
    cluster = await follower.metadata()
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
        (name, number) for name in topics for number in cluster.partitions_for_topic(name) or ()
    ]
    if since_ms is None:
        lows = await follower.beginnings(partitions)
    else:
        lows = await follower.since(partitions, since_ms)
    ends = await follower.ends(lows)
    return {one: (low, ends[one]) for one, low in lows.items() if low < ends[one]}


# Records.


def partition_of(key: bytes, partitions: int) -> int:
    """Return a key's partition by aiokafka's implementation of Kafka's rule, not by our own: for audits."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


def format_of(record: StoredRecord) -> str | None:
    """Return the format of a record or tombstone; None for the envelope."""
    found = dict(record.headers).get(HEADER_FORMAT)
    return None if found is None else found.decode()


def source_of(record: StoredRecord) -> dict[str, Any]:
    """Return ``source`` of a record; empty for a tombstone.

    A record in another format than the envelope has a part of it in headers (``docs/formats.md``). Raise
    ValueError if the value is no JSON object, and KeyError or ValueError if such a record lacks these headers.
    """
    if not record.value:
        return {}
    if format_of(record) is None:
        value = orjson.loads(record.value)
        if not isinstance(value, dict):
            raise ValueError("the value is no JSON object")
        source = value.get("source")
        return source if isinstance(source, dict) else {}
    headers = dict(record.headers)
    name, epoch, seq = origin_in(headers)
    gtid = headers[HEADER_GTID].decode() if HEADER_GTID in headers else None
    return {"name": name, "seq": seq, "epoch": epoch, "gtid": gtid}


TakeOfTail = Callable[[int, StoredRecord], object]
"""Partition and record; an error that it raises ends the process's tail, so it should raise none."""

_TAIL_WAIT_SECONDS = 0.2
"""Seconds that a broker holds a fetch for which it has nothing."""
_TAIL_POLL_SECONDS = 1.0
_LONGEST_PAUSE = 10.0
_TAIL_CHECK_SECONDS = 10.0
"""Seconds without a record after which the broker is asked whether there are unread records."""


@dataclass(slots=True)
class Tail:
    """A topic's partitions, from their committed ends at the first read, or from given offsets."""

    options: Mapping[str, Any]
    topic: str
    partitions: Iterable[int]
    take: TakeOfTail
    start: Mapping[int, int] = field(default_factory=dict)
    error: AqueductError | None = None
    """The error that prevents reading now."""
    _next: dict[Partition, int] = field(default_factory=dict)
    """The next offset to read."""
    _placed: asyncio.Event = field(default_factory=asyncio.Event)
    _failed: asyncio.Event = field(default_factory=asyncio.Event)
    _late: dict[Partition, int] = field(default_factory=dict)
    """Partitions whose end was past the read position at the last check, and that position."""

    def __post_init__(self) -> None:
        self._next = {(self.topic, part): at for part, at in self.start.items()}

    async def run(self) -> None:
        """Follow, until cancelled."""
        backoff = Backoff(0.5, _LONGEST_PAUSE)
        while True:
            began = time.monotonic()
            try:
                async with Follower.opened(
                    self.options, wait_seconds=_TAIL_WAIT_SECONDS
                ) as follower:
                    await self._begin(follower)
                    await self._follow(follower)
            except RecordsGone as error:
                self._cut(error)
            except (AqueductError, OSError) as error:
                self._report(translated(error))
            if time.monotonic() - began > _LONGEST_PAUSE:
                backoff.reset()
            await asyncio.sleep(backoff.pause())

    async def placed(self) -> None:
        """Wait until every record committed from now on will be read; raise the error that prevents it."""
        while not self._placed.is_set():
            waits = [asyncio.create_task(each.wait()) for each in (self._placed, self._failed)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if self.error is not None and not self._placed.is_set():
                raise copy.copy(self.error)

    def to_json(self) -> dict[str, Any]:
        """Return the tail's state for the status page."""
        error = self.error
        return {
            "followed": self._placed.is_set() and error is None,
            "error": None if error is None else f"{error.name}: {error}",
        }

    async def _begin(self, follower: Follower) -> None:
        """Follow each partition from its next offset on; a new partition from its committed end."""
        every = [(self.topic, part) for part in self.partitions]
        # Records of a transaction open at that end are read later, once committed.
        self._next |= await follower.readable([one for one in every if one not in self._next])
        await follower.follow({one: self._next[one] for one in every})
        if self.error is not None:
            log.info("%s is followed again", self.topic)
        self.error = None
        self._failed.clear()
        self._placed.set()

    async def _follow(self, follower: Follower) -> None:
        self._late = {}
        checked = time.monotonic()
        while True:
            batches = await follower.read(_TAIL_POLL_SECONDS)
            for one, records in batches.items():
                for record in records:
                    self._next[one] = record.offset + 1
                    self.take(one[1], StoredRecord.of(record))
            if not batches and time.monotonic() - checked > _TAIL_CHECK_SECONDS:
                await self._check(follower)
                checked = time.monotonic()

    async def _check(self, follower: Follower) -> None:
        """Raise KafkaLost if unread records do not arrive; aiokafka only logs the reason."""
        ends = await follower.readable(self._next)
        positions = {one: await follower.position(one) for one in ends}
        late = {one: at for one, at in positions.items() if at < ends[one]}
        # Markers of transactions give no record, but move the position.
        if late.items() & self._late.items():
            raise KafkaLost("it has records that do not come", topic=self.topic)
        self._late = late

    def _report(self, error: AqueductError) -> None:
        known, self.error = self.error, error
        error.context.setdefault("topic", self.topic)
        self._failed.set()
        if known is None or known.name != error.name:
            log.error(
                "%s is not followed now, commands are not received: %s: %s",
                self.topic, error.name, error,
            )  # fmt: skip

    def _cut(self, error: RecordsGone) -> None:
        """Restart at the end of a topic that was truncated or recreated; every run reads the topic itself."""
        lost = error.lost or self._next
        log.error(
            "%s was truncated or recreated: it has no offset %s; it is followed from its end",
            self.topic, ", ".join(f"{number}:{at}" for (_, number), at in lost.items()),
        )  # fmt: skip
        for one in list(lost):
            self._next.pop(one, None)
