"""A recovery of the schema history, which an operator requests by ``snapshot.mode: recovery``.

Invariant: the record is in the Kafka transaction that begins the new history, so a request is carried out once,
whichever worker leads. A run with another mode ends the request; the next one is new.
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
class HistoryRecovery:
    """The last recovery of a destination's schema history."""

    destination: str
    at: str
    """The position at which the history began again."""
    why: str
    """The request, or the reason why the history could not be used."""
    ts_ms: int
    is_requested: bool = True
    """Whether all runs since had the mode ``recovery``."""


@dataclass(slots=True)
class Recoveries:
    """The last recovery of one destination in the journal."""

    last: HistoryRecovery | None = None
    _folded: FoldedOffsets = field(default_factory=FoldedOffsets, compare=False)

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in; one that was folded before changes nothing."""
        recovery = read_as("a recovery", record, lambda value: HistoryRecovery(**value))
        if self._folded.is_new(record):
            self.last = recovery


RECOVERY_PART = StatePart(lambda _: Recoveries())
RECOVERY: Kind[Any] = Kind(name="recovery", part=RECOVERY_PART)


def note_of(recovery: HistoryRecovery) -> Note:
    """A record for the journal: ``recovery/<destination>/last``."""
    return RECOVERY.key(recovery.destination, "last"), encoded(asdict(recovery))
