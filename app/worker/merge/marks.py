"""Marks: the times up to which the shards of a merge are published, as their progress topics state them.

Invariant: a mark is never older than the merge's last transaction. Kafka sends what there is in advance; what
came while that transaction was committed would make a shard seem to stall.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from app.worker.merge.plan import MergePlan
from connectors.kafka.reading.partition_reader import Follower, Partition

log = logging.getLogger(__name__)

_FIRST_OFFSETS = 50
"""Offsets of a progress topic that are read at first; each record takes two."""
_OLD_SECONDS = 1.0
"""Since the last read; from then on it is asked for the present ends."""
_READS = 20
"""Reads within which these are reached, or given up for now."""
_READ_SECONDS = 0.1


@dataclass(slots=True)
class Marks:
    """The marks of all shards of a merge."""

    plan: MergePlan
    follower: Follower
    newest: dict[str, int] = field(default_factory=dict)
    """The newest time, in milliseconds, before which all of a shard's commits are published."""
    partitions: dict[Partition, str] = field(default_factory=dict)
    """The progress topics that are followed, with the shard of each."""
    _read: float = float("-inf")

    async def follow(self, topic: str, shard: str) -> None:
        """Follow the progress topic of a shard too."""
        one = (topic, 0)
        if one in self.partitions:
            return
        end = (await self.follower.ends([one]))[one]
        first = (await self.follower.beginnings([one]))[one]
        self.partitions[one] = shard
        await self.follower.follow({one: max(first, end - _FIRST_OFFSETS)})

    async def read(self) -> None:
        """Take in what there is, without waiting for more."""
        if not self.partitions:
            return
        is_old = time.monotonic() - self._read > _OLD_SECONDS
        asked = self.partitions.keys() - self.follower.leaderless if is_old else set()
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
        """Take in records of a progress topic; a foreign one is skipped, as the next mark counts as well."""
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
