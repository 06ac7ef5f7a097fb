"""Marks: the times up to which the shards of a merge are published, as their progress topics state them.

Invariant: a mark is never older than the merge's last transaction. The Kafka client fetches records in advance,
so after a long commit a shard would seem to stall if its marks were not read up to the present ends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from app.worker.merge.plan import MergePlan
from connectors.kafka.reading import Follower, Partition

log = logging.getLogger(__name__)

_FIRST_OFFSETS = 50
"""How many offsets before its end a progress topic is read from; each record takes two."""
_OLD_SECONDS = 1.0
"""Seconds since the last read after which the present ends are requested and read up to."""
_READS = 20
"""Maximum count of reads to reach these ends; a later call reads the rest."""
_READ_SECONDS = 0.1


@dataclass(slots=True)
class Marks:
    """The marks of all shards of a merge."""

    plan: MergePlan
    follower: Follower
    newest: dict[str, int] = field(default_factory=dict)
    """By shard: the newest time, in milliseconds, before which all commits of the shard are published."""
    partitions: dict[Partition, str] = field(default_factory=dict)
    """The progress topics that are followed, with the shard of each."""
    _read: float = float("-inf")

    async def follow(self, topic: str, shard: str) -> None:
        """Add the progress topic of a shard to those that are followed."""
        one = (topic, 0)
        if one in self.partitions:
            return
        end = (await self.follower.ends([one]))[one]
        first = (await self.follower.beginnings([one]))[one]
        self.partitions[one] = shard
        await self.follower.follow({one: max(first, end - _FIRST_OFFSETS)})

    async def read(self) -> None:
        """Take in the marks that the topics contain now, without waiting for more."""
        if not self.partitions:
            return
        is_old = time.monotonic() - self._read > _OLD_SECONDS
        asked = self.partitions.keys() - self.follower.unreadable.keys() if is_old else set()
        ends = await self.follower.readable(asked)
        for _ in range(_READS):
            late = [one for one, end in ends.items() if await self.follower.position(one) < end]
            seconds = _READ_SECONDS if late else 0
            found = await self.follower.read(seconds, only=late or self.partitions)
            for one, records in found.items():
                self.take(one, records)
            if not late:
                break
        self._read = time.monotonic()

    def take(self, one: Partition, records: Iterable[Any]) -> None:
        """Take in records of a progress topic; skip a foreign record, since the next mark replaces it."""
        shard = self.partitions[one]
        for record in records:
            try:
                mark = int(orjson.loads(record.value)["complete_ms"])
            except (ValueError, KeyError, TypeError):
                log.warning(
                    "merge %s: a foreign record is skipped: %s, offset %d",
                    self.plan.name, one[0], record.offset,
                )  # fmt: skip
                continue
            self.newest[shard] = max(self.newest.get(shard, 0), mark)
