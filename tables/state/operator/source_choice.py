"""The source that a destination reads, and the one an operator requests.

Invariant: the current source is in the journal, so that a restart keeps it; a request is tried
once, and its outcome is recorded with the current source.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TypeVar

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import Entry, encoded, read_as
from tables.journal_kind import Kind, StatePart

_Stored = TypeVar("_Stored")
_REQUEST, _CURRENT = "asked", "current"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
    """An operator's request to read another source."""

    destination: str
    id: str
    address: str
    """``host:port``, as the settings have it."""
    by: str
    ts_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The source that is read."""

    destination: str
    address: str
    server_uuid: str
    why: str
    """For operators: the reason for the choice."""
    ts_ms: int
    answers: str | None = None
    """The id of the request that was tried last."""
    refused: str | None = None
    """Why it was refused."""
    lost: list[str] = field(default_factory=list)
    """Published transactions that it lacks for good, each with its digest and its position in the
    old source."""


@dataclass(slots=True)
class SourceChoice:
    """Both, in the journal."""

    request: SourceRequest | None = None
    current: Current | None = None

    def take(self, kind: str, names: list[str], record: StoredRecord) -> None:  # noqa: ARG002
        """Fold a record in, whose key ends with ``asked`` or ``current``."""
        if names[-1] == _REQUEST:
            self.request = _read(SourceRequest, record)
        else:
            self.current = _read(Current, record)

    @property
    def pending_request(self) -> SourceRequest | None:
        """The request that was not tried yet."""
        answered = self.current.answers if self.current is not None else None
        return self.request if self.request is not None and self.request.id != answered else None


def _read(kind: type[_Stored], record: StoredRecord) -> _Stored:
    return read_as("a source", record, lambda value: kind(**value))


def _request_in(record: StoredRecord) -> SourceRequest | None:
    """The request in a record; None if it describes the current source."""
    return _read(SourceRequest, record) if record.key.endswith(f"/{_REQUEST}".encode()) else None


SOURCE_PART = StatePart(lambda _: SourceChoice())
SOURCE = Kind(name="source", part=SOURCE_PART, notice=_request_in)


def note_of(stored: SourceRequest | Current) -> Entry:
    """The journal record: ``source/<destination>/asked`` or ``…/current``."""
    last = _REQUEST if isinstance(stored, SourceRequest) else _CURRENT
    return SOURCE.key(stored.destination, last), encoded(asdict(stored))
