"""Followed partitions read up to their present ends.

Invariant: an end includes transactions that are still open, so what was committed before the call is certainly
read. Records come in the order of each partition, and in bounded numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from connectors.kafka.reading.follower import Follower, Partition
from connectors.kafka.reading.partition_reader import StoredRecord

Take = Callable[[Partition, StoredRecord], object]

_POLL_SECONDS = 0.2
_MOST_RECORDS = 2000
_GLANCE_SECONDS = 1.0
"""The time without records after which open transactions are looked for."""


async def read_to_ends(follower: Follower, partitions: Iterable[Partition], take: Take) -> None:
    """Pass on all records up to the ends that these followed partitions have now.

    Raises TransactionOpen if a transaction that stays open hides an end, and the errors of the follower.
    """
    ends = await follower.ends(list(partitions))
    glanced = time.monotonic()
    while unread := [one for one, end in ends.items() if await follower.position(one) < end]:
        count, now = await read_some(follower, unread, take), time.monotonic()
        if not count and now - glanced > _GLANCE_SECONDS:
            await follower.unread()
            glanced = now


async def read_some(follower: Follower, partitions: Iterable[Partition], take: Take) -> int:
    """Pass on the records that come within a moment; return their count."""
    batches = await follower.read(_POLL_SECONDS, most=_MOST_RECORDS, only=partitions)
    for partition, records in batches.items():
        for one in records:
            headers = tuple(one.headers)
            take(partition, StoredRecord(one.key or b"", one.value or b"", one.offset, headers))
    return sum(map(len, batches.values()))
