"""The shares that a merge reads: its shards' topics, by partition, and the time up to which each is complete.

Invariant: a partition is complete up to a time only after everything was read that it contained when its shard
was already known to be published up to that time: Kafka may show a transaction's end in one partition before
another. Reading continues directly after the record that was merged last; if it cannot, only this merged topic
waits.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.worker.merge.marks import Marks
from app.worker.merge.ordering import Lane, PartitionOrder
from app.worker.merge.plan import MergePlan
from app.worker.merge.starts import Proof, Start, proven, start_of
from connectors.errors import (
    AqueductError,
    KafkaDenied,
    RecordForeign,
    RecordsGone,
    TopicUnfit,
    TransactionOpen,
)
from connectors.kafka.open_transactions import refuse_open
from connectors.kafka.reading import Follower, Partition
from tables.state.merge_cursor import MergeCursors
from wire.records import HEADER_COMMITTED_MS
from wire.topics import merged_topic, progress_topic, shard_topics

_LOOK_SECONDS = 1.0
"""Seconds between two looks for new topics and partitions."""
_CONFIRM_SECONDS = 0.05
"""Seconds between two requests for the ends of partitions."""
_ASK_SECONDS = 5.0
"""Seconds between two questions which missing topics are only hidden."""
_HELD_BYTES = 128 * 1024 * 1024
"""Bytes of memory for records that are read and not yet merged, in all partitions together."""
_LEAST_HELD = 256 * 1024
_MOST_READ = 5000
"""Maximum count of records taken in before the memory that is held is checked."""


@dataclass(slots=True, kw_only=True)
class Share:
    """One partition of one shard's topic."""

    lane: Lane
    merged: Partition
    """The partition of the merged topic to which its records go."""
    pending: tuple[int, int] | None = None
    """A time and an offset: once everything before the offset is read, the share is complete up to the time."""
    asked: tuple[float, int] | None = None
    """A time by the monotonic clock, and the offset up to which the share could be read at that time."""
    proof: Proof | None = None
    """The record that was merged last, to be read again first; None after that, or if it is not known."""


@dataclass(slots=True)
class Shares:
    """All of a merge's shares, for one run."""

    plan: MergePlan
    follower: Follower
    cursors: MergeCursors
    check: Callable[[Mapping[Partition, int]], Awaitable[None]]
    """Called with the offset at which reading of each partition begins; raises if it must not begin there."""
    unfit: Callable[[Mapping[str, int]], Awaitable[Mapping[str, str]]]
    """Called with merged topics and their partition counts; returns those that cannot be written to, and why.
    The shares of such a topic are not read."""
    hidden: Callable[[Collection[str]], Awaitable[Collection[str]]]
    """Called with topics that no broker lists; returns those that the account may not see."""
    unmerged: Callable[[], Awaitable[Mapping[str, str]]]
    """Returns the merged topics that lack records of removed destinations, and why. No share of such a topic is
    read."""
    waits: Callable[[Mapping[str, str]], None]
    """Called at each look with the merged topics that wait, and why."""
    orders: dict[Partition, PartitionOrder] = field(default_factory=dict)
    """By the partition of the merged topic."""
    by_partition: dict[Partition, Share] = field(default_factory=dict)
    marks: Marks = field(init=False)
    unread_offsets: dict[str, int] = field(default_factory=dict)
    """By shard: the count of offsets in its topics that were not read at the last look. A shard is omitted if
    not all of its topics could be read."""
    blocked: set[Partition] = field(default_factory=set)
    """The partitions of merged topics with a share that cannot be read now. Nothing of them is released, since
    that share may contain earlier records."""
    marks_away: dict[str, AqueductError] = field(default_factory=dict)
    """By shard: why its progress topic cannot be read now, so that its marks do not advance."""
    _missing: set[str] = field(default_factory=set)
    _hidden: Mapping[str, AqueductError] = field(default_factory=dict)
    """Of the topics that were missing at the last question, those that are hidden from the account."""
    _asked_hidden: float = float("-inf")
    _faults: dict[str, tuple[Partition, int, str]] = field(default_factory=dict)
    """By merged topic: the partition and offset of a record that cannot be merged, and why."""
    _marks_at_look: dict[str, int] = field(default_factory=dict)
    """The marks before the last look for topics; a topic that was not found has no records before them."""
    _looked: float = float("-inf")
    _asked: float = float("-inf")

    def __post_init__(self) -> None:
        self.marks = Marks(self.plan, self.follower)

    async def look(self) -> None:
        """Find new topics and partitions at intervals, and those that cannot be read now."""
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        unknown = await self._find()
        unread = dict.fromkeys((one for one in self.plan.destinations if one not in unknown), 0)
        for one, count in (await self.follower.unread()).items():
            if one in self.by_partition and (shard := self.by_partition[one].lane.shard) in unread:
                unread[shard] += count
        self.unread_offsets = unread

    async def _find(self) -> set[str]:
        """Follow new topics and partitions that can be read, and whose merged topics can be written to.

        Return the shards with a partition that is not followed or cannot be read.
        """
        marks = dict(self.marks.newest)
        prefixes = {one: shard_topics(self.plan.prefix, one) for one in self.plan.destinations}
        progress = {progress_topic(self.plan.prefix, one): one for one in self.plan.destinations}
        found = await self.follower.partitions([*prefixes.values(), *progress])
        self._marks_at_look = marks
        away = self.follower.unreadable
        hidden = await self._ask_hidden(found, prefixes, progress)
        unreadable = {**hidden, **{topic: error for (topic, _), error in away.items()}}
        self.marks_away = {
            owner: unreadable[topic] for topic, owner in progress.items() if topic in unreadable
        }
        owners: dict[Partition, str] = {}
        for topic, count in found.items():
            owner = next((one for one, start in prefixes.items() if topic.startswith(start)), None)
            if owner is not None:
                owners |= {(topic, one): owner for one in range(count)}
            elif topic in progress and (topic, 0) not in away:
                await self.marks.follow(topic, progress[topic])
        new = owners.keys() - self.by_partition.keys()
        targets = {
            one: (merged_topic(self.plan.prefix, owners[one], one[0]), one[1])
            for one in new | (owners.keys() & away.keys())
        }
        why: dict[str, str] = {}
        for one in sorted(owners.keys() & away.keys()):
            away[one].context["destination"] = self.plan.unit
            why.setdefault(targets[one][0], away[one].in_one_line)
        # A share that is only hidden is not absent: the merge does not continue without it.
        without = {
            merged_topic(self.plan.prefix, owner, topic): error.in_one_line
            for topic, error in hidden.items()
            for owner, start in prefixes.items()
            if topic.startswith(start)
        }
        why |= without
        why |= await self.unmerged()
        counts: dict[str, int] = {}
        for one in new:
            name = targets[one][0]
            counts[name] = max(counts.get(name, 0), found[one[0]])
        if counts := {name: count for name, count in counts.items() if name not in why}:
            why |= await self.unfit(counts)
        await self._follow(
            {one: targets[one] for one in new if targets[one][0] not in why}, owners, why
        )
        for name, (one, offset, reason) in list(self._faults.items()):
            share = self.by_partition.get(one)
            if share and share.proof is None and await self.follower.position(one) > offset:
                del self._faults[name]
            else:
                why.setdefault(name, reason)
        self.waits(why)
        unread = (new - self.by_partition.keys()) | (owners.keys() & away.keys())
        self.blocked = {targets[one] for one in unread}
        self.blocked |= {one for one in self.orders if one[0] in without}
        return {owners[one] for one in unread}

    async def _ask_hidden(
        self, found: Mapping[str, int], prefixes: Mapping[str, str], progress: Mapping[str, str]
    ) -> Mapping[str, AqueductError]:
        """The topics of shards that were merged before and are hidden from the account now, with the errors."""
        merged = self.cursors.by_topic.keys()
        begun = {
            owner
            for owner, start in prefixes.items()
            if any(one.startswith(start) for one in merged)
        }
        topics = {one for one in merged if one.startswith(tuple(prefixes.values()))}
        topics |= {topic for topic, owner in progress.items() if owner in begun}
        missing = topics - found.keys()
        if missing != self._missing or time.monotonic() - self._asked_hidden >= _ASK_SECONDS:
            self._missing, self._asked_hidden = missing, time.monotonic()
            self._hidden = {
                one: KafkaDenied(
                    "the account may not see it", topic=one, destination=self.plan.unit
                )
                for one in (await self.hidden(missing) if missing else ())
            }
        return self._hidden

    async def _follow(
        self,
        new: Mapping[Partition, Partition],
        owners: Mapping[Partition, str],
        why: dict[str, str],
    ) -> None:
        """Follow partitions; ``new`` has the merged partition of each, and ``owners`` the shard.

        A merged topic that would lack records is added to ``why``, and its partitions are not followed.
        """
        firsts = await self.follower.beginnings(new.keys())
        ends = await self.follower.ends(new.keys())
        starts: dict[Partition, Start] = {}
        for one in sorted(new):
            try:
                starts[one] = start_of(
                    self.plan, self.cursors, one, first=firsts[one], end=ends[one]
                )
            except (RecordsGone, TopicUnfit) as error:
                why.setdefault(new[one][0], error.in_one_line)
        starts = {one: start for one, start in starts.items() if new[one][0] not in why}
        held = await self._held({new[one] for one in starts}, why)
        starts = {one: start for one, start in starts.items() if new[one][0] not in held}
        while starts:
            try:
                await self.check({one: start.offset for one, start in starts.items()})
                break
            except (RecordForeign, KafkaDenied) as error:
                topic = str(error.context.get("topic"))
                name = next(
                    (merged for (own, _), (merged, _) in new.items() if topic in (own, merged)), ""
                )
                if not name:
                    raise
                error.context["destination"] = self.plan.unit
                why[name] = error.in_one_line
                starts = {one: start for one, start in starts.items() if new[one][0] != name}
        if not starts:
            return
        for one, start in starts.items():
            self.by_partition[one] = Share(
                lane=Lane(owners[one]), merged=new[one], proof=start.proof
            )
        for merged in {new[one] for one in starts}:
            self._order(merged)
        await self.follower.follow({one: start.read_from for one, start in starts.items()})

    async def _held(self, merged: Collection[Partition], why: dict[str, str]) -> set[str]:
        """The merged topics of which a transaction that is not ended hides the newest records.

        If another program has it open, the topic is added to ``why``.
        """
        ends, readable = await self.follower.ends(merged), await self.follower.readable(merged)
        found = set()
        for one in sorted(ends):
            if readable[one] < ends[one]:
                found.add(one[0])
                try:
                    await refuse_open(self.plan.kafka_options, *one, position=readable[one])
                except TransactionOpen as error:
                    error.context["destination"] = self.plan.unit
                    why.setdefault(one[0], error.in_one_line)
        return found

    def _order(self, merged: Partition) -> None:
        """Make the order of a merged partition from all of its shares, known and new."""
        lanes = {
            one.lane.shard: one.lane for one in self.by_partition.values() if one.merged == merged
        }
        for shard in self.plan.destinations:
            # A shard without such a topic is waited for too: its later records would be late.
            lanes.setdefault(shard, Lane(shard))
        before = self.orders.get(merged)
        order = PartitionOrder(
            (lanes[shard] for shard in self.plan.destinations),
            wait=self.plan.wait if self.plan.passes else None,
        )
        if before is not None:
            order.resume(before)
        self.orders[merged] = order

    async def read(self, seconds: float) -> int:
        """Take in records as they arrive, waiting at most ``seconds``; return their count."""
        await self.marks.read()
        count = 0
        for one, records in (await self.follower.read(seconds, most=_MOST_READ)).items():
            if one in self.marks.partitions:
                self.marks.take(one, records)
            elif one in self.by_partition:
                try:
                    count += self._take(one, records)
                except (RecordForeign, TopicUnfit) as error:
                    await self._leave_out(one, error)
        self._hold_back()
        return count

    def _take(self, one: Partition, records: list[Any]) -> int:
        """Add records to their lane; return their count."""
        share, now = self.by_partition[one], time.monotonic()
        if share.proof is not None and records:
            records, share.proof = proven(self.plan, one, share.proof, records), None
        for record in records:
            value, headers = record.value, list(record.headers)
            has_all = all(content is not None for _, content in headers)
            try:
                time_ms = committed_ms(value, headers) if has_all else None
            except ValueError:
                has_all = False
            if not has_all:
                raise RecordForeign(
                    "the time of its commit, or a header, cannot be read",
                    merge=self.plan.name, topic=one[0], partition=one[1], offset=record.offset,
                )  # fmt: skip
            share.lane.add(time_ms, now, record.offset, record.key, value, headers)
        return len(records)

    async def _leave_out(self, one: Partition, error: RecordForeign | TopicUnfit) -> None:
        """Stop following all shares of a merged topic, since a record of one of them cannot be merged.

        A later look follows them again. Until reading is past that record, the topic is shown with this error.
        """
        share = self.by_partition[one]
        name = share.merged[0]
        offset = share.proof.offset if share.proof else int(str(error.context["offset"]))
        self._faults[name] = one, offset, error.in_one_line
        left = [each for each, other in self.by_partition.items() if other.merged[0] == name]
        for each in left:
            del self.by_partition[each]
        self.orders = {each: order for each, order in self.orders.items() if each[0] != name}
        await self.follower.leave(left)

    def _hold_back(self) -> None:
        """Fetch nothing more of a partition that holds much while other partitions are waited for."""
        most = max(_LEAST_HELD, _HELD_BYTES // max(1, len(self.by_partition)))
        self.follower.pause(
            [one for one, share in self.by_partition.items() if share.lane.memory > most]
        )

    async def confirm(self) -> None:
        """Determine up to which time blocking partitions are complete, and as of when they are read."""
        blocking = self._blocking()
        await self._complete(blocking)
        now = time.monotonic()
        if blocking and now - self._asked >= _CONFIRM_SECONDS:
            self._asked = now
            await self._ask(blocking)
            await self._complete(blocking)

    async def _complete(self, blocking: Mapping[Partition, Share]) -> None:
        for one, share in blocking.items():
            position = await self.follower.position(one)
            if share.pending is not None and position >= share.pending[1]:
                share.lane.complete_until(share.pending[0])
                share.pending = None
            if share.asked is not None and position >= share.asked[1]:
                share.lane.read_all(share.asked[0])
                share.asked = None

    async def _ask(self, blocking: Mapping[Partition, Share]) -> None:
        """Request the ends of partitions."""
        away = self.follower.leaderless
        blocking = {one: share for one, share in blocking.items() if one not in away}
        # Marks are copied before the ends are requested, so the ends include all that the marks cover.
        marks = dict(self.marks.newest)
        wanted = {
            one: mark
            for one, share in blocking.items()
            if share.pending is None
            and (mark := marks.get(share.lane.shard, 0)) > share.lane.reached_ms
        }
        for one, end in (await self.follower.ends(wanted.keys())).items():
            self.by_partition[one].pending = wanted[one], end
        if self.plan.passes:
            now = time.monotonic()
            unasked = [one for one, share in blocking.items() if share.asked is None]
            for one, end in (await self.follower.readable(unasked)).items():
                self.by_partition[one].asked = now, end

    def _blocking(self) -> dict[Partition, Share]:
        """The shares that hold no records while another share of the same merged partition does."""
        held = {share.merged for share in self.by_partition.values() if share.lane.records}
        return {
            one: share
            for one, share in self.by_partition.items()
            if not share.lane.records and share.merged in held
        }

    def complete_absent(self) -> None:
        """Complete the lanes of shards that have no such topic: no record of theirs can be missing.

        Only marks from before the last look count: a later mark may cover records of a topic created since.
        """
        known, now = {share.lane for share in self.by_partition.values()}, time.monotonic()
        for order in self.orders.values():
            for lane in order.lanes:
                if lane not in known:
                    lane.complete_until(self._marks_at_look.get(lane.shard, 0))
                    lane.read_all(now)


def committed_ms(value: bytes | None, headers: list[tuple[str, bytes]]) -> int | None:
    """The time of a record's commit, in milliseconds; None for a tombstone.

    In formats other than the envelope it is in a header. In the envelope, the last ``"snapshot"`` outside of a
    string is the member of ``source`` that directly follows ``ts_ms``: see ``wire.records.SOURCE``.
    """
    if value is None:
        return None
    for name, content in headers:
        if name == HEADER_COMMITTED_MS:
            return int(content)
    end = value.rfind(b',"snapshot":"')
    begin = value.rfind(b'"ts_ms":', 0, end) if end >= 0 else -1
    return int(value[begin + 8 : end]) if begin >= 0 else 0
