"""How far the existing rows of each table have been read.

Invariant: the record of a chunk is written in the Kafka transaction of its rows; so after any end the reading
resumes after the last row that was published, and no row is published twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from connectors.errors import JournalDamaged
from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import Entry as Note
from tables.journal_format import decoded, encoded
from tables.journal_kind import Kind, StatePart

Name = tuple[str, str]
"""Database and table."""


class SnapshotState(StrEnum):
    """The state of the reading of one table."""

    WAITING = "waiting"
    READING = "reading"
    DONE = "done"
    GONE = "gone"
    """The table was dropped or renamed before its last row was read."""
    FAILED = "failed"
    """Its rows cannot be read exactly; the others are read all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSnapshot:
    """The reading of the existing rows of one table."""

    destination: str
    database: str
    table: str
    id: str
    """Unique in the destination, for the ids of the rows."""
    state: SnapshotState = SnapshotState.WAITING
    after: tuple[str, ...] | None = None
    """Literals of the key of the last row that was read; None before the first, and without a key."""
    chunks: int = 0
    """Count of chunks that were published."""
    rows: int = 0
    """Count of rows that were read, with those that the stream had changed by then."""
    began_ms: int = 0
    ts_ms: int = 0
    error: str | None = None

    @property
    def name(self) -> Name:
        """Database and table."""
        return self.database, self.table

    @property
    def is_pending(self) -> bool:
        """Whether there is more to read."""
        return self.state in (SnapshotState.WAITING, SnapshotState.READING)


@dataclass(slots=True)
class Snapshots:
    """Those of one destination in the journal."""

    all: dict[Name, TableSnapshot] = field(default_factory=dict)
    """The last one of each table."""
    _offsets: dict[bytes, int] = field(default_factory=dict, compare=False)

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in; one that was folded before changes nothing."""
        if record.offset <= self._offsets.get(record.key, -1):
            return
        self._offsets[record.key] = record.offset
        value: dict[str, Any] = decoded(record)
        try:
            after = value.pop("after")
            found = TableSnapshot(
                **{
                    **value,
                    "state": SnapshotState(value["state"]),
                    "after": None if after is None else tuple(after),
                }
            )
        except (TypeError, ValueError, KeyError) as error:
            raise JournalDamaged(f"a snapshot cannot be read: {error!r}") from error
        self.all[found.name] = found

    def add(self, snapshots: Iterable[TableSnapshot]) -> None:
        """Add those that the journal gets now."""
        self.all.update({one.name: one for one in snapshots})

    @property
    def pending(self) -> list[TableSnapshot]:
        """Those of which there is more to read, in the order of their names."""
        return [one for _, one in sorted(self.all.items()) if one.is_pending]


SNAPSHOT_PART = StatePart(lambda _: Snapshots())
SNAPSHOT: Kind[Any] = Kind(name="snapshot", part=SNAPSHOT_PART)


def note_of(snapshot: TableSnapshot) -> Note:
    """A record for the journal: ``snapshot/<destination>/<database>/<table>``."""
    key = SNAPSHOT.key(snapshot.destination, snapshot.database, snapshot.table)
    return key, encoded(asdict(snapshot))


def requested(
    destination: str, names: Iterable[Name], *, name: str, now_ms: int
) -> list[TableSnapshot]:
    """The snapshots of tables that are to be read from their first row on; ``name``: the id of all."""
    return [
        TableSnapshot(
            destination=destination,
            database=database,
            table=table,
            id=name,
            began_ms=now_ms,
            ts_ms=now_ms,
        )
        for database, table in sorted(names)
    ]
