"""An operator's desired state of a destination: running, paused, stopped, or restarted.

Invariant: the last record is valid, and it is in the journal: every worker knows it, leader or not,
and a starting worker finds it before it claims anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import Entry as Note
from tables.journal_format import encoded, read_as
from tables.journal_kind import Audience, Kind, StatePart


class DesiredState(Enum):
    """The desired state."""

    RUN = "run"
    PAUSE = "pause"
    """It keeps its leader and everything else, and reads nothing."""
    STOP = "stop"
    """No worker leads it."""
    DELETE = "delete"
    """No worker leads it, and it is no longer reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The last desired state of a destination."""

    destination: str
    desired: DesiredState = DesiredState.RUN
    restart: str = ""
    """A value other than the last one begins a new run."""
    by: str = ""
    ts_ms: int = 0
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
        }

    def to_text(self) -> str:
        """The author of the request, for operators."""
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


def note_of(control: Control) -> Note:
    """A record for the journal: ``control/<destination>/wish``."""
    return CONTROL.key(control.destination, "wish"), encoded(control.to_json())
