"""The records that the sink has applied, by its own ledger.

Invariant: the ledger has offsets of the topics that the sink reads. A merge keeps the partition of each record,
and within it the order of each destination, so a share is applied up to the greatest number that the merged
partition has before the ledger's offset. Where those records are gone, that is not known.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.audit.topics.shares import Shares
from app.audit.topics.topics import Partition
from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.kafka.reading.record_source import source_of

NumberPosition = tuple[int, int]
"""Epoch and number."""
NEVER: NumberPosition = (-1, -1)


class Applied:
    """Takes the records of merged topics first; then it has which records of any topic are applied."""

    def __init__(self, until: Mapping[Partition, int], shares: Shares) -> None:
        """``until``: the ledger's offset of each partition, that of the first record not applied."""
        self._until, self._shares = until, shares
        self._reached: dict[Partition, NumberPosition] = {}
        self._cut: set[Partition] = set()

    def cut(self, partition: Partition) -> None:
        """Note that a partition does not have all records that it had."""
        self._cut.add(partition)

    def take(self, topic: str, partition: int, record: StoredRecord) -> None:
        """Take a record of a merged topic, in the order of its partition."""
        at = topic, partition
        if record.offset >= self._until.get(at, 0):
            return
        try:
            source = source_of(record)
            if source.get("name") == self._shares.destination:
                position = int(source["epoch"]), int(source["seq"])
                self._reached[at] = max(self._reached.get(at, NEVER), position)
        except (KeyError, TypeError, ValueError):
            return  # the check of records reports it

    def has(self, at: Partition, offset: int, position: NumberPosition) -> bool:
        """Return whether a record is applied."""
        if self._shares.is_share(at[0]):
            return position <= self._reached.get(self._home(at), NEVER)
        return offset < self._until.get(at, 0)

    def is_unknown(self, at: Partition) -> bool:
        """Return whether it is not known how far a partition is applied."""
        home = self._home(at)
        if home == at or home in self._reached:
            return False
        return home in self._cut and self._until.get(home, 0) > 0

    def _home(self, at: Partition) -> Partition:
        return self._shares.home(at[0]), at[1]
