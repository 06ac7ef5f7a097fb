"""What a person wants of a destination: that it runs, rests, stops, or begins again.

The law: the last word counts, and stands in the journal, so that each worker knows it whoever leads, and a
worker that starts finds it before it claims anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from connectors.errors import JournalDamaged
from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import Entry as Note
from tables.journal_format import decoded, encoded
from tables.journal_kind import Audience, Kind, StatePart


class Wish(Enum):
    """What is wanted."""

    RUN = "run"
    PAUSE = "pause"
    """It keeps its leader and everything else, and reads nothing."""
    STOP = "stop"
    """Nobody leads it."""
    DELETE = "delete"
    """Nobody leads it, and it is not told of any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The last word on a destination."""

    destination: str
    wish: Wish = Wish.RUN
    restart: str = ""
    """Another one than before: begin a new run."""
    by: str = ""
    ts_ms: int = 0
    offset: int = field(default=-1, compare=False)
    """In the journal; of two the later counts."""

    @property
    def has_leader(self) -> bool:
        """Whether a worker is to lead it."""
        return self.wish in (Wish.RUN, Wish.PAUSE)

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        return {
            "destination": self.destination,
            "wish": self.wish.value,
            "restart": self.restart,
            "by": self.by,
            "ts_ms": self.ts_ms,
        }

    def told(self) -> str:
        """Who said it, for people."""
        return f"{self.wish.value}, requested by {self.by or 'unknown'}"


def control_in(record: StoredRecord) -> Control:
    """What a record of the journal whose key begins with ``control`` says; raise JournalDamaged."""
    value = decoded(record)
    try:
        return Control(
            destination=value["destination"],
            wish=Wish(value["wish"]),
            restart=value["restart"],
            by=value["by"],
            ts_ms=value["ts_ms"],
            offset=record.offset,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise JournalDamaged(f"a control record cannot be read: {error!r}") from error


@dataclass(slots=True)
class Controls:
    """What the journal says of one destination."""

    last: Control | None = None

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal's record in; an older one changes nothing."""
        if self.last is None or record.offset > self.last.offset:
            self.last = control_in(record)


CONTROL_PART = StatePart(lambda _: Controls())
CONTROL = Kind(
    name="control",
    part=CONTROL_PART,
    notice=control_in,
    # It may be of a destination that is new in the settings.
    audience=Audience.WORKER,
)


def note_of(control: Control) -> Note:
    """A record for the journal: ``control/<destination>/wish``."""
    return CONTROL.key(control.destination, "wish"), encoded(control.to_json())
