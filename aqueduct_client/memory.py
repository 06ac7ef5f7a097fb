"""The in-memory twin of Kafka: topics, transactions by their end, and groups that rebalance.

For tests of subscribers, this package's and yours.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aqueduct_client.errors import StaleBatch
from aqueduct_client.protocol import Assigned, Consumer, JoinsGroup, Log, TopicFacts
from aqueduct_client.records import Partition, RawRecord

_PAUSE_SECONDS = 0.01
_MOST = 3
"""The records of one read: so few that tests find a reader which expects all records at once."""

Headers = Iterable[tuple[str, bytes]]


@dataclass(slots=True)
class MemoryKafka:
    """A broker."""

    records: dict[Partition, list[tuple[int, RawRecord]]] = field(default_factory=dict)
    """Each record with the time at which it was written, milliseconds since 1970."""
    offsets: dict[tuple[str, Partition], int] = field(default_factory=dict)
    """By group and partition, the committed offsets."""
    ids: dict[str, str] = field(default_factory=dict)
    """The id of each topic."""
    _groups: dict[str, list[MemoryConsumer]] = field(default_factory=dict)
    _made: int = 0

    def create(self, topic: str, partitions: int = 1) -> None:
        """Make a topic, or more partitions of it."""
        if topic not in self.ids:
            self._made += 1
            self.ids[topic] = f"id-{self._made}"
        for number in range(partitions):
            self.records.setdefault(Partition(topic, number), [])

    def delete(self, topic: str) -> None:
        """Remove a topic, and all groups' offsets in it, as a broker does."""
        del self.ids[topic]
        self.records = {tp: log for tp, log in self.records.items() if tp.topic != topic}
        self.offsets = {name: at for name, at in self.offsets.items() if name[1].topic != topic}

    async def append(self, topic: str, records: Sequence[tuple[bytes, bytes]]) -> None:
        self.create(topic)
        for key, value in records:
            self.send(Partition(topic, 0), value, key=key)

    def send(
        self,
        partition: Partition,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        ts_ms: int = 0,
    ) -> int:
        """Add a committed record; return its offset."""
        log = self.records[partition]
        raw = RawRecord(
            partition=partition,
            offset=len(log),
            key=key,
            value=value,
            headers=tuple(headers),
            written_ms=ts_ms,
        )
        log.append((ts_ms, raw))
        return raw.offset

    def joins(self, group: str, topics: Collection[str]) -> JoinsGroup:
        """Return the function by which members join a group."""

        @asynccontextmanager
        async def join(assigned: Assigned) -> AsyncIterator[Consumer]:
            member = MemoryConsumer(self, group, frozenset(topics), assigned)
            self.join(member)
            try:
                yield member
            finally:
                self.leave(member)

        return join

    @asynccontextmanager
    async def log(self) -> AsyncIterator[Log]:
        """See OpensLog."""
        yield MemoryLog(self)

    def rebalance(self, group: str) -> None:
        """Take all partitions from the members of a group, and assign them again."""
        members = self._groups.get(group, [])
        for member in members:
            member.assign(frozenset())
        for at, member in enumerate(members):
            mine = sorted(tp for tp in self.records if tp.topic in member.reads)
            member.assign(frozenset(mine[at :: len(members)]))

    def join(self, member: MemoryConsumer) -> None:
        """Add a member."""
        self._groups.setdefault(member.group, []).append(member)
        self.rebalance(member.group)

    def leave(self, member: MemoryConsumer) -> None:
        """Remove a member."""
        self._groups[member.group].remove(member)
        self.rebalance(member.group)


@dataclass(slots=True, eq=False)
class MemoryConsumer:
    """A member of a group."""

    kafka: MemoryKafka
    group: str
    reads: frozenset[str]
    assigned: Assigned
    positions: dict[Partition, int] = field(default_factory=dict)
    _mine: frozenset[Partition] = frozenset()

    def assign(self, partitions: frozenset[Partition]) -> None:
        """Take other partitions, at the group's offsets."""
        self._mine = partitions
        self.positions = {
            tp: self.kafka.offsets[self.group, tp]
            for tp in partitions
            if (self.group, tp) in self.kafka.offsets
        }
        self.assigned(partitions)

    async def poll(
        self, *, seconds: float, most: int, without: Collection[Partition] = ()
    ) -> list[RawRecord]:
        if not (found := self._next(most, without)):
            await asyncio.sleep(min(seconds, _PAUSE_SECONDS))
            found = self._next(most, without)
        return found

    def _next(self, most: int, without: Collection[Partition]) -> list[RawRecord]:
        found: list[RawRecord] = []
        for tp, at in self.positions.items():
            if tp in without:
                continue
            records = [raw for _, raw in self.kafka.records[tp][at : at + most - len(found)]]
            self.positions[tp] = at + len(records)
            found += records
        return found

    async def committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        offsets = self.kafka.offsets
        return {tp: offsets[self.group, tp] for tp in partitions if (self.group, tp) in offsets}

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        if not offsets.keys() <= self._mine:
            raise StaleBatch("the group has rebalanced", group=self.group)
        self.kafka.offsets.update({(self.group, tp): at for tp, at in offsets.items()})

    async def seek(self, offsets: Mapping[Partition, int]) -> None:
        self.positions.update({tp: at for tp, at in offsets.items() if tp in self._mine})

    async def topics(self, names: Collection[str] | None) -> dict[str, TopicFacts]:
        counts = Counter(tp.topic for tp in self.kafka.records)
        return {
            topic: TopicFacts(number, counts[topic])
            for topic, number in self.kafka.ids.items()
            if names is None or topic in names
        }


@dataclass(frozen=True, slots=True)
class MemoryLog:
    """Partitions read without a group."""

    kafka: MemoryKafka

    async def bounds(self, partition: Partition) -> tuple[int, int]:
        return 0, len(self.kafka.records[partition])

    async def offset_at(self, partition: Partition, ts_ms: int) -> int | None:
        log = self.kafka.records[partition]
        return next((raw.offset for written, raw in log if written >= ts_ms), None)

    async def read(self, partition: Partition, offset: int) -> list[RawRecord]:
        log = self.kafka.records[partition][offset:]
        return [raw for _, raw in log if raw.value is not None][:_MOST]
