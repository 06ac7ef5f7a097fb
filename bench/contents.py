"""Verification of a peer's output against the workload, outside the timed window.

Invariant: a run that lost, repeated or invented a row has failed and has no throughput.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.errors import RunFailed
from bench.peers.peer import Peer
from bench.workloads import Recipe
from devstack import topics as consumed


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
    contents = Contents()
    options = {"max_partition_fetch_bytes": 8 * 2**20, "check_crcs": False}
    try:
        async for messages in consumed.batches(bootstrap, topics, **options):
            for message in messages:
                _add(contents, message.topic, message.key, message.value, peer)
    except consumed.TopicsUnreadable as error:
        raise RunFailed(f"{', '.join(topics)}: {error}") from error
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
