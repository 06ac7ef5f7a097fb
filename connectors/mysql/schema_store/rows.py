"""Rows of a central schema store, in the form of its two tables.

Invariant: these are plain values; their meaning is defined where the schema history is converted to
them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from connectors.mysql.schema_store.tables import HISTORY, SNAPSHOT

PART = "#part-"
"""The beginning of the suffix that ``master_id`` has in a row that continues another row."""


class RowKey(NamedTuple):
    """A row's key within its destination."""

    master_id: str
    file: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """A row of ``meta_snapshot``; its fields are the columns in order."""

    table: ClassVar[str] = SNAPSHOT
    destination: str
    file: str
    offset: int
    master_id: str
    ts_ms: int
    data: str | None = None
    extra: str | None = None

    @property
    def key(self) -> RowKey:
        """The row's key."""
        return RowKey(self.master_id, self.file, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """A row of ``meta_history``; its fields are the columns in order."""

    table: ClassVar[str] = HISTORY
    destination: str
    file: str
    offset: int
    master_id: str
    ts_ms: int
    use_schema: str | None = None
    sql_schema: str | None = None
    sql_table: str | None = None
    sql_text: str | None = None
    sql_type: str | None = None
    extra: str | None = None

    @property
    def key(self) -> RowKey:
        """The row's key."""
        return RowKey(self.master_id, self.file, self.offset)


Row = SnapshotRow | HistoryRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An existing row, by its key and the numbers in its ``extra``."""

    key: RowKey
    number: int
    count: int
    """For a snapshot: the number of records before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """All rows that Aqueduct stored for a destination, except forgotten rows."""

    history: list[HistoryRow]
    snapshots: list[SnapshotRow]


def is_aqueducts(extra: str | None) -> bool:
    """Whether Aqueduct wrote a row, and the row is still part of the history."""
    try:
        value = json.loads(extra or "null")
    except ValueError:
        return False
    return isinstance(value, dict) and "format" in value and "forgotten" not in value
