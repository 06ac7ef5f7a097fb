"""Definitions of columns, keys and options in a statement, as values.

Invariant: a value holds the statement's own words; their meaning for a table depends on the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from connectors.mysql.ddl.definition import SpecialKind
from connectors.mysql.types.type_spec import TypeSpec

IndexKind = Literal["PRIMARY", "UNIQUE", "KEY", "FOREIGN"] | SpecialKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The attributes of a column definition after the type."""

    nullable: bool | None = None
    """None if not specified."""
    generated: Literal["virtual", "stored"] | None = None
    expression: str = ""
    """The expression of a generated column, with its parentheses."""
    default: str | None = None
    on_update: str | None = None
    auto_increment: bool = False
    primary: bool = False
    unique: bool = False
    comment: str | None = None
    invisible: bool = False
    others: str = ""
    """The rest of the column's definition."""
    references: bool = False
    row_period: Literal["start", "end"] | None = None
    """MariaDB's GENERATED ALWAYS AS ROW START or END."""
    versioned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSpec:
    """A column as a statement defines it."""

    name: str
    type: TypeSpec
    attributes: Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a key: a column, its beginning, or an expression."""

    column: str = ""
    length: int | None = None
    expression: str = ""
    descending: bool = False
    without_overlaps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """A key as a statement defines it; for a foreign key, the index that it needs."""

    kind: IndexKind
    name: str | None = None
    parts: tuple[Part, ...]
    if_not_exists: bool = False
    options: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """MariaDB's period of time, from one column to another."""

    name: str
    begin: str
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Charset:
    """A character set and a collation, each if specified."""

    charset: str | None = None
    collation: str | None = None
    collation_first: bool = False
    """Whether COLLATE precedes CHARACTER SET."""

    def __bool__(self) -> bool:
        return self.charset is not None or self.collation is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The table options after the columns."""

    charset: Charset = Charset()
    texts: tuple[tuple[str, str], ...] = ()
    """Names and values of the options that are part of the table's definition."""
    names: tuple[str, ...] = ()
    """The names of all options, in upper case."""
    versioned: bool = False
    """MariaDB's WITH SYSTEM VERSIONING."""


NO_CHARSET = Charset()
NO_OPTIONS = TableOptions()
