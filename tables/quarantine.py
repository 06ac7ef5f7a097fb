"""Tables that are set aside: what a person has said about one, and how far what waited is published since.

The law: that a table is set aside stands in its history alone; here is only how it comes back. A resolution has a
name of its own, so that each is tried once; the progress is written in the transaction of the rows it counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from connectors.errors import JournalDamaged
from connectors.mysql.ddl.definition import Table, TableName
from tables.definitions import table_from_json, table_to_json


class Outcome(Enum):
    """What became of a resolution."""

    RELEASING = "releasing"
    """Some of what waited is published."""
    RELEASED = "released"
    REFUSED = "refused"
    """What waits does not fit; the table stays set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What a person says of a table that is set aside."""

    destination: str
    name: TableName
    id: str
    table: Table | None
    """Its definition where the first of what waits was written; None: as the binlog itself describes it."""
    by: str
    ts_ms: int

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        return {
            "destination": self.destination,
            "database": self.name[0],
            "table": self.name[1],
            "id": self.id,
            "definition": None if self.table is None else table_to_json(self.table),
            "by": self.by,
            "ts_ms": self.ts_ms,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Resolution:
        """Read what ``to_json`` wrote; raise JournalDamaged where it is not such."""
        try:
            definition = value["definition"]
            return cls(
                destination=value["destination"],
                name=(value["database"], value["table"]),
                id=value["id"],
                table=None if definition is None else table_from_json(definition),
                by=value["by"],
                ts_ms=value["ts_ms"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise JournalDamaged(f"a resolution cannot be read: {error!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a table's waiting events are published."""

    destination: str
    name: TableName
    offset: int
    """In the quarantine topic: where the next one may stand."""
    resolution: str = ""
    """The last one that was tried."""
    outcome: Outcome = Outcome.RELEASED
    reason: str = ""
    table: Table | None = None
    """The definition at ``offset``, where a release was cut off."""

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        return {
            "destination": self.destination,
            "database": self.name[0],
            "table": self.name[1],
            "offset": self.offset,
            "resolution": self.resolution,
            "outcome": self.outcome.value,
            "reason": self.reason,
            "definition": None if self.table is None else table_to_json(self.table),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Progress:
        """Read what ``to_json`` wrote; raise JournalDamaged where it is not such."""
        try:
            definition = value["definition"]
            return cls(
                destination=value["destination"],
                name=(value["database"], value["table"]),
                offset=value["offset"],
                resolution=value["resolution"],
                outcome=Outcome(value["outcome"]),
                reason=value["reason"],
                table=None if definition is None else table_from_json(definition),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise JournalDamaged(f"a quarantine's progress cannot be read: {error!r}") from error


@dataclass(slots=True)
class Quarantine:
    """What the journal says of the tables of one destination that were set aside."""

    resolutions: dict[TableName, Resolution] = field(default_factory=dict)
    progress: dict[TableName, Progress] = field(default_factory=dict)

    def pending(self) -> list[Resolution]:
        """Resolutions that were not tried to their end, the oldest first."""
        return sorted(
            (each for each in self.resolutions.values() if self._is_pending(each)),
            key=lambda each: each.ts_ms,
        )

    def _is_pending(self, resolution: Resolution) -> bool:
        progress = self.progress.get(resolution.name)
        return (
            progress is None
            or progress.resolution != resolution.id
            or progress.outcome is Outcome.RELEASING
        )
