"""Tables that a RENAME brings in from a name that is not captured, so that their existing rows are in no topic.

A table whose existing rows could not be read exactly is shown as failed under its new name too.

Invariant: the record is in the Kafka transaction of the statement, so no table lacks it if a worker dies. A
destination that began with existing rows reads the table's rows; any other one shows the table as failed until
an operator starts its snapshot.
"""

from __future__ import annotations

import shlex
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from app.worker.destination.commit.read_tables import ReadTables, is_renaming, name_after
from app.worker.pipeline.piece import Piece
from connectors.mysql.ddl.definition import TableChange, TableName
from connectors.mysql.ddl.online import ShadowRules
from tables.history.record import SchemaRecord
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.snapshots.request import SnapshotAction, SnapshotRequest
from tables.state.snapshots.table_snapshot import SnapshotState, TableSnapshot, note_of, unreadable


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
    _changed: list[TableSnapshot] = field(default_factory=list)

    def before(self, piece: Piece, cursor: Cursor, /) -> Iterable[Entry]:
        """The requests for the tables that a piece's statements bring in, or the states of these tables."""
        self._changed = []
        history = piece.tables.history
        if not any(map(is_renaming, history)):
            return ()
        states = self.tables.states()
        found = {
            name_after(name, history[number:]): (origin, failed)
            for number, record in enumerate(history, 1)
            for name, origin, failed in self._entered(record, states)
        }
        existing = self.tables.existing(piece, cursor) if found else set()
        requests, gone = [], list[TableSnapshot]()
        for name, (origin, failed) in found.items():
            if name is None or name not in existing:
                continue
            if failed is None and self.is_read:
                requests.append(self._request(name))
                continue
            self._changed.append(self._unread(name, origin, has_failed=failed is not None))
            if failed is not None and failed.state is SnapshotState.FAILED:
                gone.append(replace(failed, state=SnapshotState.GONE, error=None))
        # Another table that has failed may have an old name now.
        taken = {one.name for one in self._changed}
        self._changed += [one for one in gone if one.name not in taken]
        return [*self.tables.records(requests), *map(note_of, self._changed)]

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Show the tables whose existing rows cannot be read."""
        for one in self._changed:
            self.show(one)
        self._changed = []

    def _entered(
        self, record: SchemaRecord, states: Mapping[TableName, TableSnapshot]
    ) -> Iterator[tuple[TableName, TableName, TableSnapshot | None]]:
        """The new names of tables whose existing rows are not in a topic, each with its old name.

        The state is that of a captured table whose topic has other rows than the table; None for any other.
        """
        moved = [one for one in record.changes if isinstance(one, TableChange)]
        first: dict[TableName, TableName] = {}
        for one in moved:
            if one.renamed_to is not None:
                first[one.renamed_to] = first.pop(one.name, one.name)
        if not first:
            return
        known = {*self.tables.captured(record.number), *(one.name for one in moved)}
        for name, origin in first.items():
            if name == origin or not self.captures(name):
                continue
            is_copy = self.shadows.could_shadow(origin, name) is not None
            is_shadow = self.shadows.shadow(name, known) is not None
            is_captured = self.captures(origin) and self.shadows.shadow(origin, known) is None
            failed = _failed(states.get(origin)) if is_captured else None
            is_seen = is_captured and failed is None
            if not (is_copy or is_shadow or is_seen):
                yield name, origin, failed

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

    def _unread(self, name: TableName, origin: TableName, *, has_failed: bool) -> TableSnapshot:
        known = self.tables.snapshots.get(name)
        why = "which is not captured, so its existing rows are in no topic"
        if has_failed:
            why = "whose existing rows are not in its topic as the source has them"
        option = " --replace" if self.can_replace(name) else ""
        return unreadable(
            self.tables.destination,
            name,
            f"renamed from {'.'.join(origin)}, {why}. Run: python -m app snapshot start "
            f"{self.tables.destination} {shlex.quote('.'.join(name))}{option}",
            request=known.request if known is not None else "",
        )


def _failed(one: TableSnapshot | None) -> TableSnapshot | None:
    """A state by which a topic has other rows than the table, also while some of its rows are read; or None."""
    if one is None:
        return None
    is_read_in_part = one.unlogged is not None and one.where is not None
    return one if one.state is SnapshotState.FAILED or is_read_in_part else None
