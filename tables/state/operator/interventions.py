"""Operators' changes of a destination's cursor: who, when, from where, to where, and why.

Invariant: a record is written in the Kafka transaction of the change that it describes, under a key
of its own, and is never removed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import Entry as Note
from tables.journal_format import encoded, read_as
from tables.journal_kind import Kind, StatePart


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """One change by an operator."""

    destination: str
    id: str
    what: str
    """``set``, ``skip`` or ``import``."""
    by: str
    why: str
    ts_ms: int
    epoch: int
    """The epoch of the change."""
    before: str | None
    """The cursor's position before, as text; None before the first cursor."""
    after: str
    """The new position; of a skip, the transaction."""
    effect: str
    """The effect on subscribers, as it was announced before."""


@dataclass(slots=True)
class Interventions:
    """All changes of one destination in the journal."""

    all: dict[str, Intervention] = field(default_factory=dict)

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in."""
        intervention = read_as("an intervention", record, lambda value: Intervention(**value))
        self.all[intervention.id] = intervention

    def in_order(self) -> list[Intervention]:
        """The oldest first."""
        return sorted(self.all.values(), key=lambda one: (one.epoch, one.ts_ms))


INTERVENTION_PART = StatePart(lambda _: Interventions())
INTERVENTION: Kind[Any] = Kind(name="intervention", part=INTERVENTION_PART)


def note_of(intervention: Intervention) -> Note:
    """A record for the journal: ``intervention/<destination>/<id>``."""
    return INTERVENTION.key(intervention.destination, intervention.id), encoded(
        asdict(intervention)
    )
