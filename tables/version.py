"""One version of a table's columns: what a consumer must know to read its rows.

The law: versions of a table count from 1 without gaps within a destination, and a version never changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from connectors.errors import JournalUnreadable
from connectors.mysql.position import Coordinates
from connectors.wire import WIRE_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its name, ``column_type``, nullability, and the character set of text."""

    name: str
    type: str
    nullable: bool
    charset: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What two versions are compared by."""

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    """In the key's order; empty where there is none."""


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
    """Over how many partitions of its topic the table's keys are spread; None where that was not noted, and the
    settings say."""

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
            "columns": [
                {"name": c.name, "type": c.type, "nullable": c.nullable, "charset": c.charset}
                for c in self.definition.columns
            ],
            "primary_key": list(self.definition.primary_key),
            "gtid": self.gtid,
            "file": self.coordinates.file,
            "pos": self.coordinates.pos,
            "ts_ms": self.ts_ms,
            "wire": WIRE_VERSION,
            **({} if self.partitions is None else {"partitions": self.partitions}),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TableVersion:
        """Read what ``to_json`` wrote; raise JournalDamaged where it is not such."""
        try:
            return cls(
                destination=value["destination"],
                database=value["database"],
                table=value["table"],
                version=value["version"],
                topic=value["topic"],
                definition=Definition(
                    columns=tuple(Column(**column) for column in value["columns"]),
                    primary_key=tuple(value["primary_key"]),
                ),
                gtid=value["gtid"],
                coordinates=Coordinates(value["file"], value["pos"]),
                ts_ms=value["ts_ms"],
                partitions=value.get("partitions"),
            )
        except (KeyError, TypeError) as error:
            raise JournalUnreadable(f"a table version cannot be read: {error!r}") from error
