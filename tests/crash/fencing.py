"""Whether whoever was fenced stays out: who committed what, and who claimed which epoch.

The law: an epoch is of one producer alone, and a producer that another has followed commits nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.crash.verdict import Topics


def fencing_faults(topics: Topics) -> list[str]:
    """Commits of a producer behind those of a later one, and epochs that two producers claimed."""
    faults: list[str] = []
    seen: list[tuple[int, int]] = []
    owners: dict[int, tuple[int, int]] = {}
    for cursor, offset in zip(topics.cursors, topics.offsets, strict=False):
        producer = topics.producers.get(offset)
        if producer is None or cursor.get("by"):
            continue  # a person's
        if producer in seen[:-1]:
            faults.append(f"producer {producer} commits at {offset} behind {seen[-1]}")
        if not seen or producer != seen[-1]:
            seen.append(producer)
        owner = owners.setdefault(cursor["epoch"], producer)
        if owner != producer:
            faults.append(f"epoch {cursor['epoch']} is of {owner} and of {producer}")
    return faults


def claims_faults(topics: Topics) -> list[str]:
    """More epochs than had cause to be claimed."""
    epochs = sorted({cursor["epoch"] for cursor in topics.cursors})
    if topics.most_claims is None or len(epochs) <= topics.most_claims:
        return []
    return [f"{len(epochs)} epochs were claimed, where {topics.most_claims} had cause"]
