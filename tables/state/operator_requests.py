"""Records of an operator's requests: desired state, source choice, skips, changes of a cursor,
recoveries of the history, and the outcome of each.

Invariant: the last record is valid, and it is in the journal: every worker knows it, leader or not,
and a starting worker finds it before it claims anything.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, TypeVar

from connectors.kafka.reading import StoredRecord
from tables.journal_format import Entry, encoded, read_as
from tables.journal_format import Entry as Note
from tables.journal_kind import Audience, FoldedOffsets, Kind, StatePart


class DesiredState(Enum):
    """The desired state."""

    RUN = "run"
    PAUSE = "pause"
    """The destination keeps its leader and everything else, but reads nothing."""
    STOP = "stop"
    """No worker leads the destination."""
    DELETE = "delete"
    """No worker leads the destination, and it is no longer reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The last desired state of a destination."""

    destination: str
    desired: DesiredState = DesiredState.RUN
    restart: str = ""
    """A value other than the last one begins a new run."""
    by: str = ""
    ts_ms: int = 0
    has_ended: bool = False
    """Whether ``snapshot.mode: initial_only`` has stopped the destination once."""
    offset: int = field(default=-1, compare=False)
    """In the journal; the later of two is valid."""

    @property
    def has_leader(self) -> bool:
        """Whether a worker is to lead it."""
        return self.desired in (DesiredState.RUN, DesiredState.PAUSE)

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        return {
            "destination": self.destination,
            "wish": self.desired.value,
            "restart": self.restart,
            "by": self.by,
            "ts_ms": self.ts_ms,
            **({"has_ended": True} if self.has_ended else {}),
        }

    def to_text(self) -> str:
        """The desired state and the author of the request, for operators."""
        return f"{self.desired.value}, requested by {self.by or 'unknown'}"


def control_in(record: StoredRecord) -> Control:
    """The content of a journal record whose key begins with ``control``; raise JournalUnreadable."""

    def read(value: dict[str, Any]) -> Control:
        return Control(
            destination=value["destination"],
            desired=DesiredState(value["wish"]),
            restart=value["restart"],
            by=value["by"],
            ts_ms=value["ts_ms"],
            has_ended=value.get("has_ended", False),
            offset=record.offset,
        )

    return read_as("a control record", record, read)


@dataclass(slots=True)
class Controls:
    """The desired state of one destination in the journal."""

    last: Control | None = None

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in; an older one changes nothing."""
        if self.last is None or record.offset > self.last.offset:
            self.last = control_in(record)


CONTROL_PART = StatePart(lambda _: Controls())
CONTROL = Kind(
    name="control",
    part=CONTROL_PART,
    notice=control_in,
    # The destination may be new in the settings.
    audience=Audience.WORKER,
)


def control_note(control: Control) -> Note:
    """A record for the journal: ``control/<destination>/wish``."""
    return CONTROL.key(control.destination, "wish"), encoded(control.to_json())


# The source that a destination reads, and the one an operator requests.
#
# Invariant: the current source is in the journal, so that a restart keeps it; a request is tried
# once, and its outcome is recorded with the current source.


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
    """The requested source and the current source in the journal."""

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
        """The request, if it was not tried yet."""
        answered = self.current.answers if self.current is not None else None
        return self.request if self.request is not None and self.request.id != answered else None


def _read(kind: type[_Stored], record: StoredRecord) -> _Stored:
    return read_as("a source", record, lambda value: kind(**value))


def _request_in(record: StoredRecord) -> SourceRequest | None:
    """The request in a record; None if it describes the current source."""
    return _read(SourceRequest, record) if record.key.endswith(f"/{_REQUEST}".encode()) else None


SOURCE_PART = StatePart(lambda _: SourceChoice())
SOURCE = Kind(name="source", part=SOURCE_PART, notice=_request_in)


def source_note(stored: SourceRequest | Current) -> Entry:
    """The journal record: ``source/<destination>/asked`` or ``…/current``."""
    last = _REQUEST if isinstance(stored, SourceRequest) else _CURRENT
    return SOURCE.key(stored.destination, last), encoded(asdict(stored))


# Operator skips: transactions to skip, one by one, and whether each was skipped.
#
# Invariant: a request is pending until the cursor is past its transaction; then it has the
# transaction's position. The position is written in the Kafka transaction that moves the cursor
# there, so that a skip is done once and never in part.


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
        """The skips whose transaction is not reached yet, by transaction."""
        return {name: one for name, one in self.all.items() if one.done is None}


SKIP_PART = StatePart(lambda _: Skips())
SKIP: Kind[Any] = Kind(name="skip", part=SKIP_PART)


def skip_note(skip: Skip) -> Note:
    """A record for the journal: ``skip/<destination>/<transaction>``."""
    return SKIP.key(skip.destination, skip.transaction), encoded(asdict(skip))


# Operators' changes of a destination's cursor: who, when, from where, to where, and why.
#
# Invariant: a record is written in the Kafka transaction of the change that it describes, under a
# key of its own, and is never removed.


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
        """All changes, the oldest first."""
        return sorted(self.all.values(), key=lambda one: (one.epoch, one.ts_ms))


INTERVENTION_PART = StatePart(lambda _: Interventions())
INTERVENTION: Kind[Any] = Kind(name="intervention", part=INTERVENTION_PART)


def intervention_note(intervention: Intervention) -> Note:
    """A record for the journal: ``intervention/<destination>/<id>``."""
    return INTERVENTION.key(intervention.destination, intervention.id), encoded(
        asdict(intervention)
    )


# A recovery of the schema history, which an operator requests by `snapshot.mode: recovery`.
#
# Invariant: the record is in the Kafka transaction that begins the new history, so a request is
# carried out once, whichever worker leads. A run with another mode ends the request; the next one
# is new.


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


def recovery_note(recovery: HistoryRecovery) -> Note:
    """A record for the journal: ``recovery/<destination>/last``."""
    return RECOVERY.key(recovery.destination, "last"), encoded(asdict(recovery))


# The outcome of a request on a worker, which a command reads.
#
# Invariant: an outcome informs and decides nothing, so it may be written twice or not at all. It
# names the request by the request's offset in the destination's partition; a later outcome of the
# same worker replaces it.


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
    """The outcome in a record; raise JournalUnreadable."""
    return read_as("what a worker applied", record, lambda value: Applied(**value))


OUTCOME = Kind(
    name="applied",
    notice=applied_in,
    audience=Audience.WORKER,
    is_checkpointed=False,
)


def outcome_note(applied: Applied) -> Entry:
    """A record for the journal: ``applied/<destination>/<worker>``."""
    return OUTCOME.key(applied.destination, applied.worker), encoded(asdict(applied))
