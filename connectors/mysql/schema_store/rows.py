"""What a central schema store keeps, row by row, as its two tables have it.

The law: these are values; what they mean is told where the schema history is turned into them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from connectors.mysql.schema_store.tables import HISTORY, SNAPSHOT

PART = "#part-"
"""What the server's name goes on with in rows that only continue another one."""


class RowKey(NamedTuple):
    """What a row is known by within its destination."""

    master_id: str
    file: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """A row of ``meta_snapshot``; its fields are the columns, in their order."""

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
        """What it is known by."""
        return RowKey(self.master_id, self.file, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """A row of ``meta_history``; its fields are the columns, in their order."""

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
        """What it is known by."""
        return RowKey(self.master_id, self.file, self.offset)


Row = SnapshotRow | HistoryRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A row that is there, by its key and the numbers that its ``extra`` tells."""

    key: RowKey
    number: int
    count: int
    """Of a snapshot: the records before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """All that is there of a destination, without what was forgotten."""

    history: list[HistoryRow]
    snapshots: list[SnapshotRow]


def is_ours(extra: str | None) -> bool:
    """Whether a row was written by us, and is of the history still."""
    try:
        value = json.loads(extra or "null")
    except ValueError:
        return False
    return isinstance(value, dict) and "format" in value and "forgotten" not in value
