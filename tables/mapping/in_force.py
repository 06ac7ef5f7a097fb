"""The versions of the mapping that a destination published by, with the position from which each was in force.

Invariant: a record is in the Kafka transaction that claims an epoch at its position, between two transactions
of the source. All rows before that position were published by earlier versions, all rows after it by this one
or later ones.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import Entry, encoded, read_as
from tables.journal_kind import Kind, StatePart


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingInForce:
    """A version of the mapping, and the boundary at which it came into force."""

    destination: str
    version: int
    digest: str
    """Of the mapping's contents."""
    position: str
    """The position of the source at which it came into force, as an operator reads it."""
    seq: int
    """The last number given to a record before it."""
    ts_ms: int
    """In milliseconds since 1970, by the worker's clock."""


@dataclass(slots=True)
class MappingsInForce:
    """All of a destination's boundaries in the journal, by version."""

    by_version: dict[int, MappingInForce] = field(default_factory=dict)

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in."""
        found = read_as("the mapping in force", record, lambda value: MappingInForce(**value))
        self.by_version[found.version] = found

    def in_order(self) -> list[MappingInForce]:
        """All of them, the oldest first."""
        return [self.by_version[number] for number in sorted(self.by_version)]

    @property
    def last(self) -> MappingInForce | None:
        """The version in force now; None before the first. Versions only come into force in their order."""
        return self.by_version[max(self.by_version)] if self.by_version else None


MAPPING_PART = StatePart(lambda _: MappingsInForce())
MAPPING: Kind[Any] = Kind(name="mapping", part=MAPPING_PART)


def note_of(one: MappingInForce) -> Entry:
    """A record for the journal: ``mapping/<destination>/<version>``."""
    return MAPPING.key(one.destination, str(one.version)), encoded(asdict(one))
