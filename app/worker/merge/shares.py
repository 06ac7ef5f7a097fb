"""The shares that a merge reads: its shards' topics, by partition, and the time up to which each is complete.

Invariant: a partition is complete up to a time only if everything was read that it contained when its shard was
known to have published that far. Kafka shows a transaction's end in one partition before it does in another.
Reading continues after the record that was merged last, or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.worker.merge.marks import Marks
from app.worker.merge.ordering import Lane, PartitionOrder
from app.worker.merge.plan import MergePlan
from app.worker.merge.starts import Proof, proven, start_of
from connectors.errors import RecordForeign
from connectors.kafka.reading.follower import Follower, Partition
from tables.state.merge_cursor import MergeCursors
from wire.records import HEADER_COMMITTED_MS
from wire.topics import merged_topic, progress_topic, shard_topics

_LOOK_SECONDS = 1.0
"""Between two looks for new topics and partitions."""
_CONFIRM_SECONDS = 0.05
"""Between two questions for the ends of partitions."""
_HELD_BYTES = 128 * 1024 * 1024
"""Of keys and values, of all partitions together."""
_LEAST_HELD = 256 * 1024
_MOST_READ = 5000
"""Records that are taken in at once, before it is checked how many are held."""


@dataclass(slots=True, kw_only=True)
class Share:
    """One partition of one shard's topic."""

    lane: Lane
    merged: Partition
    """Where its records go."""
    pending: tuple[int, int] | None = None
    """A time, and the offset up to which it is complete once that is read."""
    asked: tuple[float, int] | None = None
    """A time, and the offset up to which it could be read then."""
    proof: Proof | None = None
    """The record that was merged last, until it was read again."""


@dataclass(slots=True)
class Shares:
    """All of a merge's shares, for one run."""

    plan: MergePlan
    follower: Follower
    cursors: MergeCursors
    check: Callable[[Mapping[Partition, int]], Awaitable[None]]
    """Called with the offsets from which partitions are to be read; raises if one is no beginning."""
    have: Callable[[str, int], Awaitable[bool]]
    """Called with a merged topic and its partition count; returns whether it can be written to. Its shares are
    not read until then."""
    orders: dict[Partition, PartitionOrder] = field(default_factory=dict)
    """By the partition of the merged topic."""
    by_partition: dict[Partition, Share] = field(default_factory=dict)
    marks: Marks = field(init=False)
    unread_offsets: dict[str, int] = field(default_factory=dict)
    """The offsets of each shard's topics that were not read at the last look."""
    _marks_at_look: dict[str, int] = field(default_factory=dict)
    """The marks before the last look for topics: a topic that it did not find has none of these records."""
    _looked: float = float("-inf")
    _asked: float = float("-inf")

    def __post_init__(self) -> None:
        self.marks = Marks(self.plan, self.follower)

    async def look(self) -> None:
        """Find new topics and partitions at intervals.

        Raises TransactionOpen if a transaction that stays open keeps one from being read.
        """
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        await self._find()
        unread = dict.fromkeys(self.plan.destinations, 0)
        for one, count in (await self.follower.unread()).items():
            if one in self.by_partition:
                unread[self.by_partition[one].lane.shard] += count
        self.unread_offsets = unread

    async def _find(self) -> None:
        """Follow new topics and partitions whose merged topics can be written to."""
        marks = dict(self.marks.newest)
        prefixes = {one: shard_topics(self.plan.prefix, one) for one in self.plan.destinations}
        progress = {progress_topic(self.plan.prefix, one): one for one in self.plan.destinations}
        found = await self.follower.partitions([*prefixes.values(), *progress])
        self._marks_at_look = marks
        new: dict[Partition, str] = {}
        for topic, count in found.items():
            owner = next((one for one, start in prefixes.items() if topic.startswith(start)), None)
            if owner is not None:
                new |= {(topic, one): owner for one in range(count)}
            elif topic in progress:
                await self.marks.follow(topic, progress[topic])
        new = {one: owner for one, owner in new.items() if one not in self.by_partition}
        targets = {one: merged_topic(self.plan.prefix, owner, one[0]) for one, owner in new.items()}
        counts: dict[str, int] = {}
        for (topic, _), name in targets.items():
            counts[name] = max(counts.get(name, 0), found[topic])
        usable = {name for name, count in counts.items() if await self.have(name, count)}
        new = {one: owner for one, owner in new.items() if targets[one] in usable}
        if new:
            await self._follow(new)

    async def _follow(self, new: Mapping[Partition, str]) -> None:
        firsts = await self.follower.beginnings(new.keys())
        ends = await self.follower.ends(new.keys())
        starts = {
            one: start_of(self.plan, self.cursors, one, first=firsts[one], end=ends[one])
            for one in new
        }
        await self.check({one: start.offset for one, start in starts.items()})
        for one, shard in new.items():
            topic, number = one
            merged = merged_topic(self.plan.prefix, shard, topic), number
            self.by_partition[one] = Share(lane=Lane(shard), merged=merged, proof=starts[one].proof)
        for merged in {self.by_partition[one].merged for one in new}:
            self._order(merged)
        await self.follower.follow({one: start.read_from for one, start in starts.items()})

    def _order(self, merged: Partition) -> None:
        """Put the shares of a merged partition in order, those that were known and new ones alike."""
        lanes = {
            one.lane.shard: one.lane for one in self.by_partition.values() if one.merged == merged
        }
        for shard in self.plan.destinations:
            # A shard that has no such topic counts too: what it may still publish would be late.
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
        """Take in records as they come, after at most so many seconds; return their count."""
        await self.marks.read()
        count = 0
        for one, records in (await self.follower.read(seconds, most=_MOST_READ)).items():
            if one in self.marks.partitions:
                self.marks.take(one, records)
            else:
                count += self._take(one, records)
        self._hold_back()
        return count

    def _take(self, one: Partition, records: list[Any]) -> int:
        """Add records to their lane; return their count."""
        share, now = self.by_partition[one], time.monotonic()
        if share.proof is not None and records:
            records, share.proof = proven(self.plan, one, share.proof, records), None
        for record in records:
            value, headers = record.value, list(record.headers)
            try:
                time_ms = committed_ms(value, headers)
            except ValueError:
                raise RecordForeign(
                    "the time of its commit cannot be read",
                    merge=self.plan.name, topic=one[0], partition=one[1], offset=record.offset,
                ) from None  # fmt: skip
            share.lane.add(time_ms, now, record.offset, record.key, value, headers)
        return len(records)

    def _hold_back(self) -> None:
        """Fetch nothing more of a partition that holds much, since others are waited for."""
        most = max(_LEAST_HELD, _HELD_BYTES // max(1, len(self.by_partition)))
        self.follower.pause(
            [one for one, share in self.by_partition.items() if share.lane.bytes > most]
        )

    async def confirm(self) -> None:
        """Find out up to which time the partitions are complete that others wait for, and as of when they are
        read."""
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
        """Ask for the ends of partitions."""
        # A mark is noted before the question, so the answer includes all that it covers.
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
        """The shares without records in partitions where others have some."""
        held = {share.merged for share in self.by_partition.values() if share.lane.records}
        return {
            one: share
            for one, share in self.by_partition.items()
            if not share.lane.records and share.merged in held
        }

    def complete_absent(self) -> None:
        """Take the marks of shards that have no such topic at all: none of their records can be missing.

        Only marks that were known before the look: a later one may be of records in a topic made since.
        """
        known, now = {share.lane for share in self.by_partition.values()}, time.monotonic()
        for order in self.orders.values():
            for lane in order.lanes:
                if lane not in known:
                    lane.complete_until(self._marks_at_look.get(lane.shard, 0))
                    lane.read_all(now)


def committed_ms(value: bytes | None, headers: list[tuple[str, bytes]]) -> int | None:
    """The time of a record's commit, in milliseconds; None for a tombstone.

    Records in another format than the envelope have it in a header. In the envelope, the last ``"snapshot"``
    that is not within a text is that of ``source``, which follows its ``ts_ms``.
    """
    if value is None:
        return None
    for name, content in headers:
        if name == HEADER_COMMITTED_MS:
            return int(content)
    end = value.rfind(b',"snapshot":"')
    begin = value.rfind(b'"ts_ms":', 0, end) if end >= 0 else -1
    return int(value[begin + 8 : end]) if begin >= 0 else 0
