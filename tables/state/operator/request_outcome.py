"""The outcome of a request on a worker, by which a command learns of it.

Invariant: it informs and decides nothing, so it may be there twice or not at all; it names the
request by its offset in the destination's partition, and a later one of the same worker replaces
it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import Entry, encoded, read_as
from tables.journal_kind import Audience, Kind

FINAL = ("RUNNING", "PAUSED", "STOPPED", "FAILED", "FENCED")
"""States in which a destination stays until something else happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A worker's progress in carrying out a request."""

    destination: str
    worker: str
    address: str
    """The address of its HTTP server; may be empty."""
    request: int
    """The request's offset."""
    state: str
    error: str | None
    epoch: int
    """The epoch in which it leads; 0 if it does not."""
    ts_ms: int

    @property
    def is_final(self) -> bool:
        """Whether the request has no further effect by itself."""
        return self.state in FINAL


def applied_in(record: StoredRecord) -> Applied:
    """The content of such a record; raise JournalUnreadable."""
    return read_as("what a worker applied", record, lambda value: Applied(**value))


OUTCOME = Kind(
    name="applied",
    notice=applied_in,
    audience=Audience.WORKER,
    is_checkpointed=False,
)


def note_of(applied: Applied) -> Entry:
    """A record for the journal: ``applied/<destination>/<worker>``."""
    return OUTCOME.key(applied.destination, applied.worker), encoded(asdict(applied))
