"""Topics read once and kept in memory, as an audit reads them: the twin of KafkaTopics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from app.audit.topics.topics import Partition, Published
from connectors.kafka.reading import StoredRecord, Take


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
        return None

    def topics(self) -> Mapping[str, int]:
        return self.counts

    def beginnings(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        return {part: self.firsts.get(part, 0) for part in partitions}

    def read(self, partitions: Iterable[Partition], take: Take) -> None:
        for topic, number in partitions:
            for record in self.records.get((topic, number), ()):
                take(topic, number, record)
