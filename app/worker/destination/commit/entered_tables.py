"""Tables that a RENAME brings in from a name that is not captured, so that their existing rows are in no topic.

Invariant: the record is in the Kafka transaction of the statement, so no table lacks it if a worker dies. A
destination that began with existing rows reads the table's rows; any other one shows the table as failed
until an operator starts its snapshot.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from app.worker.destination.commit.read_tables import (
    ReadTables,
    first_names,
    is_renaming,
    name_after,
    start_command,
)
from app.worker.pipeline.piece import Piece
from connectors.mysql.ddl.definition import TableChange, TableName
from connectors.mysql.ddl.online import ShadowRules
from tables.history.record import SchemaRecord
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.snapshots.request import (
    SnapshotAction,
    SnapshotRequest,
)
from tables.state.snapshots.snapshot_progress import TableSnapshot, unreadable
from tables.state.snapshots.snapshot_progress import note_of as note_of_table


@dataclass(slots=True, kw_only=True)
class EnteredTables:
    """The entered tables of one run of a destination."""

    tables: ReadTables
    captures: Callable[[TableName], bool]
    shadows: ShadowRules
    is_mapped: Callable[[TableName], bool]
    """Whether subscribers know a table by a logical name, in which its rows have the real table's name."""
    can_replace: Callable[[TableName], bool]
    """Whether a table's subscribers can be sent a record that all its rows are gone."""
    is_read: bool
    """Whether existing rows are read without a request."""
    show: Callable[[TableSnapshot], None]
    """Shows the state of a table that is not read."""
    _changed: list[TableSnapshot] = field(default_factory=list)

    def before(self, piece: Piece, cursor: Cursor, /) -> Iterable[Entry]:
        """The requests for the tables that a piece's statements bring in, or the states of these tables."""
        self._changed = []
        history = piece.tables.history
        if not any(map(is_renaming, history)):
            return ()
        found = {
            name_after(name, history[number:]): origin
            for number, record in enumerate(history, 1)
            for name, origin in self._entered(record)
        }
        existing = self.tables.existing(piece, cursor) if found else set()
        entered = {
            name: origin for name, origin in found.items() if name is not None and name in existing
        }
        read = {one for one, origin in entered.items() if self.is_read or self._lost(one, origin)}
        self._changed = [
            self._unread(name, origin) for name, origin in entered.items() if name not in read
        ]
        requests = [self._request(name) for name in entered if name in read]
        return [*self.tables.records(requests), *map(note_of_table, self._changed)]

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Show the tables whose existing rows cannot be read."""
        for one in self._changed:
            self.show(one)
        self._changed = []

    def _entered(self, record: SchemaRecord) -> Iterator[tuple[TableName, TableName]]:
        """The new names of tables whose existing rows are in no topic, each with its old name."""
        first = first_names(record)
        if not first:
            return
        moved = [one.name for one in record.changes if isinstance(one, TableChange)]
        known = {*self.tables.captured(record.number), *moved}
        for name, origin in first.items():
            if name == origin or not self.captures(name):
                continue
            is_copy = self.shadows.could_shadow(origin, name) is not None
            is_shadow = self.shadows.shadow(name, known) is not None
            is_captured = self.captures(origin) and self.shadows.shadow(origin, known) is None
            if not (is_copy or is_shadow or (is_captured and not self._lost(name, origin))):
                yield name, origin

    def _lost(self, name: TableName, origin: TableName) -> bool:
        """Whether subscribers had a table's rows under its old name, and have them no more.

        Rows of mapped tables have the real table's name, so a RENAME removes them as a DROP does.
        """
        return self.captures(origin) and (self.is_mapped(name) or self.is_mapped(origin))

    def _request(self, name: TableName) -> SnapshotRequest:
        now_ms = time.time_ns() // 1_000_000
        return SnapshotRequest(
            destination=self.tables.destination,
            database=name[0],
            table=name[1],
            id=uuid.uuid4().hex[:12],
            action=SnapshotAction.START,
            # Subscribers may have the rows of an earlier table of that name.
            replaces=self.can_replace(name),
            by="RENAME TABLE",
            ts_ms=now_ms,
        )

    def _unread(self, name: TableName, origin: TableName) -> TableSnapshot:
        known = self.tables.snapshots.get(name)
        command = start_command(self.tables.destination, name, replaces=self.can_replace(name))
        return unreadable(
            self.tables.destination,
            name,
            f"renamed from {'.'.join(origin)}, which is not captured, so its existing rows are in no topic. "
            f"Run: {command}",
            request=known.request if known is not None else "",
        )
