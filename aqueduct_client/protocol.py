"""The subscriber's interface to Kafka: a member of a group, and a log that is read at will.

Invariant: every implementation passes ``tests/contract/test_subscriber_consumers.py``. Only committed records
are seen, and only ``commit`` commits offsets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from aqueduct_client.records import Partition, RawRecord

Assigned = Callable[[frozenset[Partition]], None]
"""Called with all partitions of this member after each rebalance, and with an empty set when one begins."""


class TopicFacts(NamedTuple):
    """A topic that exists."""

    id: str | None
    """It changes if the topic is deleted and created again; None from brokers before 3.1."""
    partitions: int


class Consumer(Protocol):
    """A member of a group. Each method raises a SubscriberError."""

    async def poll(
        self, *, seconds: float, most: int, without: Collection[Partition] = ()
    ) -> list[RawRecord]:
        """Return the next records, in order within a partition; an empty list after ``seconds`` without any.

        ``without``: assigned partitions, but not all, that are not read by this call.
        """
        ...

    async def committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the group's offsets; a partition without one is missing."""
        ...

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Store the group's offsets; raise StaleBatch if the partitions are another member's now."""
        ...

    async def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Continue reading at these offsets."""
        ...

    async def topics(self, names: Collection[str] | None) -> dict[str, TopicFacts]:
        """Return the named topics that exist; None: all that the account may see."""
        ...


class Log(Protocol):
    """Partitions as logs, read without a group."""

    async def bounds(self, partition: Partition) -> tuple[int, int]:
        """Return the first offset, and the end of committed records."""
        ...

    async def offset_at(self, partition: Partition, ts_ms: int) -> int | None:
        """Return the offset of the first record written at this time or later; None without such a record."""
        ...

    async def read(self, partition: Partition, offset: int) -> list[RawRecord]:
        """Return some records with a value, from the first at or after an offset; an empty list at the end."""
        ...


JoinsGroup = Callable[[Assigned], AbstractAsyncContextManager[Consumer]]
OpensLog = Callable[[], AbstractAsyncContextManager[Log]]
Appends = Callable[[str, Sequence[tuple[bytes, bytes]]], Awaitable[None]]
"""Appends keys and values to a compacted topic of one partition, which is made if it does not exist."""
