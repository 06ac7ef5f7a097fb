"""The check that a fenced producer stays out: which one committed, and which claimed which epoch.

Invariant: an epoch belongs to one producer, and a producer commits nothing after another has taken over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Cursors = Sequence[Mapping[str, Any]]
"""The journal's cursors, in its order."""


def fencing_faults(
    cursors: Cursors, offsets: Sequence[int], producers: Mapping[int, tuple[int, int]]
) -> list[str]:
    """Commits of a producer after those of a later one, and epochs that two producers claimed."""
    faults: list[str] = []
    seen: list[tuple[int, int]] = []
    owners: dict[int, tuple[int, int]] = {}
    for cursor, offset in zip(cursors, offsets, strict=False):
        if cursor.get("by"):
            continue  # an operator's
        producer = producers.get(offset)
        if producer is None:
            faults.append(f"the broker's files do not show whose the cursor at {offset} is")
            continue
        if producer in seen[:-1]:
            faults.append(f"producer {producer} commits at {offset} after {seen[-1]}")
        if not seen or producer != seen[-1]:
            seen.append(producer)
        owner = owners.setdefault(cursor["epoch"], producer)
        if owner != producer:
            faults.append(f"epoch {cursor['epoch']} is of {owner} and of {producer}")
    return faults


def claims_faults(cursors: Cursors, most: int | None) -> list[str]:
    """More epochs than had cause to be claimed."""
    epochs = sorted({cursor["epoch"] for cursor in cursors})
    if most is None or len(epochs) <= most:
        return []
    return [f"{len(epochs)} epochs were claimed, where {most} had cause"]
