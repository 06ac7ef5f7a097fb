"""Records that Kafka has removed before the sink has read them, by topic."""

from __future__ import annotations

from spark_sink.source.positions import Offsets
from spark_sink.warehouse.ledger import EARLIEST


def lost(read: Offsets, earliest: Offsets, latest: Offsets) -> dict[str, str]:
    """The topics in which Kafka no longer has the records after the offsets that are read, and why."""
    found: dict[str, str] = {}
    for (topic, partition), offset in sorted(read.items()):
        first, end = earliest.get((topic, partition)), latest.get((topic, partition))
        where = f"topic {topic}, partition {partition}"
        if first is None or end is None:
            found.setdefault(topic, f"{where} is not in Kafka, or this account may not describe it")
        elif offset != EARLIEST and not first <= offset <= end:
            has = f"is read up to offset {offset}, and Kafka has {first} to {end}"
            found.setdefault(topic, f"{where} {has}")
    return found


def removed_between(checkpoint: Offsets, applied: Offsets, earliest: Offsets) -> set[str]:
    """The topics in which Kafka lacks records after the checkpoint's offsets, but none after the ledger's.

    The checkpoint is an older copy, or its last batch was not committed: Spark would consider the records lost.
    """
    return {
        at[0]
        for at, offset in checkpoint.items()
        if offset < earliest.get(at, 0) <= applied.get(at, 0)
    }
