"""The worker that last claimed a destination: for operators, and for workers without coordination.

Invariant: it is written in the Kafka transaction of the claim, so its epoch always equals the
cursor's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import Entry, encoded, read_as
from tables.journal_kind import Kind, StatePart


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """A worker that leads, or led last."""

    destination: str
    worker: str
    address: str
    """The address of its HTTP server; may be empty."""
    process: str
    """A random id of the process, since another may have the same worker id."""
    epoch: int
    ts_ms: int


def leader_in(record: StoredRecord) -> Leader:
    """The content of such a record; raise JournalUnreadable."""
    return read_as("who leads", record, lambda value: Leader(**value))


@dataclass(slots=True)
class Leaders:
    """The leader records of one destination in the journal."""

    last: Leader | None = None
    _offset: int = -1

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in; an older one changes nothing."""
        if record.offset > self._offset:
            self.last, self._offset = leader_in(record), record.offset


LEADER_PART = StatePart(lambda _: Leaders())
LEADER: Kind[Any] = Kind(name="leader", part=LEADER_PART)


def leader_key(destination: str) -> bytes:
    """The key of such a record: ``leader/<destination>/claim``."""
    return LEADER.key(destination, "claim")


def note_of(leader: Leader) -> Entry:
    """A record for the journal."""
    return leader_key(leader.destination), encoded(asdict(leader))
