"""How far the existing rows of each table have been read.

Invariant: the record of a chunk is written in the Kafka transaction of its rows. So after any interruption the
reading resumes after the last row that was published, and no row is published twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from connectors.kafka.reading import StoredRecord
from tables.journal_format import Entry as Note
from tables.journal_format import encoded, read_as
from tables.journal_kind import FoldedOffsets, Kind, StatePart

Name = tuple[str, str]
"""Database and table."""
_NOT_ALL_READ = "its existing rows were not all read when the table was dropped or renamed"


class SnapshotState(StrEnum):
    """The state of the reading of one table."""

    WAITING = "waiting"
    READING = "reading"
    DONE = "done"
    GONE = "gone"
    """The table was dropped or renamed before its last row was read."""
    FAILED = "failed"
    """The table's rows cannot be read exactly; other tables are still read."""
    PAUSED = "paused"
    """An operator paused it; it resumes after the last row that was published."""
    STOPPED = "stopped"
    """An operator ended it before its last row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSnapshot:
    """The reading of the existing rows of one table."""

    destination: str
    database: str
    table: str
    id: str
    """Unique in the destination, for the ids of the rows."""
    where: str | None = None
    """A condition in SQL on the rows to read; None: all."""
    replaces: bool = False
    """Whether it is still to be published, before any row is read, that the subscribers' rows are gone."""
    replacing: bool = False
    """Whether that is published, and it is still to be published that all rows have come."""
    removes: tuple[str, ...] = ()
    """Keys of records to delete unless a row with the key is read; empty once all rows are read."""
    state: SnapshotState = SnapshotState.WAITING
    after: tuple[str, ...] | None = None
    """The order of the key, and literals of the key of the last row that was read, as ``ResumeKeys`` stores
    them; None before the first row, and for a table without a key."""
    chunks: int = 0
    """Count of chunks that were published."""
    rows: int = 0
    """Count of rows that were read, including rows that the stream had changed by then."""
    estimated_rows: int | None = None
    """The server's estimate of the number of rows, at the first chunk."""
    began_ms: int = 0
    ts_ms: int = 0
    error: str | None = None
    request: str = ""
    """The id of the last request that was applied to it."""
    unlogged: str | None = None
    """Why its rows may differ from the source's although all are read: a statement changed rows meanwhile,
    without row events, or only some rows are read of a table that has FAILED. The reading then ends as FAILED,
    with this error. Of a table that is gone: why its rows differed, see ``gone``."""

    @property
    def name(self) -> Name:
        """Database and table."""
        return self.database, self.table

    @property
    def ended(self) -> SnapshotState:
        """The state once all is read."""
        return SnapshotState.FAILED if self.unlogged is not None else SnapshotState.DONE

    @property
    def is_pending(self) -> bool:
        """Whether there is more to read."""
        return self.state in (SnapshotState.WAITING, SnapshotState.READING)

    @property
    def is_open(self) -> bool:
        """Whether there is more to read, now or once it is resumed."""
        return self.is_pending or self.state is SnapshotState.PAUSED

    @property
    def is_missing(self) -> bool:
        """Whether some of its rows are not published, and nothing but a request changes that."""
        return self.state in (SnapshotState.PAUSED, SnapshotState.FAILED)

    def to_json(self) -> dict[str, Any]:
        """Its progress, for the status page and for commands."""
        return {
            "state": self.state.value,
            "rows": self.rows,
            "estimated_rows": self.estimated_rows,
            "chunks": self.chunks,
            "where": self.where,
            "began_ms": self.began_ms,
            "ts_ms": self.ts_ms,
            "error": self.error,
        }


@dataclass(slots=True)
class Snapshots:
    """The snapshots of one destination's tables in the journal."""

    all: dict[Name, TableSnapshot] = field(default_factory=dict)
    """The last snapshot of each table."""
    _folded: FoldedOffsets = field(default_factory=FoldedOffsets, compare=False)

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in; one that was folded before changes nothing."""
        found = read_as("a snapshot", record, _from_json)
        if self._folded.is_new(record):
            self.all[found.name] = found

    def add(self, snapshots: Iterable[TableSnapshot]) -> None:
        """Add the snapshots that are written to the journal now."""
        self.all.update({one.name: one for one in snapshots})

    @property
    def pending(self) -> list[TableSnapshot]:
        """The snapshots with more to read, in the order of their tables' names."""
        return [one for _, one in sorted(self.all.items()) if one.is_pending]


def _from_json(value: dict[str, Any]) -> TableSnapshot:
    after = value["after"]
    more = {
        "state": SnapshotState(value["state"]),
        "after": None if after is None else tuple(after),
        "removes": tuple(value.get("removes", ())),
    }
    return TableSnapshot(**{**value, **more})


SNAPSHOT_PART = StatePart(lambda _: Snapshots())
SNAPSHOT: Kind[Any] = Kind(name="snapshot", part=SNAPSHOT_PART)


def unreadable(destination: str, name: Name, why: str, *, request: str = "") -> TableSnapshot:
    """The state of a table whose existing rows are not read, and why; ``request``: its last request's id."""
    now_ms = time.time_ns() // 1_000_000
    return TableSnapshot(
        destination=destination,
        database=name[0],
        table=name[1],
        id=f"{now_ms:x}",
        state=SnapshotState.FAILED,
        began_ms=now_ms,
        ts_ms=now_ms,
        error=why,
        request=request,
    )


def gone(snapshot: TableSnapshot, *, is_replaced: bool = False) -> TableSnapshot:
    """The state of a table that is gone before all its rows were read exactly.

    ``unlogged`` keeps why its topic has other rows, for a copy of the table that may take its name; not if
    it ``is_replaced``: another table has the name.
    """
    why = snapshot.unlogged
    if why is None and snapshot.state is SnapshotState.FAILED:
        why = snapshot.error
    return replace(
        snapshot,
        state=SnapshotState.GONE,
        error=None,
        replaces=False,
        replacing=False,
        removes=(),
        unlogged=None if is_replaced else why or _NOT_ALL_READ,
    )


def note_of(snapshot: TableSnapshot) -> Note:
    """A record for the journal: ``snapshot/<destination>/<database>/<table>``."""
    key = SNAPSHOT.key(snapshot.destination, snapshot.database, snapshot.table)
    return key, encoded(without_empty(asdict(snapshot)))


def without_empty(value: dict[str, Any]) -> dict[str, Any]:
    """The record's content without members that are empty and that earlier versions cannot read.

    These members are ``replacing``, ``removes``, ``unlogged`` and ``why``.
    """
    return {
        name: one
        for name, one in value.items()
        if one or name not in ("replacing", "removes", "unlogged", "why")
    }


def requested(
    destination: str, names: Iterable[Name], *, name: str, now_ms: int, replaces: bool = False
) -> list[TableSnapshot]:
    """The snapshots of tables that are to be read from their first row on; ``name``: the id of all snapshots.

    ``replaces``: whether the rows that subscribers have are replaced.
    """
    return [
        TableSnapshot(
            destination=destination,
            database=database,
            table=table,
            id=name,
            replaces=replaces,
            began_ms=now_ms,
            ts_ms=now_ms,
        )
        for database, table in sorted(names)
    ]
