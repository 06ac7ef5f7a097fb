"""Released records: in the order of the merge, and not yet published.

Invariant: records are never reordered, and each is returned once, in parts of limited size.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.worker.merge.ordering import Held, Lane
from connectors.kafka.reading import Partition

_MOST_RECORDS = 20_000
"""Maximum count of records in one Kafka transaction."""


class ReleasedRecord(NamedTuple):
    """A record, with the partition of the merged topic that it goes to and the lane that it came from."""

    merged: Partition
    lane: Lane
    held: Held


class Released:
    """The released records of all partitions."""

    def __init__(self) -> None:
        self._records: deque[ReleasedRecord] = deque()
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._records)

    @property
    def counts(self) -> Mapping[str, int]:
        """Records by shard."""
        return self._counts

    def add(self, merged: Partition, records: Iterable[tuple[Lane, Held]]) -> None:
        """Append the records of one partition."""
        for lane, held in records:
            self._records.append(ReleasedRecord(merged, lane, held))
            self._counts[lane.shard] += 1

    def part(self, most_bytes: int) -> list[ReleasedRecord]:
        """Remove and return the first records, of ``most_bytes`` at most; at least one record, if any."""
        found: list[ReleasedRecord] = []
        size = 0
        while self._records and len(found) < _MOST_RECORDS:
            size += self._records[0].held.bytes
            if found and size > most_bytes:
                break
            one = self._records.popleft()
            self._counts[one.lane.shard] -= 1
            found.append(one)
        return found
