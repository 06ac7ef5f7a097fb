"""The starts of a merge: where it continues in each partition of its shards' topics, and the proof of that.

Invariant: a merge continues directly after the record that it merged last, or at the first record. A topic that
was truncated or recreated has another record there, or no record; it is refused, so that its new records are
never mistaken for merged ones.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from app.worker.merge.plan import MergePlan
from connectors.errors import RecordsGone, TopicUnfit
from connectors.kafka.reading import Partition
from tables.state.merge_cursor import MergeCursors, checksum

log = logging.getLogger(__name__)

_REMEDY = (
    "Nothing was skipped. Restore the topic from a copy; or name new topics in the mapping, which are merged "
    "from their beginning."
)


class Proof(NamedTuple):
    """The record that was merged last."""

    offset: int
    checksum: int


class Start(NamedTuple):
    """The offset of the next record to merge."""

    offset: int
    proof: Proof | None
    """None if it is not known, or was deleted by the topic's retention."""

    @property
    def read_from(self) -> int:
        """The offset to read from: the proof's, if there is a proof."""
        return self.offset if self.proof is None else self.proof.offset


def start_of(
    plan: MergePlan, cursors: MergeCursors, one: Partition, *, first: int, end: int
) -> Start:
    """Return the start in a partition, whose offsets begin at ``first`` and end before ``end``.

    Raise RecordsGone if the next record was deleted, unless the plan accepts that. Raise TopicUnfit if the
    partition ends before it.
    """
    wanted, known, (topic, partition) = cursors.offset(*one) or 0, cursors.checksum(*one), one
    if wanted > end:
        raise TopicUnfit(
            f"it ends at offset {end}, and was merged up to {wanted}: it was truncated or recreated",
            merge=plan.name, topic=topic, partition=partition, remedy=_REMEDY,
        )  # fmt: skip
    if wanted < first and plan.accepts_gone:
        log.warning(
            "merge %s: records deleted before they were merged are omitted: %s [%d] from offset %d to %d",
            plan.name, topic, partition, wanted, first - 1,
        )  # fmt: skip
    elif wanted < first:
        raise RecordsGone(
            f"{first - wanted} offsets were deleted before they were merged",
            merge=plan.name, topic=topic, partition=partition, offset=wanted, first=first,
        )  # fmt: skip
    proof = Proof(wanted - 1, known) if known is not None and wanted > first else None
    return Start(max(wanted, first), proof)


def proven(plan: MergePlan, one: Partition, proof: Proof, records: list[Any]) -> list[Any]:
    """Return the first records of a partition without the proof; raise TopicUnfit if it is another record."""
    first = records[0]
    if first.offset == proof.offset:
        if checksum(first.key, first.value, first.headers) == proof.checksum:
            return records[1:]
    elif "compact" in plan.topics.cleanup_policy:
        return records
    raise TopicUnfit(
        f"the record at offset {proof.offset} is not the one that was merged: it was truncated or recreated",
        merge=plan.name, topic=one[0], partition=one[1], remedy=_REMEDY,
    )  # fmt: skip
