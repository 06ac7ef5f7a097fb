"""Tables whose rows a statement changed without row events, such as EXCHANGE PARTITION.

These changes are not published: the topics have rows that the source no longer has, and lack other rows. If
existing rows of a table are being read, they are read to the end, but rows read before the statement stay as
they were.

Invariant: the record is in the Kafka transaction of the statement, so no table lacks it if a worker dies. The
record names the table until an operator has its rows published again.
"""

from __future__ import annotations

import logging
import shlex
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from app.worker.destination.commit.read_tables import ReadTables
from app.worker.pipeline.piece import Piece, UnloggedChange
from connectors.mysql.ddl.definition import TableName
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.snapshots.request import SnapshotAction, SnapshotRequest
from tables.state.snapshots.request import note_of as request_note
from tables.state.snapshots.table_snapshot import SnapshotState, TableSnapshot, note_of, unreadable

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class UnloggedRows:
    """The unlogged changes of tables in one run of a destination."""

    tables: ReadTables
    can_replace: Callable[[TableName], bool]
    """Whether a table's subscribers can be sent a record that all its rows are gone."""
    is_read: Callable[[TableName], bool]
    """Whether rows of a table are being read now."""
    show: Callable[[TableSnapshot], None]
    """Shows the state of a table that is not read."""
    _failed: list[TableSnapshot] = field(default_factory=list)

    def before(self, piece: Piece, _cursor: Cursor, /) -> Iterable[Entry]:
        """The marks or the states of the tables that a piece's statements concern."""
        self._failed = []
        if not piece.tables.unlogged:
            return ()
        existing = set(self.tables.captured())
        found = {one.name: one for one in piece.tables.unlogged if one.name in existing}
        notes = []
        for name, one in found.items():
            before, why = self.tables.snapshots.get(name), self._why(one)
            if before is None:
                failed = unreadable(self.tables.destination, name, why)
                self._failed.append(failed)
                notes.append(note_of(failed))
            elif self._has_published(before):
                log.error("%s: %s: %s", self.tables.destination, ".".join(name), why)
                notes.append(request_note(self._mark(one, why)))
        return notes

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Show the tables that have no snapshot; the marks of other tables come with the journal."""
        for one in self._failed:
            self.show(one)
        self._failed = []

    def _has_published(self, before: TableSnapshot) -> bool:
        """Whether rows from before the statement may be in the topic, or come into it."""
        is_first = before.replaces or not before.request
        is_unread = before.state is SnapshotState.WAITING and not self.is_read(before.name)
        return not (is_unread and is_first and not before.chunks)

    def _why(self, one: UnloggedChange) -> str:
        gtid = f"GTID {one.gtid}, " if one.gtid else ""
        replace = " --replace" if self.can_replace(one.name) else ""
        return (
            f"{one.what} ({gtid}before {one.coordinates}) changed rows of which the binlog has no row events: "
            "its topic may lack rows, and have rows that are gone. Run: python -m app snapshot start "
            f"{self.tables.destination} {shlex.quote('.'.join(one.name))}{replace}"
        )

    def _mark(self, one: UnloggedChange, why: str) -> SnapshotRequest:
        return SnapshotRequest(
            destination=self.tables.destination,
            database=one.name[0],
            table=one.name[1],
            id=uuid.uuid4().hex[:12],
            action=SnapshotAction.MARK,
            by=one.what,
            ts_ms=time.time_ns() // 1_000_000,
            why=why,
        )
