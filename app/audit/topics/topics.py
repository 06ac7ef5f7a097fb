"""The contents of Kafka as an audit reads them, and the topics that belong to one destination.

Invariant: an audit only reads, as any consumer does; records of other destinations are ignored.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import orjson

from connectors.errors import ClaimGone
from connectors.kafka.client import cluster_id
from connectors.kafka.reading import StoredRecord, Take, beginnings, read_all
from connectors.kafka.topics import Topics
from connectors.mysql.ddl.definition import TableName
from connectors.store.claims import ClaimStore, name_of
from tables.history.present_columns import Described, Versions
from tables.state.mapping_in_force import MAPPING, MAPPING_COPY, MappingsInForce
from tables.state.quarantine import Outcome
from tables.state.snapshots.snapshot_progress import SNAPSHOT, Snapshots
from wire.records import is_claimed
from wire.table_version import Definition
from wire.topics import journal_topic, merged_topic, schemas_topic, shard_topics

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
    """The options of aiokafka."""
    loop: asyncio.AbstractEventLoop

    def cluster(self) -> str | None:
        return self._done(cluster_id(self.options))

    def topics(self) -> Mapping[str, int]:
        return self._done(Topics(self.options).counts())

    def beginnings(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        return self._done(beginnings(self.options, partitions))

    def read(self, partitions: Iterable[Partition], take: Take) -> None:
        """See Published; ``take`` is called in the loop's thread, while the caller waits."""
        self._done(read_all(self.options, partitions, take))

    def _done(self, reading: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(reading, self.loop).result()


def row_topics(prefix: str, names: Iterable[str], versions: Versions) -> list[str]:
    """Return the topics among ``names`` that contain rows of an installation.

    ``<prefix>.a.__b`` may be a topic of another installation with the prefix ``<prefix>.a``; it is included
    only if a table version names it.
    """
    wanted = re.compile(re.escape(prefix) + r"\.(?!__)[^.]+\.(?!__)[^.]+")
    known = {version.topic for version in versions.values()}
    return sorted(name for name in names if name in known or wanted.fullmatch(name))


def take_version(versions: Versions, destination: str, record: StoredRecord) -> None:
    """Add the table version in a record of the topic ``<prefix>.__schemas``, if it is of this destination."""
    if not record.value:
        return
    value = orjson.loads(record.value)
    if value["destination"] == destination:
        described = Described.of(Definition.from_json(value))
        versions[value["database"], value["table"], value["version"]] = replace(
            described, topic=value["topic"], partitions=value.get("partitions")
        )


def schemas(published: Published, prefix: str, destination: str) -> Versions:
    """Read all versions."""
    found: Versions = {}
    published.read(
        [(schemas_topic(prefix), 0)],
        lambda _topic, _partition, record: take_version(found, destination, record),
    )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorRecord:
    """A cursor of the journal, with its offset."""

    offset: int
    epoch: int
    seq: int
    server_uuid: str
    file: str
    pos: int
    gtid_set: str | None
    resume: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A table that is or was quarantined; the fields are those of ``tables.state.quarantine.Entry``."""

    outcome: Outcome
    offset: int
    lost: int

    @property
    def waits(self) -> bool:
        """Whether its events from ``offset`` on wait."""
        return self.outcome not in (Outcome.RELEASED, Outcome.GIVEN_UP)


@dataclass(slots=True)
class Journal:
    """The journal's records of one destination that compaction has not removed."""

    destination: str
    cursors: list[CursorRecord] = field(default_factory=list)
    """The first and the last cursor of each run of one epoch; there may be very many between them."""
    regressions: list[tuple[CursorRecord, CursorRecord]] = field(default_factory=list)
    """A cursor, and the next cursor if it has an older epoch or a smaller number; the first few such pairs."""
    quarantined: dict[TableName, Quarantined] = field(default_factory=dict)
    """Tables that were ever quarantined."""
    mappings: MappingsInForce = field(default_factory=MappingsInForce)
    """The versions of the mapping in ZooKeeper by which the destination was published."""
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
                cursor = CursorRecord(offset=record.offset, **fields)
                held = self.cursors
                if held:
                    is_back = cursor.epoch < held[-1].epoch or cursor.seq < held[-1].seq
                    if is_back and len(self.regressions) < _MOST_REGRESSIONS:
                        self.regressions.append((held[-1], cursor))
                    if not is_back and [one.epoch for one in held[-2:]] == [cursor.epoch] * 2:
                        held.pop()
                held.append(cursor)
        elif kind == MAPPING.name and rest.partition("/")[0] == self.destination:
            self.mappings.take(kind, rest.split("/")[1:], record)
        elif kind == MAPPING_COPY.name and rest == self.destination:
            self.mappings.take(kind, [], record)
        elif kind == SNAPSHOT.name and rest.partition("/")[0] == self.destination:
            self.snapshots.take(kind, rest.split("/")[1:], record)
        elif kind == "quarantine" and rest.partition("/")[0] == self.destination:
            value = orjson.loads(record.value)
            if not value.get("gone"):
                name = (value["database"], value["table"])
                outcome = Outcome(value["outcome"])
                self.quarantined[name] = Quarantined(outcome, value["offset"], value.get("lost", 0))


def journal(published: Published, prefix: str, destination: str, *, partitions: int) -> Journal:
    """Read the journal; its last cursor is the destination's cursor."""
    found = Journal(destination)
    name = journal_topic(prefix)
    published.read([(name, number) for number in range(partitions)], found.take)
    return found


# A destination's shares of merged topics, and the copies of their records in the merged topics.
#
# Invariant: a record is judged in its share; the record with the same number in the merged topic is its copy. A
# record that is in a merged topic but in no share, because it is older than the merge or the share has lost it,
# is judged like a record of any topic.


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The names of a destination's shares; without a prefix, no topic is a share."""

    prefix: str = ""
    destination: str = ""

    def is_share(self, topic: str) -> bool:
        """Return whether a topic is this destination's share of a merged one."""
        return topic.startswith(shard_topics(self.prefix, self.destination))

    def home(self, topic: str) -> str:
        """Return the topic that a share is merged into, and any other topic itself."""
        return merged_topic(self.prefix, self.destination, topic)

    def with_homes(self, topics: Iterable[str]) -> set[str]:
        """Return the topics, and the topics into which the shares among them are merged."""
        return {name for topic in topics for name in (topic, self.home(topic))}


@dataclass(frozen=True, slots=True)
class Copies:
    """The records of merged topics that are copies, known once the shares are read."""

    topics: frozenset[str] = frozenset()
    numbers: bytes = b""
    """A bit for each number that a share has."""

    def has(self, topic: str, seq: int) -> bool:
        """Return whether a topic's record with this number is a copy."""
        if topic not in self.topics or seq >> 3 >= len(self.numbers):
            return False
        return bool(self.numbers[seq >> 3] & 1 << (seq & 7))


# Records whose images are in the claim-check store, completed for an audit.
#
# Invariant: a stored value is checked against the pointer's length and digest, and then against the source like
# any other row. Values of a store that the settings do not name are counted, and are no fault.


class Claims:
    """Resolves pointers, and counts those that it cannot resolve."""

    def __init__(self, store: ClaimStore | None, unjudged: Counter[str]) -> None:
        self._store = store
        self._unjudged = unjudged

    def redeem(self, value: dict[str, Any]) -> str | None:
        """Replace the pointer by the images; return what is wrong with them, or None."""
        if "left_out" in value:
            self._unjudged["rows without images (key_only)"] += 1
        claim = value.get("claim_check")
        if claim is None:
            return None
        if self._store is None:
            self._unjudged["rows in a claim store that the settings do not name"] += 1
            return None
        try:
            stored = self._store.get(name_of(claim["location"]))
        except ClaimGone:
            return "its images are not in the claim store"
        if not is_claimed(claim, stored):
            return "its images in the claim store differ from those stored"
        del value["claim_check"]
        value.update(orjson.loads(stored))
        return None


def is_whole(value: dict[str, Any]) -> bool:
    """Return whether a record contains its whole row."""
    return "claim_check" not in value and "left_out" not in value
