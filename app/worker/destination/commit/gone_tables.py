"""Tables that have failed or are paused, and that a statement drops or renames.

No reading would find that such a table is gone. Its state ends with the statement. A table that has failed is
shown as failed under its new name, as its rows there are in no topic either.

Invariant: the record is in the Kafka transaction of the statement, so no other table that takes the name has
the state. A copy of the table has it, by which a tool for online schema changes replaces the table: the topic
still has other rows than the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from app.worker.destination.commit.read_tables import (
    ReadTables,
    first_names,
    name_after,
    start_command,
)
from app.worker.pipeline.piece import Piece
from connectors.mysql.ddl.definition import TableChange, TableName
from connectors.mysql.ddl.online import ShadowRules
from tables.history.record import SchemaRecord, remakes
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.snapshots.snapshot_progress import (
    SnapshotState,
    TableSnapshot,
    gone,
    note_of,
    unreadable,
)


@dataclass(slots=True, kw_only=True)
class GoneTables:
    """The dropped and renamed tables of one run of a destination."""

    tables: ReadTables
    shadows: ShadowRules
    can_replace: Callable[[TableName], bool]
    """Whether a table's subscribers can be sent a record that all its rows are gone."""
    show: Callable[[TableSnapshot], None]
    """Shows the state of a table that is not read."""
    _changed: list[TableSnapshot] = field(default_factory=list)

    def before(self, piece: Piece, cursor: Cursor, /) -> Iterable[Entry]:
        """The states that a piece's statements end, and those of failed tables under their new names."""
        self._changed, history = [], piece.tables.history
        if not any(remakes(change) for record in history for change in record.changes):
            return ()
        states = self.tables.states()
        ended = {name: self._after(one, history) for name, one in states.items()}
        failed = {name: one for name, one in states.items() if _is_failed(one)}
        found = {name: one for name, one in ended.items() if one != states[name]}
        existing = self.tables.existing(piece, cursor) if found or failed else set()
        found = {
            name: one
            for name, one in found.items()
            if one.state is not SnapshotState.FAILED or name in existing
        }
        for name in failed:
            new = name_after(name, history)
            if new is None or new == name or new not in existing:
                continue
            # The old table that such a tool keeps is no table of its own, though no other has the name yet.
            if self.shadows.could_shadow(new, name) is None:
                found[new] = self._renamed(new, name)
        self._changed = list(found.values())
        return map(note_of, self._changed)

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Show the tables whose states have changed."""
        for one in self._changed:
            self.show(one)
        self._changed = []

    def _after(self, one: TableSnapshot, history: Iterable[SchemaRecord]) -> TableSnapshot:
        """The state under a table's name after statements; that of a table that is being read stays."""
        is_known = one.is_missing
        is_remembered = one.state is SnapshotState.GONE and one.unlogged is not None
        if not (is_known or is_remembered):
            return one
        if is_known and name_after(one.name, history) == one.name:
            return one
        for record in history:
            origins = first_names(record)
            for change in record.changes:
                if not isinstance(change, TableChange) or change.name != one.name:
                    continue
                if change.new is None:
                    is_known = False
                elif change.old is None:
                    if self._is_copy(origins.get(one.name), one.name):
                        is_known = True
                    else:
                        # All rows of this table are changes, or another name's state has it.
                        return gone(one, is_replaced=True)
        return self._again(one) if is_known else gone(one)

    def _is_copy(self, origin: TableName | None, name: TableName) -> bool:
        return origin is not None and self.shadows.could_shadow(origin, name) is not None

    def _again(self, one: TableSnapshot) -> TableSnapshot:
        """The state of a copy that has taken the name of a table."""
        one = gone(one)
        why = one.unlogged or ""
        if "Run: " not in why:
            command = start_command(one.destination, one.name, replaces=self.can_replace(one.name))
            why = f"{why}. Run: {command}"
        return replace(one, state=SnapshotState.FAILED, error=why)

    def _renamed(self, name: TableName, origin: TableName) -> TableSnapshot:
        known = self.tables.snapshots.get(name)
        command = start_command(self.tables.destination, name, replaces=self.can_replace(name))
        return unreadable(
            self.tables.destination,
            name,
            f"renamed from {'.'.join(origin)}, whose existing rows are not in its topic as the source has "
            f"them. Run: {command}",
            request=known.request if known is not None else "",
        )


def _is_failed(one: TableSnapshot) -> bool:
    """Whether a topic has other rows than the table, also if some of its rows are read or were to be read."""
    is_read_in_part = one.unlogged is not None and one.where is not None
    return one.state is SnapshotState.FAILED or (
        is_read_in_part and one.state is not SnapshotState.GONE
    )
