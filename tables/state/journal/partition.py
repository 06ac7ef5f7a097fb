"""The journal's partition of one destination: the position of its records, and how to read them.

Invariant: committed records only, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.kafka.reading.partition_reader import StoredRecord, read_each
from connectors.kafka.topics.topics import TopicPlan
from tables.state.journal.state import DestinationState, partition_of
from wire.topics import journal_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalPartition:
    """A partition that holds the records of a destination, and those of others."""

    destination: str
    topic: str
    number: int
    options: Mapping[str, Any]
    """The options for connecting to Kafka."""

    @classmethod
    def of(cls, destination: str, topic: TopicPlan, options: Mapping[str, Any]) -> JournalPartition:
        """The partition of a destination, in the journal of its installation."""
        number = partition_of(destination, topic.partitions)
        return cls(destination=destination, topic=topic.name, number=number, options=options)

    @property
    def prefix(self) -> str:
        """The prefix of all topics of the installation."""
        return self.topic.removesuffix(journal_topic(""))

    async def read(
        self, take: Callable[[StoredRecord], object], *, start: int = 0, waits_for_open: bool = True
    ) -> int:
        """Pass on each record from an offset to the present end; return their count. See ``read_each``."""
        return await read_each(
            self.options,
            self.topic,
            self.number,
            start=start,
            take=take,
            waits_for_open=waits_for_open,
        )

    async def fold_into(self, state: DestinationState, start: int) -> None:
        """Fold the records from an offset on into a state."""
        await self.read(state.apply, start=start)
