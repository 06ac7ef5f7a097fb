"""One run of a merge: records of its shards' topics in, ordered topics out, exactly once.

Invariant: a run begins from the journal; its transactional id fences every earlier run before it reads the
cursors. Each Kafka transaction contains records, unchanged except for their topic and offset, and the cursors
after them. Nothing is read while released records wait to be published, so the records held are bounded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from app import metrics
from app.worker.coordination.cluster_view import Identity
from app.worker.coordination.write_permit import WritePermit
from app.worker.destination.background import beside
from app.worker.destination.takeover.recovery import committed_state
from app.worker.merge.plan import MergePlan, MergeStatus, RefusedTopic
from app.worker.merge.publishing import MergePublisher
from app.worker.merge.released import Released
from app.worker.merge.shares import Shares
from app.worker.merge.start_check import check_starts, left_unmerged
from app.worker.pipeline.publish.publisher import OF_TOPICS
from app.worker.pipeline.publish.topic_ids import TopicIds
from app.worker.pipeline.publish.transaction_size import Budget
from app.worker.status import State
from app.worker.unit.requests import Requests
from app.worker.unit.retry_policy import ErrorPolicy
from app.worker.unit.run_loop import Installation, Unit
from app.worker.unit.takeover import UnitTakeover
from connectors.errors import (
    JournalUnreadable,
    KafkaRefused,
    KafkaSlow,
    RecordsGone,
    RecordTooLarge,
    RunRestarts,
    TopicReplaced,
)
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import Follower
from connectors.kafka.topics import Topics
from tables.journal_format import unquoted
from tables.state.journal.state import DestinationState
from tables.state.known_topics import TOPIC, TOPIC_PART
from tables.state.merge_cursor import MERGE, MERGE_PART, MergeCursors
from wire.topics import merged_topic, shard_topics

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_RETRY_SECONDS = 5.0
"""Seconds between two checks of a topic that cannot be written to."""


@dataclass(slots=True, kw_only=True)
class MergeRun:
    """A run, from its first read of the journal to the error that ends it."""

    plan: MergePlan
    status: MergeStatus
    permit: WritePermit
    installation: Callable[[], Awaitable[str]]
    takeover: UnitTakeover
    budget: Budget
    """The maximum size of a transaction, over all runs."""
    succeeded: Callable[[], None]
    """Called after each commit."""
    _since: float = field(default_factory=time.time)
    _released: Released = field(default_factory=Released)
    _retry_at: dict[str, float] = field(default_factory=dict)
    """When each topic that waits is looked at again, by the monotonic clock."""
    _known_at: float = float("-inf")
    """When the journal was last read for the topics that wait, by the same clock."""
    _left: Mapping[str, str] | None = None
    """The merged topics that lack records of removed destinations, and why; None before the first look."""
    _left_at: float = float("-inf")
    """When they were looked for last, by the same clock."""
    _unreadable: dict[str, str] = field(default_factory=dict)
    """The merged topics of which a record of the journal cannot be read, and why."""

    async def run(self) -> None:
        """Run until an error."""
        try:
            await self._run()
        except KafkaSlow:
            self.budget.too_slow()
            log.warning(
                "%s: publishes %d bytes at once from now on", self.plan.unit, self.budget.bytes
            )
            raise
        except RecordsGone as error:
            # In the next run, their merged topic waits, and all other topics are merged.
            raise RunRestarts(
                f"as records were deleted before they were merged: {error.detail}"
            ) from error

    async def _run(self) -> None:
        plan = self.plan
        producer = TransactionalProducer(
            f"{await self.installation()}.{plan.unit}",
            options=plan.kafka_options,
            compression=plan.compression,
            timeout_factor=self.budget.timeout_factor,
            has_spare=True,
            is_ours=self.permit.has_taken_id,
        )
        try:
            await self.takeover.take_id(producer, self.permit)
            state = await self._read_journal()
            state.check_readable()
            await self.takeover.claim(producer, self.permit, state)
            topics = Topics(plan.kafka_options)
            ids = TopicIds(
                destination=plan.unit,
                topics=topics,
                reread=plan.journal.topic,
                known=state.parts[TOPIC_PART].ids,
            )
            publisher = MergePublisher(
                plan=plan,
                producer=producer,
                permit=self.permit,
                budget=self.budget,
                topics=topics,
                ids=ids,
                cursors=state.parts[MERGE_PART],
            )
            check, unfit = partial(check_starts, plan), partial(self._unfit, publisher)
            self.status.begin()
            async with (
                Follower.opened(plan.kafka_options, omits_unreadable=True) as follower,
                beside(ids.watch()) as watched,
            ):
                shares = Shares(
                    plan,
                    follower,
                    publisher.cursors,
                    check,
                    unfit,
                    publisher.topics.unwritable,
                    partial(self._unmerged, publisher.cursors),
                    self.status.wait_only_for,
                )
                await self._merge(publisher, shares, watched)
        finally:
            await producer.discard()

    async def _read_journal(self) -> DestinationState:
        """Read the journal; note, and remove from the state, the errors of records of single merged topics."""
        state = await committed_state(self.plan.journal)
        self._unreadable = {}
        for key, error in list(state.unreadable.items()):
            if (name := self._merged_of(key)) is None:
                continue
            del state.unreadable[key]
            error.context["destination"] = self.plan.unit
            if isinstance(error, JournalUnreadable):
                error.advice = (
                    "Another program wrote it, or it was changed by hand. To write the previous record of its "
                    f"key again: python -m app journal repair {self.plan.unit} --why TEXT"
                )
            self._unreadable[name] = error.in_one_line
        return state

    def _merged_of(self, key: bytes) -> str | None:
        """The merged topic that a record of the journal is about; None if it is about no single one."""
        kind, *names = key.decode("utf-8", "replace").split("/")
        if len(names) != 2 or kind not in (MERGE.name, TOPIC.name):
            return None
        topic, prefix = unquoted(names[1]), self.plan.prefix
        if kind == TOPIC.name:
            return topic
        owners = (
            one for one in self.plan.destinations if topic.startswith(shard_topics(prefix, one))
        )
        owner = next(owners, None)
        return merged_topic(prefix, owner, topic) if owner is not None else None

    async def _merge(
        self, publisher: MergePublisher, shares: Shares, watched: asyncio.Future[None]
    ) -> None:
        while True:
            self.permit.check()
            if watched.done():
                try:
                    watched.result()
                except TopicReplaced as error:
                    # The next run omits this topic, and merges all others.
                    raise RunRestarts(
                        f"as a merged topic was made again: {error.detail}"
                    ) from error
            await shares.look()
            if not self._released:
                await self._release(shares)
            self._show(shares)
            self.status.show(State.RUNNING)
            if self._released:
                await self._publish(publisher, shares)

    async def _unfit(self, publisher: MergePublisher, counts: Mapping[str, int]) -> dict[str, str]:
        """Make sure that merged topics exist; return those that cannot be written to, and why."""
        now, waiting = time.monotonic(), self.status.waiting
        found = {
            name: waiting[name]
            for name in counts
            if name in waiting and now < self._retry_at.get(name, 0.0)
        }
        due = counts.keys() - found.keys()
        if due & waiting.keys() and now - self._known_at >= _RETRY_SECONDS:
            # An operator may have accepted a recreated topic meanwhile, or repaired the journal.
            before = self._unreadable.keys()
            state = await self._read_journal()
            if before - self._unreadable.keys():
                raise RunRestarts("as records of the journal can be read again")
            publisher.ids.known = state.parts[TOPIC_PART].ids
            self._known_at = now
        self._retry_at |= dict.fromkeys(due, now + _RETRY_SECONDS)
        found |= {name: self._unreadable[name] for name in due if name in self._unreadable}
        found |= await self._refused(publisher, due - found.keys())
        wanted = {name: counts[name] for name in due - found.keys()}
        if not wanted:
            return found
        try:
            unusable = await publisher.unusable(wanted)
        except OF_TOPICS as error:
            unusable = dict.fromkeys(wanted, error)
        # A topic that takes no records for a moment is omitted at once, since nothing is lost by that.
        for name, why in unusable.items():
            why.context["destination"] = self.plan.unit
            found[name] = why.in_one_line
        return found

    async def _unmerged(self, cursors: MergeCursors) -> Mapping[str, str]:
        """Return the merged topics that lack records of removed destinations, and why.

        They are looked for at the start, and then at intervals until there are none.
        """
        now = time.monotonic()
        if self._left is None or (self._left and now - self._left_at >= _RETRY_SECONDS):
            self._left, self._left_at = await left_unmerged(self.plan, cursors), now
        return self._left

    async def _refused(self, publisher: MergePublisher, names: Collection[str]) -> dict[str, str]:
        """Return the topics among these that have refused records and are not tried again yet, and why."""
        refused = {name: self.status.refused[name] for name in names if name in self.status.refused}
        if not refused:
            return {}
        settings, now = await publisher.topics.digests(refused), time.monotonic()
        for name, one in list(refused.items()):
            if not one.refuses(settings.get(name), now):
                del refused[name], self.status.refused[name]
        return {name: one.why for name, one in refused.items()}

    async def _release(self, shares: Shares) -> None:
        """Read, and release what may be published now."""
        await shares.read(_POLL_SECONDS)
        await shares.confirm()
        shares.complete_absent()
        stalled = self._stalled(shares)
        for merged, order in shares.orders.items():
            if merged not in shares.blocked:
                self._released.add(merged, order.take(stalled))

    def _stalled(self, shares: Shares) -> frozenset[str]:
        """The shards that are not waited for now; a shard that stalls is reported in any case."""
        now, after = time.time(), self.plan.stalled_after
        found = set()
        for shard, status in self.status.shards.items():
            mark = shares.marks.newest.get(shard)
            status.reached_ms = mark
            lag = now - (self._since if mark is None else mark / 1000)
            why = shares.marks_away.get(shard)
            if why is not None:
                why.context["destination"] = self.plan.unit
            self.status.stall(
                shard, is_stalled=lag > after, why=why.in_one_line if why is not None else None
            )
            metrics.MERGE_LAG.labels(self.plan.name, shard).set(max(0.0, lag))
            if lag > after:
                found.add(shard)
        return frozenset(found if self.plan.passes else ())

    async def _publish(self, publisher: MergePublisher, shares: Shares) -> None:
        """Publish the first records that were released."""
        part = self._released.part(self.budget.bytes)
        try:
            await publisher.publish(shares, part)
        except (KafkaRefused, RecordTooLarge) as error:
            if not publisher.refused:
                raise
            digests, now = await publisher.topics.digests(publisher.refused), time.monotonic()
            for name, refusal in publisher.refused.items():
                refusal.context["destination"] = self.plan.unit
                self.status.wait_for(name, refusal.in_one_line)
                self.status.refused[name] = RefusedTopic(
                    refusal.in_one_line, digests.get(name), now
                )
            # The next run omits these topics, and merges all others.
            topics = ", ".join(sorted(publisher.refused))
            raise RunRestarts(f"as records of {topics} were refused: {error.detail}") from error
        self.succeeded()
        for shard, count in Counter(one.lane.shard for one in part).items():
            self.status.shards[shard].records += count
            metrics.MERGED.labels(self.plan.name, shard).inc(count)

    def _show(self, shares: Shares) -> None:
        held = Counter(self._released.counts)
        for share in shares.by_partition.values():
            held[share.lane.shard] += len(share.lane.records)
        for shard, status in self.status.shards.items():
            status.held = held[shard]
            status.unread = shares.unread_offsets.get(shard)
        metrics.MERGE_HELD.labels(self.plan.name).set(held.total())
        late = sum(order.late for order in shares.orders.values())
        metrics.MERGE_LATE.labels(self.plan.name).inc(max(0, late - self.status.late))
        self.status.late = late


def merge_unit(plan: MergePlan, installation: Installation, identity: Identity) -> Unit:
    """Return a merge as a unit of work, over all its runs; ``identity`` is this worker's."""
    status, budget, policy = MergeStatus(plan), Budget(plan.max_bytes), ErrorPolicy()
    permit, requests = WritePermit(), Requests()
    takeover = UnitTakeover(identity=identity, journal=plan.journal, requests=requests)

    async def run() -> None:
        await MergeRun(
            plan=plan,
            status=status,
            permit=permit,
            installation=installation,
            takeover=takeover,
            budget=budget,
            succeeded=policy.succeeded,
        ).run()

    return Unit(
        name=plan.unit,
        status=status,
        run=run,
        context={"merge": plan.name},
        permit=permit,
        requests=requests,
        policy=lambda: policy,
        measure=status.measure,
    )
