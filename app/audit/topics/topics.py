"""The contents of Kafka as an audit reads them, and the topics that belong to one destination.

Invariant: read-only and as any consumer reads; records of other destinations are ignored.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import orjson

from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.kafka.reading.topic_reader import Take, beginnings, cluster, read_all, topics
from tables.state.mapping_in_force import MAPPING, MappingsInForce
from tables.state.snapshots.table_snapshot import SNAPSHOT, Snapshots
from wire.table_version import Definition
from wire.topics import journal_topic, schemas_topic

T = TypeVar("T")
Partition = tuple[str, int]
_MOST_REGRESSIONS = 100


class Published(Protocol):
    """The source of records."""

    def cluster(self) -> str | None:
        """Kafka's id of the cluster; None if it is not known."""

    def topics(self) -> Mapping[str, int]:
        """The number of partitions of each existing topic."""

    def beginnings(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """The first offset that each partition still has."""

    def read(self, partitions: Iterable[Partition], take: Take) -> None:
        """Pass on all committed records, those of a partition in order."""


@dataclass(frozen=True, slots=True)
class KafkaTopics:
    """A cluster, read through the event loop from another thread."""

    options: Mapping[str, Any]
    """Of aiokafka."""
    loop: asyncio.AbstractEventLoop

    def cluster(self) -> str | None:
        """See Published."""
        return self._done(cluster(self.options))

    def topics(self) -> Mapping[str, int]:
        """See Published."""
        return self._done(topics(self.options))

    def beginnings(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See Published."""
        return self._done(beginnings(self.options, partitions))

    def read(self, partitions: Iterable[Partition], take: Take) -> None:
        """See Published; ``take`` is called in the loop's thread, while the caller waits."""
        self._done(read_all(self.options, partitions, take))

    def _done(self, reading: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(reading, self.loop).result()


@dataclass(slots=True)
class RecordedTopics:
    """Topics in memory, read once: the twin of KafkaTopics."""

    counts: dict[str, int]
    records: dict[Partition, list[StoredRecord]]
    firsts: dict[Partition, int] = field(default_factory=dict)

    @classmethod
    def of(cls, published: Published, wanted: Iterable[str]) -> RecordedTopics:
        """Read topics into memory."""
        counts = published.topics()
        held = cls({name: counts[name] for name in wanted if name in counts}, {})
        parts = [(name, number) for name, count in held.counts.items() for number in range(count)]
        held.records = {part: [] for part in parts}
        published.read(parts, lambda *one: held.records[one[0], one[1]].append(one[2]))
        return held

    def cluster(self) -> str | None:
        """See Published."""
        return None

    def topics(self) -> Mapping[str, int]:
        """See Published."""
        return self.counts

    def beginnings(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See Published."""
        return {part: self.firsts.get(part, 0) for part in partitions}

    def read(self, partitions: Iterable[Partition], take: Take) -> None:
        """See Published."""
        for topic, number in partitions:
            for record in self.records.get((topic, number), ()):
                take(topic, number, record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A version of a table's columns, as consumers have it."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    charsets: tuple[str | None, ...]
    primary_key: tuple[str, ...]
    topic: str
    partitions: int | None = None
    """The number of partitions of its keys; None if not recorded."""
    ids: tuple[str | None, ...] = ()
    """What identifies each column; None if it is its name."""
    initial: tuple[Mapping[str, Any] | None, ...] = ()
    """What rows from before each column have in it."""
    nullable: tuple[bool, ...] = ()
    """Whether each column may be NULL; empty if that is not known."""

    @classmethod
    def of(cls, definition: Definition) -> Described:
        """Return a definition as a version that is not published."""
        columns = definition.columns
        return cls(
            columns=tuple(one.name for one in columns),
            types=tuple(one.type for one in columns),
            charsets=tuple(one.charset for one in columns),
            primary_key=definition.primary_key,
            topic="",
            ids=tuple(one.id for one in columns),
            initial=tuple(one.initial for one in columns),
            nullable=tuple(one.nullable for one in columns),
        )


Versions = dict[tuple[str, str, int], Described]


def row_topics(prefix: str, names: Iterable[str], versions: Versions) -> list[str]:
    """Those of these topics that contain rows of an installation.

    A table may have the name of a topic of another installation, whose prefix begins as this one's
    does; then its versions decide.
    """
    wanted = re.compile(re.escape(prefix) + r"\.(?!__)[^.]+\.(?!__)[^.]+")
    known = {version.topic for version in versions.values()}
    return sorted(name for name in names if name in known or wanted.fullmatch(name))


@dataclass(slots=True)
class Schemas:
    """The table versions of one destination, as ``<prefix>.__schemas`` has them."""

    destination: str
    versions: Versions = field(default_factory=dict)

    def take(self, _topic: str, _partition: int, record: StoredRecord) -> None:
        """Record a table version."""
        if not record.value:
            return
        value = orjson.loads(record.value)
        if value["destination"] == self.destination:
            described = Described.of(Definition.from_json(value))
            self.versions[value["database"], value["table"], value["version"]] = replace(
                described, topic=value["topic"], partitions=value.get("partitions")
            )


def schemas(published: Published, prefix: str, destination: str) -> Versions:
    """Read all versions."""
    found = Schemas(destination)
    published.read([(schemas_topic(prefix), 0)], found.take)
    return found.versions


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorRecord:
    """A cursor of the journal, at its offset."""

    offset: int
    epoch: int
    seq: int
    server_uuid: str
    file: str
    pos: int
    gtid_set: str | None
    resume: Mapping[str, Any] | None


@dataclass(slots=True)
class Journal:
    """The journal of one destination, as far as compaction has left it."""

    destination: str
    cursors: list[CursorRecord] = field(default_factory=list)
    """The first and the last of each epoch that follows another: there may be very many between."""
    regressions: list[tuple[CursorRecord, CursorRecord]] = field(default_factory=list)
    """A cursor, and the one after it that is of an older epoch or has a smaller number; the first few."""
    quarantined: dict[tuple[str, str], bool] = field(default_factory=dict)
    """Tables that were ever quarantined, and whether they still are."""
    mappings: MappingsInForce = field(default_factory=MappingsInForce)
    """The versions of the mapping in ZooKeeper that it published by."""
    snapshots: Snapshots = field(default_factory=Snapshots)
    """The readings of existing rows."""

    def take(self, _topic: str, _partition: int, record: StoredRecord) -> None:
        """Add a record."""
        kind, _, rest = record.key.decode("utf-8", "replace").partition("/")
        if kind == "cursor" and rest == self.destination:
            value = orjson.loads(record.value)
            if not value.get("gone"):
                names = ("epoch", "seq", "server_uuid", "file", "pos", "gtid_set", "resume")
                fields = {name: value[name] for name in names}
                self._move(CursorRecord(offset=record.offset, **fields))
        elif kind == MAPPING.name and rest.partition("/")[0] == self.destination:
            self.mappings.take(kind, rest.split("/")[1:], record)
        elif kind == SNAPSHOT.name and rest.partition("/")[0] == self.destination:
            self.snapshots.take(kind, rest.split("/")[1:], record)
        elif kind == "quarantine" and rest.partition("/")[0] == self.destination:
            value = orjson.loads(record.value)
            if not value.get("gone"):
                name = (value["database"], value["table"])
                self.quarantined[name] = value["outcome"] != "released"

    def _move(self, cursor: CursorRecord) -> None:
        held = self.cursors
        if held:
            is_back = cursor.epoch < held[-1].epoch or cursor.seq < held[-1].seq
            if is_back and len(self.regressions) < _MOST_REGRESSIONS:
                self.regressions.append((held[-1], cursor))
            if not is_back and [one.epoch for one in held[-2:]] == [cursor.epoch] * 2:
                held.pop()
        held.append(cursor)


def journal(published: Published, prefix: str, destination: str, *, partitions: int) -> Journal:
    """Read the journal; the cursor is the last of its cursors."""
    found = Journal(destination)
    name = journal_topic(prefix)
    published.read([(name, number) for number in range(partitions)], found.take)
    return found
