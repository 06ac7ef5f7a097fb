"""Faults, planted in the records of topics that are held in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson

from app.audit.topics.topics import Partition
from connectors.kafka.reading import StoredRecord
from tests.harness.recorded_topics import RecordedTopics

Wanted = Callable[[dict[str, Any]], bool]


class Planting:
    """A copy of the topics, and where its records are."""

    def __init__(self, topics: RecordedTopics, prefix: str) -> None:
        self.topics = topics
        self.prefix = prefix

    def find(self, topic: str, wanted: Wanted = lambda _: True) -> list[tuple[Partition, int]]:
        """The partition and index of each wanted record with a value."""
        name = f"{self.prefix}.{topic}"
        return [
            ((name, number), at)
            for number in range(self.topics.counts[name])
            for at, record in enumerate(self.topics.records[name, number])
            if record.value and wanted(orjson.loads(record.value))
        ]

    def record(self, position: tuple[Partition, int]) -> StoredRecord:
        """The record there."""
        return self.topics.records[position[0]][position[1]]

    def put(self, position: tuple[Partition, int], record: StoredRecord) -> None:
        """Put a record there."""
        self.topics.records[position[0]][position[1]] = record

    def drop(self, position: tuple[Partition, int]) -> StoredRecord:
        """Take the record away."""
        return self.topics.records[position[0]].pop(position[1])

    def append(self, partition: Partition, record: StoredRecord) -> None:
        """Append a record to a partition."""
        records = self.topics.records[partition]
        records.append(replace(record, offset=records[-1].offset + 1))

    def alter(
        self,
        position: tuple[Partition, int],
        change: Callable[[dict[str, Any]], object],
        **more: Any,
    ) -> None:
        """Change the value of a record, and other fields of it."""
        record = self.record(position)
        value = orjson.loads(record.value)
        change(value)
        self.put(position, replace(record, value=orjson.dumps(value), **more))

    def number(self, position: tuple[Partition, int], seq: int) -> None:
        """Give the record this number."""
        self.alter(position, lambda value: value["source"].update(seq=seq))
