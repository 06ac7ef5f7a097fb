"""Kafka's ids of the topics that a destination has written to.

A topic that was deleted and created again has the same name and another id, and lacks what was published.

Invariant: a topic's id is written in the Kafka transaction that first writes to the topic, or in the next
claim. Only an operator replaces it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from connectors.kafka.reading import StoredRecord
from tables.journal_format import Entry, encoded, read_as
from tables.journal_kind import FoldedOffsets, Kind, StatePart


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic:
    """A topic, as it was first written to or last accepted."""

    destination: str
    topic: str
    id: str
    ts_ms: int
    """In milliseconds since 1970, by the worker's or the command's clock."""
    by: str = ""
    """The operator who accepted that the topic was created again; empty if it was not."""
    why: str = ""
    lacks_versions: bool = False
    """Whether it is the topic of table versions, which are all to be published again."""


@dataclass(slots=True)
class KnownTopics:
    """The topics of one destination in the journal."""

    by_name: dict[str, KnownTopic] = field(default_factory=dict)
    _folded: FoldedOffsets = field(default_factory=FoldedOffsets, compare=False)

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in; one that was folded before changes nothing."""
        found = read_as("the id of a topic", record, lambda value: KnownTopic(**value))
        if self._folded.is_new(record):
            self.by_name[found.topic] = found

    @property
    def ids(self) -> dict[str, str]:
        """Each topic's id."""
        return {name: one.id for name, one in self.by_name.items()}


TOPIC_PART = StatePart(lambda _: KnownTopics())
TOPIC: Kind[Any] = Kind(name="topic", part=TOPIC_PART)


def note_of(one: KnownTopic) -> Entry:
    """A record for the journal: ``topic/<destination>/<topic>``."""
    return TOPIC.key(one.destination, one.topic), encoded(asdict(one))
