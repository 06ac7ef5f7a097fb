"""Tables whose rows a statement changed without row events, such as EXCHANGE PARTITION.

These changes are not published: the topics have rows that the source no longer has, and lack other rows. If
existing rows of a table are being read, they are read to the end, but rows read before the statement stay as
they were.

Invariant: the record is in the Kafka transaction of the statement, so no table lacks it if a worker dies. The
record names the table until an operator has its rows published again.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from app.worker.destination.commit.read_tables import (
    ReadTables,
    name_after,
    start_command,
)
from app.worker.pipeline.piece import Piece, UnloggedChange
from connectors.mysql.ddl.definition import TableName
from tables.history.record import SchemaRecord
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.snapshots.request import (
    SnapshotAction,
    SnapshotRequest,
)
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot, unreadable
from tables.state.snapshots.snapshot_progress import note_of as note_of_table

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

    def before(self, piece: Piece, cursor: Cursor, /) -> Iterable[Entry]:
        """The marks or the states of the tables that a piece's statements concern, by their names after it."""
        self._failed = []
        if not piece.tables.unlogged:
            return ()
        existing, states = self.tables.existing(piece, cursor), self.tables.states()
        found = {_name_after(one, piece.tables.history): one for one in piece.tables.unlogged}
        requests = []
        for name, one in found.items():
            if name is None or name not in existing:
                continue
            before, why = states.get(name), self._why(name, one)
            if before is None:
                self._failed.append(unreadable(self.tables.destination, name, why))
            elif self._has_published(before):
                log.error("%s: %s: %s", self.tables.destination, ".".join(name), why)
                requests.append(self._again(name) or self._mark(name, one, why))
        return [*map(note_of_table, self._failed), *self.tables.records(requests)]

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

    def _again(self, name: TableName) -> SnapshotRequest | None:
        """The request to read a table, if that is yet to be applied: a mark would take its place.

        It is made again, so that it replaces the rows that subscribers have, if it is for all rows.
        """
        for one in self.tables.unapplied():
            if one.name == name and one.action is SnapshotAction.START:
                replaces = one.replaces or (one.where is None and self.can_replace(name))
                return replace(one, id=uuid.uuid4().hex[:12], replaces=replaces)
        return None

    def _why(self, name: TableName, one: UnloggedChange) -> str:
        gtid = f"GTID {one.gtid}, " if one.gtid else ""
        command = start_command(self.tables.destination, name, replaces=self.can_replace(name))
        return (
            f"{one.what} ({gtid}before {one.coordinates}) changed rows of which the binlog has no row events: "
            f"its topic may lack rows, and have rows that are gone. Run: {command}"
        )

    def _mark(self, name: TableName, one: UnloggedChange, why: str) -> SnapshotRequest:
        return SnapshotRequest(
            destination=self.tables.destination,
            database=name[0],
            table=name[1],
            id=uuid.uuid4().hex[:12],
            action=SnapshotAction.MARK,
            by=one.what,
            ts_ms=time.time_ns() // 1_000_000,
            why=why,
        )


def _name_after(one: UnloggedChange, history: Iterable[SchemaRecord]) -> TableName | None:
    """The name that the table has after the piece; None if it is dropped by then."""
    end = one.coordinates.order
    return name_after(one.name, (each for each in history if each.position.end.order >= end))
