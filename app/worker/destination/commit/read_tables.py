"""The tables of a destination whose existing rows are read, as a piece of the stream leaves them.

Invariant: what a piece's statements mean is judged as of that piece. The reader's thread may be further in the
schema history, and the worker may have yet to follow the journal up to the requests of earlier pieces.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.worker.pipeline.piece import Piece, TableChanges
from connectors.mysql.ddl.definition import TableChange, TableName
from tables.history.record import SchemaRecord
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.snapshots.request import (
    SnapshotAction,
    SnapshotRequest,
    after_request,
    latest,
    note_of,
    pending,
)
from tables.state.snapshots.snapshot_progress import TableSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTables:
    """The tables of a destination."""

    destination: str
    captured: Callable[[int | None], Iterable[TableName]]
    """Returns the captured tables that exist after the schema history's record with this number."""
    snapshots: Mapping[TableName, TableSnapshot]
    """The states of their snapshots, updated as they change."""
    requests: Callable[[], Iterable[SnapshotRequest]] = tuple
    """The last request on each table, as far as this worker has followed the journal."""
    _made: dict[TableName, SnapshotRequest] = field(default_factory=dict)
    """The last request of this run on each table, with the least offset that its record can have."""

    def existing(
        self, piece: Piece, cursor: Cursor, *, statements: int | None = None
    ) -> set[TableName]:
        """The captured tables that exist after a piece, or after this many of its statements.

        ``cursor`` is the one before the piece.
        """
        history = piece.tables.history[:statements]
        return set(self.captured(TableChanges(history=history).last_record(cursor.history)))

    def states(self) -> Mapping[TableName, TableSnapshot]:
        """The states of the snapshots once all requests are applied."""
        found = dict(self.snapshots)
        for one in self.unapplied():
            if one.action is SnapshotAction.STOP and one.name not in found:
                # It is in place of a start that was not applied: none of the table's existing rows was read.
                continue
            found[one.name] = after_request(one, found.get(one.name), now_ms=one.ts_ms)
        return found

    def unapplied(self) -> list[SnapshotRequest]:
        """The last request on each table, unless it was applied."""
        return pending(latest(self.requests(), self._made.values()), self.snapshots)

    def records(self, requests: Sequence[SnapshotRequest]) -> list[Entry]:
        """The journal's records of new requests."""
        last = {one.name: one for one in latest(self.requests(), self._made.values())}
        for one in requests:
            known = last.get(one.name)
            self._made[one.name] = replace(one, offset=known.offset + 1 if known else 0)
        return [note_of(one) for one in requests]


def start_command(destination: str, name: TableName, *, replaces: bool) -> str:
    """The command that publishes a table's existing rows; ``replaces``: in place of those of subscribers."""
    option = " --replace" if replaces else ""
    return f"python -m app snapshot start {destination} {shlex.quote('.'.join(name))}{option}"


def is_renaming(record: SchemaRecord) -> bool:
    """Whether a statement renames tables."""
    return any(isinstance(one, TableChange) and one.renamed_to for one in record.changes)


def name_after(name: TableName, records: Iterable[SchemaRecord]) -> TableName | None:
    """The name that a table has after statements; None if it is dropped."""
    for record in records:
        for change in record.changes:
            if isinstance(change, TableChange) and change.name == name and change.new is None:
                if change.renamed_to is None:
                    return None
                name = change.renamed_to
    return name


def first_names(record: SchemaRecord) -> dict[TableName, TableName]:
    """The name of each renamed table before a statement, by its name after it."""
    first: dict[TableName, TableName] = {}
    for change in record.changes:
        if isinstance(change, TableChange) and change.renamed_to is not None:
            first[change.renamed_to] = first.pop(change.name, change.name)
    return first
