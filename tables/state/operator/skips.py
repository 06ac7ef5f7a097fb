"""Operator skips: transactions to skip, one by one, and whether that was done.

Invariant: a request is pending until the cursor is past its transaction, and then has its position.
That is written in the Kafka transaction that moves the cursor there, so that a skip is done once
and never in part.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import Entry as Note
from tables.journal_format import encoded, read_as
from tables.journal_kind import Kind, StatePart
from tables.state.folded_offsets import FoldedOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """One transaction that is not to be published."""

    destination: str
    transaction: str
    """Its GTID; without GTIDs ``server_uuid:file:pos`` of its first event."""
    id: str
    by: str
    why: str
    ts_ms: int
    done: str | None = None
    """The transaction's position, ``file:pos``, once it was skipped."""
    events: int = 0
    """The number of its events that were not read."""


@dataclass(slots=True)
class Skips:
    """The skips of one destination in the journal."""

    all: dict[str, Skip] = field(default_factory=dict)
    """By transaction."""
    _folded: FoldedOffsets = field(default_factory=FoldedOffsets, compare=False)

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in; one that was folded before changes nothing."""
        skip = read_as("a skip", record, lambda value: Skip(**value))
        if self._folded.is_new(record):
            self.all[skip.transaction] = skip

    @property
    def pending(self) -> dict[str, Skip]:
        """Those not yet reached, by transaction."""
        return {name: one for name, one in self.all.items() if one.done is None}


SKIP_PART = StatePart(lambda _: Skips())
SKIP: Kind[Any] = Kind(name="skip", part=SKIP_PART)


def note_of(skip: Skip) -> Note:
    """A record for the journal: ``skip/<destination>/<transaction>``."""
    return SKIP.key(skip.destination, skip.transaction), encoded(asdict(skip))
