"""Verification of a peer's output against the workload, outside the timed window.

Invariant: a run that lost, repeated or invented a row has failed and has no throughput.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.errors import RunFailed
from bench.peers.peer import Peer
from bench.workloads import Recipe

_PATIENCE_MS = 20_000


@dataclass(slots=True)
class Contents:
    """The contents of a run's topics."""

    ops: Counter[str] = field(default_factory=Counter)
    creates: Counter[tuple[str, bytes]] = field(default_factory=Counter)
    """The number of creates per topic and key."""
    messages: int = 0
    tombstones: int = 0
    value_bytes: int = 0

    def faults(self, recipe: Recipe, *, tombstones: bool) -> list[str]:
        """The differences from the recipe."""
        wanted = {"c": recipe.creates, "u": recipe.updates, "d": recipe.deletes}
        found = [
            f"{self.ops[op]:,} records with op {op}, not {wanted.get(op, 0):,}"
            for op in sorted({*wanted, *self.ops})
            if self.ops[op] != wanted.get(op, 0)
        ]
        expected = recipe.deletes if tombstones else 0
        if self.tombstones != expected:
            found.append(f"{self.tombstones:,} tombstones, not {expected:,}")
        if self.creates and len(self.creates) != recipe.creates:
            found.append(f"{len(self.creates):,} keys created, not {recipe.creates:,}")
        return found


async def read(bootstrap: str, topics: Sequence[str], peer: Peer) -> Contents:
    """Read all committed records of these topics."""
    consumer = AIOKafkaConsumer(
        *topics,
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=8 * 2**20,
        check_crcs=False,
    )
    contents = Contents()
    async with consumer:
        ends: dict[TopicPartition, int] = await consumer.end_offsets(list(consumer.assignment()))
        waiting = {partition for partition, end in ends.items() if end}
        while waiting:
            fetched = await consumer.getmany(timeout_ms=_PATIENCE_MS)
            if not fetched:
                raise RunFailed(f"{', '.join(topics)}: could not be read to the end")
            for message in itertools.chain.from_iterable(fetched.values()):
                _add(contents, message.topic, message.key, message.value, peer)
            waiting = {
                partition
                for partition in waiting
                if await consumer.position(partition) < ends[partition]
            }
    return contents


def _add(
    contents: Contents, topic: str, key: bytes | None, value: bytes | None, peer: Peer
) -> None:
    if value is None:
        contents.tombstones += 1
        return
    change = peer.changes(value)
    contents.messages += 1
    contents.value_bytes += len(value)
    contents.ops[change.op] += change.rows
    if key is not None and change.op == "c":
        contents.creates[topic, key] += 1
