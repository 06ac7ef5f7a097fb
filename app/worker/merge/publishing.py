"""Publication of merged records: one Kafka transaction for them and the cursors after them.

Invariant: on any error nothing of a transaction is visible, and no cursor has moved. A record too large for its
topic is an error. If a batch of several records is too large, the next batches are smaller.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.worker.coordination.write_permit import WritePermit
from app.worker.merge.ordering import Held
from app.worker.merge.plan import MergePlan
from app.worker.merge.released import ReleasedRecord
from app.worker.merge.shares import Shares
from app.worker.pipeline.publish.topic_ids import TopicIds
from app.worker.pipeline.publish.transaction_size import Budget
from connectors.errors import (
    AqueductError,
    BatchTooLarge,
    KafkaLost,
    KafkaRefused,
    KafkaSlow,
    RecordTooLarge,
    RunRestarts,
)
from connectors.kafka.producer import ANSWER_TIMEOUT, TransactionalProducer, send_finished
from connectors.kafka.reading import Partition
from connectors.kafka.record_batches import BatchWriter, FinishedBatch
from connectors.kafka.refusal_errors import refused_batch, refused_topics, too_large
from connectors.kafka.topics import Topics
from tables.journal_format import Entry
from tables.state.merge_cursor import MergeCursor, MergeCursors, checksum, note_of

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class MergePublisher:
    """The one writer of a merge, for one run."""

    plan: MergePlan
    producer: TransactionalProducer
    permit: WritePermit
    budget: Budget
    """The maximum size of a transaction and of a batch, over all runs."""
    topics: Topics
    ids: TopicIds
    cursors: MergeCursors
    refused: dict[str, AqueductError] = field(default_factory=dict)
    """The topics whose brokers have just refused records, with their errors."""
    _notes: list[Entry] = field(default_factory=list)
    """Ids of topics that the journal does not have yet."""
    _batch_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self._batch_bytes = self.budget.batch_bytes(self.plan.max_batch_bytes)

    async def unusable(self, counts: Mapping[str, int]) -> dict[str, AqueductError]:
        """Make sure that merged topics exist, with at least these partition counts; ask for many at once.

        A topic is created only once. A record keeps the number of its partition in the share, so the records of
        a key stay in one partition.

        Return the topics that cannot be written to, with errors as of ``Topics.ensure``, TopicReplaced, and
        TooFewBrokers if a topic takes no records now. Raise KafkaLost, and KafkaDenied if the account may not
        connect.
        """
        found = await self.topics.grow(counts)
        plans = [
            replace(self.plan.topics.rows(name, count), may_have_more=True)
            for name, count in sorted(counts.items())
            if name not in found
        ]
        found |= await self.topics.unfit(*plans, before=self.ids.known)
        notes, replaced = await self.ids.confirm_each(counts.keys() - found.keys())
        self._notes += notes
        found |= replaced
        return found | await self.topics.unwritable(counts.keys() - found.keys())

    async def publish(self, shares: Shares, part: Iterable[ReleasedRecord]) -> None:
        """Commit records and the cursors after them."""
        writers: dict[Partition, BatchWriter] = {}
        reached: dict[tuple[Partition, str], Held] = {}
        for merged, lane, held in part:
            writer = writers.get(merged) or writers.setdefault(merged, self._writer(merged))
            writer.append(held.key, held.value, held.headers)
            reached[merged, lane.shard] = held
        batches = [
            batch._replace(partition=partition)
            for (_, partition), writer in writers.items()
            for batch in writer.finished()
        ]
        cursors = self._after(shares, reached)
        await self.producer.learn({batch.topic for batch in batches})
        began = time.monotonic()
        await self._commit(batches, cursors)
        for cursor in cursors:
            self.cursors.by_topic[cursor.topic] = cursor
        self._adapt(time.monotonic() - began)

    def _adapt(self, seconds: float) -> None:
        """Adapt the size of later transactions to the time that this one took."""
        if self.budget.through(seconds / (self.budget.timeout_factor * ANSWER_TIMEOUT)):
            log.info(
                "%s: publishes up to %d bytes at once again", self.plan.unit, self.budget.bytes
            )

    async def _commit(self, batches: list[FinishedBatch], cursors: list[MergeCursor]) -> None:
        journal = self.plan.journal
        sent: list[Any] = []
        refusals, writing = self._refusals(batches, sent), self.permit.writing()
        async with refusals, writing, self.producer.transaction() as kafka:
            for batch in batches:
                sent += [await send_finished(kafka, batch)]
            notes = await journal.put(kafka, [*self._notes, *map(note_of, cursors)])
            await asyncio.gather(*sent, *notes)
            self.permit.lease.check()
        self._notes = []

    @contextlib.asynccontextmanager
    async def _refusals(self, batches: list[FinishedBatch], sent: list[Any]) -> AsyncIterator[None]:
        """Name what the broker refused, and set ``refused``; raise RunRestarts if topics take no records."""
        try:
            yield
        except KafkaLost as error:
            if away := await self._away(batches):
                raise RunRestarts(f"as topics take no records: {', '.join(away)}") from error
            if isinstance(error, KafkaSlow):
                raise KafkaSlow(
                    error.detail,
                    records=sum(batch.records for batch in batches),
                    bytes=sum(len(batch.raw) for batch in batches),
                ) from error
            raise
        except KafkaRefused:
            self.refused = refused_topics(zip(batches, sent, strict=False))
            raise
        except RecordTooLarge as error:
            batch = refused_batch(zip(batches, sent, strict=False), error.__cause__)
            if batch is None:
                raise
            found = too_large(batch, await self.topics.largest(batch.topic))
            if isinstance(found, BatchTooLarge):
                self.budget.refused(found.context.get("limit"), sent=found.context["size"])
            else:
                self.refused = {batch.topic: found}
            raise found from error

    async def _away(self, batches: list[FinishedBatch]) -> list[str]:
        """The topics of a transaction that take no records now; the next run omits them."""
        with contextlib.suppress(AqueductError, TimeoutError):
            async with asyncio.timeout(ANSWER_TIMEOUT):
                return sorted(await self.topics.unwritable({one.topic for one in batches}))
        return []

    def _writer(self, merged: Partition) -> BatchWriter:
        """A writer for one partition, which has the number 0 in its batches."""
        return BatchWriter(
            merged[0],
            partitions=1,
            compression=self.plan.compression,
            timestamp_ms=time.time_ns() // 1_000_000,
            max_bytes=self._batch_bytes,
        )

    def _after(
        self, shares: Shares, reached: dict[tuple[Partition, str], Held]
    ) -> list[MergeCursor]:
        """The cursors after a commit, for the topics from which it took records."""
        found: dict[str, dict[str, Held]] = {}
        for (topic, partition), share in shares.by_partition.items():
            held = reached.get((share.merged, share.lane.shard))
            if held is not None:
                found.setdefault(topic, {})[str(partition)] = held
        return [self._cursor(topic, last) for topic, last in found.items()]

    def _cursor(self, topic: str, last: dict[str, Held]) -> MergeCursor:
        before = self.cursors.by_topic.get(topic)
        offsets = {part: one.offset + 1 for part, one in last.items()}
        sums = {part: checksum(one.key, one.value, one.headers) for part, one in last.items()}
        return MergeCursor(
            merge=self.plan.unit,
            topic=topic,
            offsets=offsets if before is None else {**before.offsets, **offsets},
            checksums=sums if before is None else {**before.checksums, **sums},
            ts_ms=time.time_ns() // 1_000_000,
        )
