"""What the schema history keeps of one step: which statement, where, and what it did to which tables.

The law: a record is resolved: it has each table before and behind it as a value, so that nothing needs to parse
its statement again. A statement that could not be resolved is a record too, and says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from connectors.mysql.ddl.definition import (
    Change,
    DatabaseChange,
    Session,
    Table,
    TableChange,
    TableName,
    ViewChange,
)
from tables.schema_history.position import HistoryPlace

Kind = Literal["statement", "baseline", "resolution"]
"""A statement of the binlog; tables that the server told later; a definition that a person gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A table whose definition the history has."""

    table: Table
    since: HistoryPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A table that was there."""

    since: HistoryPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """A table of which only this is certain, that its definition is not known."""

    reason: str
    since: HistoryPlace
    last: HistoryPlace
    """The last statement that could not be resolved because of it."""


TableState = Known | Dropped | Unresolved
"""What the history says of a table; of one that it never met it says nothing (None)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a person said of a table."""

    by: str
    ts_ms: int
    """When, by the clock of whoever said it."""
    source: str
    """Where it comes from, such as ``server``; empty where an older version did not note that."""


def remakes(change: Change) -> bool:
    """Whether a name stands for another table from here on, or for none; an ALTER leaves it the same."""
    return isinstance(change, TableChange) and (change.old is None or change.new is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRecord:
    """One step of a destination's schema history."""

    destination: str
    number: int
    """Counted from 1 without gaps; the order of the steps."""
    kind: Kind = "statement"
    place: HistoryPlace
    statement: str = ""
    """As the binlog has it."""
    type: str = ""
    """Its first words, such as ``ALTER TABLE``."""
    session: Session = field(default_factory=Session)
    """With sql_mode and the default database."""
    changes: tuple[Change, ...] = ()
    """In the order in which they happened."""
    reason: str | None = None
    """Why it could not be resolved; None where it could."""
    unresolved: tuple[TableName, ...] = ()
    """The tables whose definition nobody knows behind it."""
    amends: int | None = None
    """Of a resolution: the number of the last statement at or before its place, from where on it holds."""
    current: bool = True
    """Of a resolution: whether it was still so at the end of the history when it was made."""
    given: Given | None = None
    """Of a resolution: who gave it; None where an older version did not note that."""
    unchanged: tuple[TableName, ...] = ()
    """The tables that it concerns and whose definition stays: those that it empties, for example."""
    views: tuple[ViewChange, ...] = ()
    """Views that it made and dropped; their columns are not kept."""

    @property
    def outcome(self) -> Literal["resolved", "unresolved"]:
        """Whether the changes are all that it did."""
        return "resolved" if self.reason is None else "unresolved"

    @property
    def is_of_views(self) -> bool:
        """Whether it concerns views alone."""
        return bool(self.views) and not (self.changes or self.unchanged or self.reason)

    @property
    def use_schema(self) -> str | None:
        """The default database of the connection."""
        return self.session.database

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The tables that it touched, each once, those of a rename under both names."""
        named = [change.name for change in self.changes if isinstance(change, TableChange)]
        return tuple(dict.fromkeys([*named, *self.unresolved]))

    @property
    def concerned(self) -> tuple[TableName, ...]:
        """Those, and the ones whose definition it leaves as it is."""
        return tuple(dict.fromkeys([*self.tables, *self.unchanged]))

    @property
    def schemas(self) -> tuple[str, ...]:
        """The databases that it concerns, each once."""
        named = [change.name for change in self.changes if isinstance(change, DatabaseChange)]
        return tuple(dict.fromkeys([*named, *(database for database, _ in self.concerned)]))
