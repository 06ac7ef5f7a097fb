"""Cursors of a merge in the journal: how far each shard's topic was merged.

Invariant: a cursor is written in the Kafka transaction of the records that it counts, so each record is merged
exactly once. One record of the journal holds all partitions of one topic. A cursor proves its offsets: for each
offset it has a checksum of the record before it, which a truncated or recreated topic lacks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from connectors.kafka.reading import StoredRecord
from tables.journal_format import Entry, encoded, read_as
from tables.journal_kind import Kind, StatePart


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCursor:
    """The offsets of one shard's topic."""

    merge: str
    """The merge's unit of leadership, instead of a destination's name."""
    topic: str
    offsets: dict[str, int]
    """The next offset to merge, by the number of the partition."""
    checksums: dict[str, int] = field(default_factory=dict)
    """The checksum of the record before that offset, by the number of the partition; see ``checksum``."""
    ts_ms: int
    """In milliseconds since 1970, by the worker's clock."""


@dataclass(slots=True)
class MergeCursors:
    """All cursors of one merge, by topic."""

    by_topic: dict[str, MergeCursor] = field(default_factory=dict)

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in."""
        found = read_as("the cursor of a merge", record, _cursor)
        self.by_topic[found.topic] = found

    def offset(self, topic: str, partition: int) -> int | None:
        """The next offset of a partition; None if none of its records was merged."""
        cursor = self.by_topic.get(topic)
        return None if cursor is None else cursor.offsets.get(str(partition))

    def checksum(self, topic: str, partition: int) -> int | None:
        """The checksum of a partition's last merged record; None if it is not known."""
        cursor = self.by_topic.get(topic)
        return None if cursor is None else cursor.checksums.get(str(partition))


def _cursor(value: dict[str, Any]) -> MergeCursor:
    found = MergeCursor(**value)
    numbers = (*found.offsets.values(), *found.checksums.values())
    if not isinstance(found.topic, str) or not all(isinstance(one, int) for one in numbers):
        raise TypeError("its topic is no text, or an offset is no number")
    return found


MERGE_PART = StatePart(lambda _: MergeCursors())
MERGE: Kind[Any] = Kind(name="merge", part=MERGE_PART)


def checksum(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes]]) -> int:
    """The checksum of a record, by which another record at its offset is recognized."""
    found = zlib.crc32(value or b"", zlib.crc32(key or b""))
    for name, content in headers:
        found = zlib.crc32(content or b"", zlib.crc32(name.encode(), found))
    return found


def note_of(cursor: MergeCursor) -> Entry:
    """A record for the journal: ``merge/<merge>/<topic>``."""
    return MERGE.key(cursor.merge, cursor.topic), encoded(asdict(cursor))
