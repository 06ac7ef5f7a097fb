"""One version of a table's columns: what a consumer needs to read its rows.

Invariant: versions of a table count from 1 without gaps within a destination, and a version never
changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from connectors.errors import JournalUnreadable
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import Coordinates
from connectors.wire import WIRE_VERSION
from tables.rules.mapping.rules import DEBEZIUM

_FORMAT = "record_format"
"""Not ``format``, which the journal adds to what it keeps: the number of its own format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its name, the type of its values, nullability, and the character set of text."""

    name: str
    type: str
    """As in the rows: without display width, ZEROFILL, and all else that changes no value."""
    nullable: bool
    charset: str | None
    column_type: str | None = None
    """As ``information_schema`` prints it; None if no definition is known, and in older records."""
    id: str | None = None
    """What identifies it in all versions of its table; None if that is its name, or not known."""
    initial: Mapping[str, Any] | None = field(default=None, compare=False)
    """What rows from before a statement that added it have in it, as on the wire; None without a known one."""
    comment: str | None = None
    """None if there is none, or none is known."""

    def to_json(self) -> dict[str, Any]:
        """The column in the record of its table version."""
        return {
            "name": self.name,
            "type": self.type,
            "nullable": self.nullable,
            "charset": self.charset,
            "column_type": self.column_type,
            **({} if self.id is None else {"id": self.id}),
            **({} if self.initial is None else {"initial": self.initial}),
            **({} if self.comment is None else {"comment": self.comment}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The parts by which two versions are compared."""

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    """In the key's order; empty if there is none."""
    comment: str | None = None
    """The table's; None if there is none, or none is known."""

    def is_same(self, other: Definition) -> bool:
        """Whether the other, later one is the same version: equal, but for a ``column_type`` that one of them
        lacks, and an ``id`` that the other lacks.

        A display width that the server chose is not compared: from 8.0.19 on MySQL prints none.
        """
        later = {column.name: column.id for column in other.columns}
        columns = (
            replace(column, id=None) if later.get(column.name) is None else column
            for column in self.columns
        )
        known = replace(self, columns=tuple(columns))
        return _comparable(known, other) == _comparable(other, known)


def _column(value: dict[str, Any]) -> Column:
    return Column(
        name=value["name"],
        type=value["type"],
        nullable=value["nullable"],
        charset=value["charset"],
        column_type=value.get("column_type"),
        id=value.get("id"),
        initial=value.get("initial"),
        comment=value.get("comment"),
    )


def _since(value: Any) -> Mapping[int, int] | None:
    return None if value is None else {int(part): int(offset) for part, offset in value.items()}


def _logical(value: Any) -> TableName | None:
    return None if value is None else (str(value[0]), str(value[1]))


def _comparable(one: Definition, other: Definition) -> Definition:
    known = {column.name: column.column_type for column in other.columns}
    columns = (
        replace(
            column,
            column_type=None
            if column.column_type is None or known.get(column.name) is None
            else without_chosen_width(column.column_type),
        )
        for column in one.columns
    )
    return replace(one, columns=tuple(columns))


_CHOSEN = {
    "tinyint(4)", "smallint(6)", "mediumint(9)", "int(11)", "bigint(20)", "year(4)",
    "tinyint(3) unsigned", "smallint(5) unsigned", "mediumint(8) unsigned", "int(10) unsigned",
    "bigint(20) unsigned",
}  # fmt: skip
"""The server's text of types that were written without a width."""
_WIDTH = re.compile(r"\(\d+\)")


def without_chosen_width(column_type: str) -> str:
    """A ``column_type`` as MySQL prints it from 8.0.19 on, if its width was not given by a statement."""
    return _WIDTH.sub("", column_type) if column_type in _CHOSEN else column_type


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
    recorded: the settings' value."""
    since: Mapping[int, int] | None = None
    """The offset in each partition from which on keys are spread so: all older rows of the table are before it.
    None if the topic never had another count."""
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
            "columns": [column.to_json() for column in self.definition.columns],
            "primary_key": list(self.definition.primary_key),
            **({} if self.definition.comment is None else {"comment": self.definition.comment}),
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
        """Read what ``to_json`` wrote; raise JournalDamaged if it is not that."""
        try:
            return cls(
                destination=value["destination"],
                database=value["database"],
                table=value["table"],
                version=value["version"],
                topic=value["topic"],
                definition=Definition(
                    columns=tuple(map(_column, value["columns"])),
                    primary_key=tuple(value["primary_key"]),
                    comment=value.get("comment"),
                ),
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
