"""Ledger entries (applied batches) and floors (truncates), and the starting offsets derived from them.

Invariant: a batch is recorded here after all its tables are merged, so the ledger never claims more than the
tables hold, and a sink that lost its checkpoint resumes from the ledger alone. Floors are recorded first: a
truncate excludes older rows even if the sink dies before it has removed them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spark_sink.errors import CheckpointPastLedger
from spark_sink.source.positions import Offsets

EARLIEST: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One partition's share of one batch; offsets are [from, until)."""

    query_id: str
    batch_id: int
    topic: str
    partition: int
    from_offset: int
    until_offset: int
    records: int
    applied_at_ms: int
    milestone: str | None = None
    """With the first entry of a batch: what the tables hold after it (`milestones.Milestone`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """The last batch in the ledger; `batch_id` begins again at 0 if the checkpoint is lost."""

    batch_id: int
    records: int
    applied_at_ms: int


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """A source table of a destination, one of those that fill a table of the warehouse."""

    destination: str
    database: str
    table: str


Floors = Mapping[Source, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """A truncate: rows of the table from `source` before (epoch, seq) are removed for good."""

    database: str
    table: str
    source: Source
    epoch: int
    seq: int
    ts_ms: int

    @property
    def is_mapped(self) -> bool:
        """Whether the source table's name differs from the warehouse table's."""
        return (self.source.database, self.source.table) != (self.database, self.table)

    @property
    def place(self) -> tuple[int, int]:
        """The position of the truncate, by which floors are ordered: (epoch, seq)."""
        return self.epoch, self.seq


def spans(start: Offsets, end: Offsets) -> dict[tuple[str, int], tuple[int, int]]:
    """The range [from, until) of each partition that advanced; a partition new in the batch starts at 0."""
    return {at: (start.get(at, 0), until) for at, until in end.items() if until > start.get(at, 0)}


def starting_offsets(applied: Offsets, latest: Offsets) -> str:
    """Spark's Kafka option `startingOffsets`, for a sink that has a ledger but no checkpoint."""
    start: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(latest):
        offset = applied.get((topic, partition), EARLIEST)
        start.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(start)


def check_checkpoint_not_past_ledger(
    applied: Offsets, checkpoint: Offsets, initial: Offsets
) -> None:
    """Raise CheckpointPastLedger if the checkpoint claims more than the warehouse holds.

    That happens after a backup of the warehouse is restored.
    """
    for at, offset in sorted(checkpoint.items()):
        if offset > applied.get(at, initial.get(at, 0)):
            raise CheckpointPastLedger(
                f"topic {at[0]}, partition {at[1]}: the checkpoint is at {offset}, the ledger at "
                f"{applied.get(at, 'nothing')}",
                advice="Remove the checkpoint folder; the sink then starts from the ledger",
            )


def entries_of(
    records: Mapping[tuple[str, int], int],
    moved: tuple[Offsets, Offsets],
    *,
    query_id: str,
    batch_id: int,
    applied_ms: int,
) -> list[Entry]:
    """The entries of a batch that moved from its start to its end; `records` counts them by partition."""
    return [
        Entry(
            query_id=query_id,
            batch_id=batch_id,
            topic=topic,
            partition=partition,
            from_offset=start,
            until_offset=until,
            records=records.get((topic, partition), 0),
            applied_at_ms=applied_ms,
        )
        for (topic, partition), (start, until) in sorted(spans(*moved).items())
    ]
