"""The columns and the key of one version of a table, as the schemas topic has them.

Invariant: versions of a table count from 1 without gaps within a destination, and a version never changes. Two
definitions that differ only by a display width that a server chose are one version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

MASKED = "masked by the mapping"
"""Why the value of a column in earlier rows is unknown, if the mapping masks it since."""


@dataclass(frozen=True, slots=True, order=True)
class VersionKey:
    """The identity of a table version, which is the key of its record."""

    destination: str
    database: str
    table: str
    version: int

    def __str__(self) -> str:
        """As an error names it."""
        return f"{self.database}.{self.table} version {self.version} of {self.destination}"

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> VersionKey:
        """Read it from a record's key or value; raise KeyError or TypeError if it names no version."""
        found = cls(value["destination"], value["database"], value["table"], value["version"])
        names = (found.destination, found.database, found.table)
        if not all(isinstance(one, str) for one in names) or not isinstance(found.version, int):
            raise TypeError("a name is no text, or the version no number")
        return found


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
    """Its identity in all versions of its table; None if its name identifies it, or if not known."""
    initial: Mapping[str, Any] | None = field(default=None, compare=False)
    """The value, as on the wire, in rows from before a statement added it; None if no statement is known."""
    comment: str | None = None
    """None if the column has no comment, or if its comment is not known."""

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

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Column:
        """Read what ``to_json`` wrote."""
        return cls(
            name=value["name"],
            type=value["type"],
            nullable=value.get("nullable", True),
            charset=value.get("charset"),
            column_type=value.get("column_type"),
            id=value.get("id"),
            initial=value.get("initial"),
            comment=value.get("comment"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The parts by which two versions are compared."""

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    """In the key's order; empty if there is none."""
    comment: str | None = None
    """The table's comment; None if it has no comment, or if it is not known."""

    def to_json(self) -> dict[str, Any]:
        """The members of a version's record that hold the definition."""
        return {
            "columns": [column.to_json() for column in self.columns],
            "primary_key": list(self.primary_key),
            **({} if self.comment is None else {"comment": self.comment}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Definition:
        """Read what ``to_json`` wrote; raise KeyError, TypeError or AttributeError for another value."""
        return cls(
            columns=tuple(map(Column.from_json, value["columns"])),
            primary_key=tuple(value["primary_key"]),
            comment=value.get("comment"),
        )

    def is_same(self, other: Definition) -> bool:
        """Whether a later definition is the same version.

        A ``column_type`` is compared only if both have it, an ``id`` only if the later definition has it. A
        display width that the server chose is not compared: MySQL prints none from 8.0.19 on.
        """
        later = {column.name: column.id for column in other.columns}
        columns = (
            replace(column, id=None) if later.get(column.name) is None else column
            for column in self.columns
        )
        known = replace(self, columns=tuple(columns))
        return _comparable(known, other) == _comparable(other, known)


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
    """A ``column_type`` without a display width that the server chose, as MySQL prints it from 8.0.19 on."""
    return _WIDTH.sub("", column_type) if column_type in _CHOSEN else column_type
