"""Records of the schema history: a statement, its position, and its effect on tables; and checkpoints.

Invariant: a record is resolved: it contains each table's definition before and after it, so that its
statement need not be parsed again. A statement that could not be resolved is a record too, with
the reason. A checkpoint, all schemas of a destination at one position, is exactly the result of the records
before it; it may be deleted as long as another checkpoint and all records after that checkpoint exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from connectors.mysql.ddl.definition import (
    Change,
    Database,
    DatabaseChange,
    Server,
    Session,
    Table,
    TableChange,
    TableName,
    ViewChange,
)
from tables.history.position import HistoryPosition

Kind = Literal["statement", "baseline", "resolution"]
"""A statement of the binlog; tables that the server reported later; a definition that an operator gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A table whose definition the history has."""

    table: Table
    since: HistoryPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A dropped table."""

    since: HistoryPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """A table whose definition is not known."""

    reason: str
    since: HistoryPosition
    last: HistoryPosition
    """The last statement that could not be resolved because of it."""


TableState = Known | Dropped | Unresolved
"""The history's state of a table; None for a table that it never contained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The author of an operator's definition of a table."""

    by: str
    ts_ms: int
    """The time, by the author's clock."""
    source: str
    """Its source, such as ``server``; empty if an older version did not record it."""


def remakes(change: Change) -> bool:
    """Whether a name means another table, or no table, from here on; after an ALTER it means the same table."""
    return isinstance(change, TableChange) and (change.old is None or change.new is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRecord:
    """One step of a destination's schema history."""

    destination: str
    number: int
    """Counted from 1 without gaps; the order of the steps."""
    kind: Kind = "statement"
    position: HistoryPosition
    statement: str = ""
    """As in the binlog."""
    type: str = ""
    """Its first words, such as ``ALTER TABLE``."""
    session: Session = field(default_factory=Session)
    """With sql_mode and the default database."""
    changes: tuple[Change, ...] = ()
    """In the order in which they happened."""
    reason: str | None = None
    """Why it could not be resolved; None if it could."""
    unresolved: tuple[TableName, ...] = ()
    """The tables whose definition is unknown after it."""
    amends: int | None = None
    """Of a resolution: the number of the last statement at or before its position, from which it is
    valid."""
    current: bool = True
    """Of a resolution: whether it was still valid at the end of the history when it was made."""
    given: Given | None = None
    """Of a resolution: its author; None if an older version did not record it."""
    unchanged: tuple[TableName, ...] = ()
    """The tables that it concerns but leaves unchanged, for example tables that it empties."""
    views: tuple[ViewChange, ...] = ()
    """Views that it created and dropped; their columns are not kept."""

    @property
    def outcome(self) -> Literal["resolved", "unresolved"]:
        """Whether the changes are its whole effect."""
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
        """The tables that it changed, each once; a renamed table under both names."""
        named = [change.name for change in self.changes if isinstance(change, TableChange)]
        return tuple(dict.fromkeys([*named, *self.unresolved]))

    @property
    def concerned(self) -> tuple[TableName, ...]:
        """The tables that it changed, and the tables whose definition it leaves unchanged."""
        return tuple(dict.fromkeys([*self.tables, *self.unchanged]))

    @property
    def schemas(self) -> tuple[str, ...]:
        """The databases that it concerns, each once."""
        named = [change.name for change in self.changes if isinstance(change, DatabaseChange)]
        return tuple(dict.fromkeys([*named, *(database for database, _ in self.concerned)]))


HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPolicy:
    """The interval of checkpoints, and how long the past is kept."""

    interval_ms: int = 24 * HOUR_MS
    statements: int = 5_000
    expire_ms: int = 360 * HOUR_MS

    def is_due(self, newest: CheckpointHead, *, count: int, server_uuid: str, now_ms: int) -> bool:
        """Whether to make a checkpoint: after enough statements, after enough time if there was a statement,
        and on another server, whose positions are not comparable with earlier positions."""
        since = count - newest.count
        late = now_ms - newest.made_ms >= self.interval_ms
        moved = server_uuid != newest.position.server_uuid
        return since >= self.statements or (since > 0 and late) or moved


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHead:
    """The identity and position of a checkpoint."""

    destination: str
    number: int
    """Counted from 1; a later checkpoint has a greater number, also after a rollback."""
    position: HistoryPosition
    made_ms: int
    """By the worker's clock."""
    count: int
    """The number of the history's records before it."""
    server: Server
    begins: bool = False
    """Whether it is a baseline: nothing before it belongs to this history."""
    parts: int = 0
    """The number of parts in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaCheckpoint:
    """A checkpoint with all schemas at its position."""

    head: CheckpointHead
    tables: Mapping[TableName, Table]
    databases: Mapping[str, Database]
    unresolved: Mapping[TableName, Unresolved] = field(default_factory=dict)
    dropped: Mapping[TableName, HistoryPosition] = field(default_factory=dict)
    """Dropped tables, and when they were dropped."""
    given: tuple[SchemaRecord, ...] = ()
    """Definitions that an operator gave for later positions: the destination was set back to before them."""
    views: frozenset[TableName] = frozenset()
    """The names of all views; empty in checkpoints of versions that did not keep them."""
