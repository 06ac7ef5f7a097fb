"""Tables that a RENAME brings in from a name that is not captured, so that their existing rows are in no topic.

Invariant: the record is in the Kafka transaction of the statement, so no table lacks it if a worker dies. A
destination that began with existing rows reads the table's rows; any other one shows the table as failed until
an operator starts its snapshot.
"""

from __future__ import annotations

import shlex
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from app.worker.destination.commit.read_tables import ReadTables
from app.worker.pipeline.piece import Piece
from connectors.mysql.ddl.definition import Change, TableChange, TableName
from connectors.mysql.ddl.online.shadow_rules import ShadowRules
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.snapshots.request import SnapshotAction, SnapshotRequest
from tables.state.snapshots.request import note_of as request_note
from tables.state.snapshots.table_snapshot import TableSnapshot, note_of, unreadable


@dataclass(slots=True, kw_only=True)
class EnteredTables:
    """The entered tables of one run of a destination."""

    tables: ReadTables
    captures: Callable[[TableName], bool]
    shadows: ShadowRules
    can_replace: Callable[[TableName], bool]
    """Whether a table's subscribers can be sent a record that all its rows are gone."""
    is_read: bool
    """Whether existing rows are read without a request."""
    show: Callable[[TableSnapshot], None]
    """Shows the state of a table that is not read."""
    _failed: list[TableSnapshot] = field(default_factory=list)

    def before(self, piece: Piece, _cursor: Cursor, /) -> Iterable[Entry]:
        """The requests for the tables that a piece's statements bring in, or the states of these tables."""
        self._failed = []
        entered = {
            name: origin
            for record in piece.tables.history
            for name, origin in self._entered(record.changes)
        }
        if not entered:
            return ()
        existing = set(self.tables.captured())
        entered = {name: origin for name, origin in entered.items() if name in existing}
        if self.is_read:
            return [request_note(self._request(name)) for name in entered]
        self._failed = [self._unread(*one) for one in entered.items()]
        return [note_of(one) for one in self._failed]

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Show the tables whose existing rows cannot be read."""
        for one in self._failed:
            self.show(one)
        self._failed = []

    def _entered(self, changes: Iterable[Change]) -> Iterator[tuple[TableName, TableName]]:
        """The new names of tables that were not captured before, each with its old name."""
        moved = [one for one in changes if isinstance(one, TableChange)]
        known = self._known(moved)
        first: dict[TableName, TableName] = {}
        for one in moved:
            if one.renamed_to is not None:
                first[one.renamed_to] = first.pop(one.name, one.name)
        for name, origin in first.items():
            if name == origin or not self.captures(name):
                continue
            is_copy = self.shadows.could_shadow(origin, name) is not None
            is_shadow = self.shadows.shadow(name, known) is not None
            is_seen = self.captures(origin) and self.shadows.shadow(origin, known) is None
            if not (is_copy or is_shadow or is_seen):
                yield name, origin

    def _known(self, changes: Iterable[TableChange]) -> set[TableName]:
        return {*self.tables.captured(), *(one.name for one in changes)}

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
        before = self.tables.snapshots.get(name)
        replace = " --replace" if self.can_replace(name) else ""
        return unreadable(
            self.tables.destination,
            name,
            f"renamed from {'.'.join(origin)}, which is not captured, so its existing rows are in no "
            f"topic. Run: python -m app snapshot start {self.tables.destination} "
            f"{shlex.quote('.'.join(name))}{replace}",
            request=before.request if before is not None else "",
        )
