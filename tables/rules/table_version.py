"""One version of a table's columns, with its position and what a mapping made of it, for topic and journal.

Invariant: versions of a table count from 1 without gaps within a destination, and a version never
changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.errors import JournalUnreadable
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import Coordinates
from tables.rules.mapping.rules import DEBEZIUM
from wire.records import WIRE_VERSION
from wire.table_version import Definition

_FORMAT = "record_format"
"""Not ``format``: the journal adds the number of its own format to each value by that name."""


def _since(value: Any) -> Mapping[int, int] | None:
    return None if value is None else {int(part): int(offset) for part, offset in value.items()}


def _logical(value: Any) -> TableName | None:
    return None if value is None else (str(value[0]), str(value[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """A table's definition from a position on."""

    destination: str
    database: str
    table: str
    version: int
    topic: str
    definition: Definition
    gtid: str | None
    coordinates: Coordinates
    ts_ms: int
    partitions: int | None = None
    """The number of partitions of its topic over which the table's keys are spread; None if not
    recorded: then the settings' value holds."""
    since: Mapping[int, int] | None = None
    """By partition, the offset from which keys are spread over this count: all older rows of the table are
    before it. None if the topic never had another count."""
    format: str = DEBEZIUM
    """The name of the format of its rows' records."""
    stated: Mapping[str, Any] | None = None
    """What the mapping made of its records; see ``Route.stated``. None if not recorded."""
    logical: TableName | None = None
    """The name of its table for subscribers; None if not recorded."""

    def key_json(self) -> dict[str, Any]:
        """The key of its record on the schemas topic."""
        return {
            "destination": self.destination,
            "database": self.database,
            "table": self.table,
            "version": self.version,
        }

    def to_json(self) -> dict[str, Any]:
        """The value of its record on the schemas topic, which is also what the journal keeps."""
        return {
            **self.key_json(),
            "topic": self.topic,
            **self.definition.to_json(),
            "gtid": self.gtid,
            "file": self.coordinates.file,
            "pos": self.coordinates.pos,
            "ts_ms": self.ts_ms,
            "wire": WIRE_VERSION,
            **({} if self.partitions is None else {"partitions": self.partitions}),
            **({} if self.since is None else {"since": {str(k): v for k, v in self.since.items()}}),
            **({} if self.format == DEBEZIUM else {_FORMAT: self.format}),
            **({} if self.stated is None else {"mapping": dict(self.stated)}),
            **({} if self.logical is None else {"logical": list(self.logical)}),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TableVersion:
        """Read what ``to_json`` wrote; raise JournalUnreadable for another value."""
        try:
            return cls(
                destination=value["destination"],
                database=value["database"],
                table=value["table"],
                version=value["version"],
                topic=value["topic"],
                definition=Definition.from_json(value),
                gtid=value["gtid"],
                coordinates=Coordinates(value["file"], value["pos"]),
                ts_ms=value["ts_ms"],
                partitions=value.get("partitions"),
                since=_since(value.get("since")),
                format=value.get(_FORMAT, DEBEZIUM),
                stated=value.get("mapping"),
                logical=_logical(value.get("logical")),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise JournalUnreadable(f"a table version cannot be read: {error!r}") from error
