"""What a worker did about a request: the record by which a command learns its outcome.

Invariant: it informs and decides nothing, so it may be there twice or not at all; it names the request by its
offset in the destination's partition, and a later one of the same worker replaces it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import Entry, damaged, decoded, encoded
from tables.journal_kind import Audience, Kind

FINAL = ("RUNNING", "PAUSED", "STOPPED", "FAILED", "FENCED")
"""States in which a destination stays until something else happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A request as one worker has carried it out so far."""

    destination: str
    worker: str
    address: str
    """Where its HTTP server is reached; may be empty."""
    request: int
    """The request's offset."""
    state: str
    error: str | None
    epoch: int
    """In which it leads; 0 where it does not."""
    ts_ms: int

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of the request by itself."""
        return self.state in FINAL


def applied_in(record: StoredRecord) -> Applied:
    """What such a record says; raise JournalDamaged."""
    try:
        return Applied(**decoded(record))
    except TypeError as error:
        raise damaged("what a worker applied", record, error) from error


OUTCOME = Kind(
    name="applied",
    notice=applied_in,
    audience=Audience.WORKER,
    is_checkpointed=False,
)


def note_of(applied: Applied) -> Entry:
    """A record for the journal: ``applied/<destination>/<worker>``."""
    return OUTCOME.key(applied.destination, applied.worker), encoded(asdict(applied))
