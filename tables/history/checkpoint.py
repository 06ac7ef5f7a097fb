"""A checkpoint: all schemas of a destination at one position, so that a history can begin there.

Invariant: a checkpoint is exactly the result of the records before it; it may be deleted as long as
another one and the records after that exist.
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
        """Whether to make one: after so many statements, after so much time if there were any, and
        on another server, whose positions are not comparable with earlier ones."""
        since = count - newest.count
        late = now_ms - newest.made_ms >= self.interval_ms
        moved = server_uuid != newest.position.server_uuid
        return since >= self.statements or (since > 0 and late) or moved


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHead:
    """The identity and position of a checkpoint."""

    destination: str
    number: int
    """Counted from 1; a later one has a greater number, also after going back."""
    position: HistoryPosition
    made_ms: int
    """By the worker's clock."""
    count: int
    """Records of the history before it."""
    server: Server
    begins: bool = False
    """Whether it is a baseline: nothing before it belongs to this history."""
    parts: int = 0
    """The number of parts in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaCheckpoint:
    """All schemas at that position."""

    head: CheckpointHead
    tables: Mapping[TableName, Table]
    databases: Mapping[str, Database]
    unresolved: Mapping[TableName, Unresolved] = field(default_factory=dict)
    dropped: Mapping[TableName, HistoryPosition] = field(default_factory=dict)
    """Dropped tables, and when they were dropped."""
    given: tuple[SchemaRecord, ...] = ()
    """Definitions that an operator gave for later positions: the destination went back before them."""
    views: frozenset[TableName] = frozenset()
    """The names of all views; none in checkpoints of versions that did not keep them."""
