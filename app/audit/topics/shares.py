"""The shares of a destination whose rows are merged with others', and their copies in the merged topics.

Invariant: a record is judged in its share, and the one with its number in the merged topic is a copy of it.
What a merged topic has and no share, because it is from before the merge or the share has lost it, is judged
like the records of any topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wire.topics import merged_topic, shard_topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The names of a destination's shares; without a prefix, none is one."""

    prefix: str = ""
    destination: str = ""

    def is_share(self, topic: str) -> bool:
        """Return whether a topic is this destination's share of a merged one."""
        return topic.startswith(shard_topics(self.prefix, self.destination))

    def home(self, topic: str) -> str:
        """Return the topic that a share is merged into, and any other topic itself."""
        return merged_topic(self.prefix, self.destination, topic)

    def with_homes(self, topics: Iterable[str]) -> set[str]:
        """Return topics, and those that shares among them are merged into."""
        return {name for topic in topics for name in (topic, self.home(topic))}


@dataclass(frozen=True, slots=True)
class Copies:
    """Which records of merged topics are copies, once the shares were read."""

    topics: frozenset[str] = frozenset()
    numbers: bytes = b""
    """A bit for each number that a share has."""

    def has(self, topic: str, seq: int) -> bool:
        """Return whether the record of a number in a topic is a copy."""
        if topic not in self.topics or seq >> 3 >= len(self.numbers):
            return False
        return bool(self.numbers[seq >> 3] & 1 << (seq & 7))
