"""Tables that are renamed while their existing rows are read, which are then read under their new names.

A table whose reading is paused is read too: under its old name, there is nothing left to resume. So is a
table that takes the name of one that is not read to its end: no change contains its rows up to the last key
read.

Invariant: the request is in the Kafka transaction of the statement, so it is made once. The new reading
begins with the first row: rows that were published under the old name are published again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping

from app.worker.destination.commit.read_tables import (
    ReadTables,
    is_renaming,
    name_after,
)
from app.worker.pipeline.piece import Piece
from connectors.mysql.ddl.definition import TableChange, TableName
from tables.history.record import SchemaRecord
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.snapshots.request import (
    SnapshotAction,
    SnapshotRequest,
)
from tables.state.snapshots.snapshot_progress import TableSnapshot


class RenamedTables:
    """The renamed tables of one run of a destination."""

    def __init__(self, tables: ReadTables, *, can_replace: Callable[[TableName], bool]) -> None:
        """``can_replace``: whether a table's subscribers can be sent a record that all its rows are gone."""
        self._tables = tables
        self._can_replace = can_replace

    def before(self, piece: Piece, cursor: Cursor, /) -> Iterable[Entry]:
        """The requests that a piece's statements make."""
        history = piece.tables.history
        if not any(map(is_renaming, history)):
            return ()
        states = self._tables.states()
        wanted = {
            name_after(name, history[number:]): (read, record.type)
            for number, record in enumerate(history, 1)
            for name, read in _moved(record, states)
        }
        existing = self._tables.existing(piece, cursor) if wanted else set()
        return self._tables.records(
            [
                self._request(name, read, by)
                for name, (read, by) in wanted.items()
                if name is not None and name in existing
            ]
        )

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Do nothing: each worker follows the journal."""

    def _request(self, name: TableName, read: TableSnapshot, by: str) -> SnapshotRequest:
        # Rows of the whole table that should not be in the topic are not removed by reading its rows alone.
        is_unfit = read.replaces or read.replacing or (read.unlogged and read.where is None)
        return SnapshotRequest(
            destination=self._tables.destination,
            database=name[0],
            table=name[1],
            id=uuid.uuid4().hex[:12],
            action=SnapshotAction.START,
            where=read.where,
            replaces=bool(is_unfit) and self._can_replace(name),
            removes=read.removes,
            by=by,
            ts_ms=time.time_ns() // 1_000_000,
        )


def _moved(
    record: SchemaRecord, states: Mapping[TableName, TableSnapshot]
) -> Iterator[tuple[TableName, TableSnapshot]]:
    """The new and old names of renamed tables not read to the end; another may have an old name now."""
    for change in record.changes:
        if not isinstance(change, TableChange) or change.renamed_to is None:
            continue
        read = states.get(change.name)
        if read is not None and read.is_open:
            yield change.renamed_to, read
            yield change.name, read
            continue
        # The table takes the name of a dropped table, of which rows up to some key are published.
        replaced = states.get(change.renamed_to)
        if replaced is not None and replaced.is_open:
            yield change.renamed_to, replaced
