"""Settings of the start position of a source without a cursor.

Invariant: as in ``app/settings/model.py``; a time is never guessed: it has a zone, or is in milliseconds
since 1970.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.position_within import Within
from connectors.mysql.lookup.start import (
    AfterEvent,
    AfterGtids,
    AtCoordinates,
    AtTime,
    Earliest,
    Latest,
)
from connectors.mysql.lookup.start import Start as StartAt
from connectors.mysql.position import FIRST_EVENT, Coordinates, parse_gtids

_LEAST = 100_000_000_000
"""A time in 1973, in milliseconds since 1970; a smaller number was meant as seconds."""
_MOST = 100 * _LEAST


def milliseconds(value: Any) -> int:
    """Return a time as milliseconds since 1970; raise ValueError if it is no time or has no zone."""
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not _LEAST <= value < _MOST:
            raise ValueError("it is no time in milliseconds since 1970")
        return value
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(
                "a time is milliseconds since 1970 or ISO 8601 with a zone, as 2026-11-21T10:00:00Z"
            ) from None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("a time needs its zone, as 2026-11-21T10:00:00Z or …+02:00")
    return milliseconds(round(value.astimezone(UTC).timestamp() * 1000))


class WithinSettings(BaseModel):
    """How much another program has published of the transaction after a GTID set, as Debezium counts it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    events: int = Field(ge=1)
    """Complete events of the transaction, from BEGIN on."""
    rows: int = Field(default=0, ge=0)
    """Rows of the next event."""


class StartPosition(BaseModel):
    """A file with an offset or a time, a time alone, or a set of GTIDs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str | None = Field(default=None, min_length=1)
    pos: int | None = Field(default=None, ge=FIRST_EVENT)
    event: int | None = Field(default=None, ge=FIRST_EVENT)
    """The offset of the last event that another program has published; it may be within a transaction."""
    timestamp: Annotated[int | None, BeforeValidator(milliseconds)] = None
    """Milliseconds since 1970, once parsed."""
    gtid_set: str | None = None
    within: WithinSettings | None = None

    @model_validator(mode="after")
    def _check_one_position(self) -> Self:
        if self.within is not None and self.gtid_set is None:
            raise ValueError("within needs a gtid_set")
        if self.within is not None and not isinstance(parse_gtids(self.gtid_set or ""), GtidSet):
            raise ValueError("within needs MySQL's GTIDs")
        if self.gtid_set is not None:
            str(parse_gtids(self.gtid_set))
            if (self.file, self.pos, self.event, self.timestamp) != (None,) * 4:
                raise ValueError("give gtid_set alone")
        elif self.file is None and (self.pos, self.event) != (None, None):
            raise ValueError(f"{'event' if self.pos is None else 'pos'} needs its file")
        elif len([one for one in (self.pos, self.event, self.timestamp) if one is not None]) > 1:
            raise ValueError("give one of pos, event and timestamp")
        elif self.file is None and self.timestamp is None:
            raise ValueError("give file (with pos or timestamp), timestamp, or gtid_set")
        return self

    def position(self) -> StartAt:
        """Return the position to start from; a file alone means the file's beginning."""
        if self.gtid_set is not None:
            gtids, within = parse_gtids(self.gtid_set), self.within
            return AfterGtids(gtids, Within(within.events, within.rows) if within else None)
        if self.timestamp is not None:
            return AtTime(self.timestamp, self.file)
        assert self.file is not None
        if self.event is not None:
            return AfterEvent(Coordinates(self.file, self.event))
        return AtCoordinates(Coordinates(self.file, self.pos or FIRST_EVENT))


def _form(value: Any) -> str:
    """Return which of its two forms a start has, so that only that form's faults are reported."""
    return "(place)" if isinstance(value, dict | StartPosition) else "(word)"


Start = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("(word)")]
    | Annotated[StartPosition, Tag("(place)")],
    Discriminator(_form),
]


def start_position(start: Start | None) -> StartAt:
    """Return the position to start from; without a start, the end of the binlog."""
    if isinstance(start, StartPosition):
        return start.position()
    return Earliest() if start == "earliest" else Latest()
