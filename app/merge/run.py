"""One run of a merge: records of its shards' topics in, ordered topics out, exactly once.

Invariant: a run begins from the journal. Each Kafka transaction holds records, unchanged but for their place,
and the cursors after them; the transactional id fences every earlier run before the cursors are read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from app import metrics
from app.coordination.write_permit import WritePermit
from app.destination.takeover.committed_state import committed_state
from app.merge.ordering import Held, Lane
from app.merge.plan import MergePlan, MergeStatus
from app.merge.shares import Shares
from app.merge.start_check import check_starts
from app.service.status import State
from connectors.kafka.producer import TransactionalProducer, send_finished
from connectors.kafka.reading.follower import Follower, Partition
from connectors.kafka.record_batches import BatchWriter, FinishedBatch
from connectors.kafka.topics.topics import Topics
from connectors.wire import journal_topic
from tables.journal.state import partition_of
from tables.merge_cursor import MERGE_PART, MergeCursor, MergeCursors, note_of

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_MOST_RECORDS = 20_000
"""Records of one Kafka transaction, about."""


@dataclass(slots=True, kw_only=True)
class MergeRun:
    """A run, from its first read of the journal to the error that ends it."""

    plan: MergePlan
    status: MergeStatus
    permit: WritePermit
    installation: Callable[[], Awaitable[str]]
    succeeded: Callable[[], None]
    """Called after each commit."""
    _cursors: MergeCursors = field(default_factory=MergeCursors)
    _since: float = field(default_factory=time.time)

    async def run(self) -> None:
        """Run until an error."""
        plan = self.plan
        producer = TransactionalProducer(
            f"{await self.installation()}.{plan.unit}",
            options=plan.kafka_options,
            compression=plan.compression,
        )
        try:
            self.permit.check()
            await producer.init_transactions()
            state = await committed_state(plan.journal)
            state.check_readable()
            self._cursors = state.parts[MERGE_PART]
            check = partial(check_starts, plan)
            async with Follower.opened(plan.kafka_options) as follower:
                await self._merge(producer, Shares(plan, follower, self._cursors, check))
        finally:
            await producer.discard()

    async def _merge(self, producer: TransactionalProducer, shares: Shares) -> None:
        topics = Topics(self.plan.kafka_options)
        self.status.show(State.RUNNING)
        rest: list[tuple[Partition, Lane, Held]] = []
        while True:
            self.permit.check()
            for name, partitions in (await shares.look()).items():
                await topics.ensure(self.plan.topics.rows(name, partitions))
            # What could be released is published before more is read.
            await shares.read(0 if rest else _POLL_SECONDS)
            await shares.confirm()
            shares.complete_absent()
            stalled = self._stalled(shares)
            now = time.monotonic()
            for merged, order in shares.orders.items():
                rest += [(merged, *one) for one in order.take(now, stalled)]
            self._show(shares)
            if rest:
                part, rest = rest[:_MOST_RECORDS], rest[_MOST_RECORDS:]
                await self._publish(producer, shares, part)

    def _stalled(self, shares: Shares) -> frozenset[str]:
        """The shards that are not waited for now; those that stall are reported in any case."""
        now, after = time.time(), self.plan.stalled_after
        found = set()
        for shard, status in self.status.shards.items():
            mark = shares.marks.get(shard)
            status.reached_ms = mark
            lag = now - (self._since if mark is None else mark / 1000)
            self.status.stall(shard, is_stalled=lag > after)
            metrics.MERGE_LAG.labels(self.plan.name, shard).set(max(0.0, lag))
            if lag > after:
                found.add(shard)
        return frozenset(found if self.plan.passes else ())

    async def _publish(
        self,
        producer: TransactionalProducer,
        shares: Shares,
        part: Iterable[tuple[Partition, Lane, Held]],
    ) -> None:
        """Commit records and the cursors after them; on any error none of it is visible."""
        writers: dict[Partition, BatchWriter] = {}
        reached: dict[tuple[Partition, str], int] = {}
        counts: dict[str, int] = {}
        for merged, lane, held in part:
            writer = writers.get(merged) or writers.setdefault(merged, self._writer(merged))
            writer.append(held.key, held.value, held.headers)
            reached[merged, lane.shard] = held.offset + 1
            counts[lane.shard] = counts.get(lane.shard, 0) + 1
        batches = [
            batch._replace(partition=partition)
            for (_, partition), writer in writers.items()
            for batch in writer.finished()
        ]
        cursors = self._after(shares, reached)
        await producer.learn({batch.topic for batch in batches})
        await self._commit(producer, batches, cursors)
        for cursor in cursors:
            self._cursors.by_topic[cursor.topic] = cursor
        self.succeeded()
        for shard, count in counts.items():
            self.status.shards[shard].records += count
            metrics.MERGED.labels(self.plan.name, shard).inc(count)

    async def _commit(
        self,
        producer: TransactionalProducer,
        batches: list[FinishedBatch],
        cursors: list[MergeCursor],
    ) -> None:
        journal = self.plan.topics.journal()
        number = partition_of(self.plan.unit, journal.partitions)
        async with self.permit.writing(), producer.transaction() as kafka:
            sent = [await send_finished(kafka, batch) for batch in batches]
            for cursor in cursors:
                key, value = note_of(cursor)
                topic = journal_topic(self.plan.prefix)
                sent.append(await kafka.send(topic, key=key, value=value, partition=number))
            await asyncio.gather(*sent)
            self.permit.lease.check()

    def _writer(self, merged: Partition) -> BatchWriter:
        """A writer of one partition, which numbers it 0."""
        return BatchWriter(
            merged[0],
            partitions=1,
            compression=self.plan.compression,
            timestamp_ms=time.time_ns() // 1_000_000,
        )

    def _after(
        self, shares: Shares, reached: dict[tuple[Partition, str], int]
    ) -> list[MergeCursor]:
        """The cursors after a commit, of the topics that it took records from."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition), share in shares.by_partition.items():
            offset = reached.get((share.merged, share.lane.shard))
            if offset is not None:
                offsets.setdefault(topic, {})[str(partition)] = offset
        now = time.time_ns() // 1_000_000
        return [
            MergeCursor(
                merge=self.plan.unit,
                topic=topic,
                offsets={**self._known(topic), **found},
                ts_ms=now,
            )
            for topic, found in offsets.items()
        ]

    def _known(self, topic: str) -> dict[str, int]:
        cursor = self._cursors.by_topic.get(topic)
        return cursor.offsets if cursor is not None else {}

    def _show(self, shares: Shares) -> None:
        held = dict.fromkeys(self.status.shards, 0)
        for share in shares.by_partition.values():
            held[share.lane.shard] += len(share.lane.records)
        for shard, count in held.items():
            self.status.shards[shard].held = count
        metrics.MERGE_HELD.labels(self.plan.name).set(sum(held.values()))
        late = sum(order.late for order in shares.orders.values())
        metrics.MERGE_LATE.labels(self.plan.name).inc(max(0, late - self.status.late))
        self.status.late = late
