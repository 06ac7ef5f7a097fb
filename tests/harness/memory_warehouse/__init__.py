"""A warehouse in memory, a fake for tests that need neither Spark nor files.

Memory needs no cleanup, so `upkeep` only records compactions and removals.

Invariant: it passes the same contract suite as every other warehouse.
"""

from __future__ import annotations

from collections.abc import Collection

from spark_sink.text.quoting import LOG
from spark_sink.warehouse.common.conflicts import refuse_older
from spark_sink.warehouse.log import SinkLog
from spark_sink.warehouse.milestones import Commit
from spark_sink.warehouse.protocol import (
    LastMerge,
    Name,
    RowCount,
    Space,
    Standing,
    TableFacts,
)
from tests.harness.memory_warehouse.logs import (
    MemoryLetters,
    MemoryNotes,
    MemoryRecent,
    memory_log,
)
from tests.harness.memory_warehouse.tables import MemoryTables, Rows, is_old

__all__ = [
    "MemoryCommits",
    "MemoryLetters",
    "MemoryNotes",
    "MemoryRecent",
    "MemoryUpkeep",
    "MemoryWarehouse",
    "memory_log",
]


class MemoryUpkeep:
    """See protocol.Upkeep."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables
        self.retained: dict[Name, int] = {}
        """The retention of each table, in seconds."""
        self.asked: list[tuple[str, Name]] = []
        """The compactions and removals requested, in order."""

    def retain(self, name: Name, seconds: int) -> None:
        """See protocol.Upkeep."""
        self.retained[name] = seconds

    def sources_if_old(self, name: Name, before: int) -> Collection[str]:
        """See protocol.Upkeep."""
        shape = self._tables.shape(*name)
        rows = self._tables.rows(shape) if shape is not None else []
        if not any(is_old(row, before) for row in rows):
            return ()
        return {row["__destination"] for row in rows}

    def purge(self, name: Name, before: int, *, seconds: float | None = None) -> None:  # noqa: ARG002 - it takes no time
        """See protocol.Upkeep."""
        self._tables.purge(name, before)

    def compact(self, name: Name, *, seconds: float | None = None) -> None:  # noqa: ARG002 - it takes no time
        """See protocol.Upkeep."""
        self.asked.append(("compact", name))

    def remove_unused(self, name: Name) -> None:
        """See protocol.Upkeep."""
        self.asked.append(("remove", name))

    def version(self, name: Name, *, at_least: bool = False) -> int:  # noqa: ARG002 - it costs nothing
        """See protocol.Upkeep."""
        return self._tables.commits(name)


class MemoryFacts:
    """See protocol.Facts."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def of(self, name: Name) -> TableFacts | None:
        """See protocol.Facts."""
        shape = self._tables.shape(*name)
        if shape is None:
            return None
        count = self.count(name)
        return TableFacts(
            shape=shape,
            rows=count.live + count.deleted,
            files=0,
            bytes=0,
            newest_ms=count.newest_ms,
            destinations=count.destinations,
            written_ms=0,
            last_merge=self.last_merge(name),
        )

    def size(self, name: Name) -> int:  # noqa: ARG002 - there are no files
        """See protocol.Facts."""
        return 0

    def count(self, name: Name) -> RowCount:
        """See protocol.Facts."""
        shape = self._tables.shape(*name)
        rows = self._tables.rows(shape) if shape is not None else []
        deleted = sum(bool(row["__deleted"]) for row in rows)
        return RowCount(
            live=len(rows) - deleted,
            deleted=deleted,
            newest_ms=max((row["__ts_ms"] for row in rows), default=None),
            destinations=tuple(sorted({row["__destination"] for row in rows})),
        )

    def last_merge(self, name: Name) -> LastMerge | None:
        """See protocol.Facts."""
        return self._tables.last_merges.get(name)


class MemoryCommits:
    """See protocol.Commits. Nobody else has these tables."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def announce(self) -> None:
        """See protocol.Commits."""

    def is_at(self, name: Name, commit: Commit) -> bool:
        """See protocol.Commits."""
        return (
            self._tables.shape(*name) is not None and self._tables.commits(name) == commit.version
        )

    def descends(self, name: Name, commit: Commit) -> bool:  # noqa: ARG002 - its commits have no numbers
        """See protocol.Commits."""
        return True

    def since(self, name: Name, left: Commit | None) -> Standing | None:
        """See protocol.Commits."""
        shape = self._tables.shape(*name)
        if shape is None:
            return None
        last, columns = Commit(self._tables.commits(name)), dict(shape.all_columns)
        if left is not None:
            refuse_older(name, last, left)
        return Standing(commit=last, columns=columns, made=columns)


class MemoryWarehouse:
    """See protocol.Warehouse."""

    def __init__(self) -> None:
        self.tables = MemoryTables()
        self.stage = MemoryTables()
        self.moving = MemoryTables()
        self.letters = MemoryLetters()
        self.recent = MemoryRecent()
        self.upkeep = MemoryUpkeep(self.tables)
        self.deleted, self.histories = _space(), _space()
        self.facts = MemoryFacts(self.tables)
        self.commits = MemoryCommits(self.tables)
        self.notes = MemoryNotes()
        self.log = SinkLog(notes=self.notes, where=LOG)


def _space() -> Space[Rows]:
    tables = MemoryTables()
    return Space(tables=tables, upkeep=MemoryUpkeep(tables), commits=MemoryCommits(tables))
