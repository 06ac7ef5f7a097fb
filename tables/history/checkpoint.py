"""A checkpoint: all schemas of a destination at one position, so that a history can begin there.

Invariant: a checkpoint is exactly the result of the records before it; it may be deleted as long as
another checkpoint and all records after that checkpoint exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.mysql.ddl.definition import Database, Server, Table, TableName
from tables.history.position import HistoryPosition
from tables.history.record import SchemaRecord, Unresolved

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
