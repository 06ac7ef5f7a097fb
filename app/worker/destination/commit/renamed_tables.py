"""Tables that are renamed while their existing rows are read, which are then read under their new names.

A table that takes the name of one being read is read too: no change contains its rows up to the last key read.

Invariant: the request is in the Kafka transaction of the statement, so it is made once. The new reading begins
with the first row: rows that were published under the old name are published again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator

from app.worker.destination.commit.read_tables import ReadTables
from app.worker.pipeline.piece import Piece
from connectors.mysql.ddl.definition import TableChange, TableName
from tables.history.record import SchemaRecord
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.snapshots.request import SnapshotAction, SnapshotRequest, note_of


class RenamedTables:
    """The renamed tables of one run of a destination."""

    def __init__(self, tables: ReadTables) -> None:
        self._tables = tables

    def before(self, piece: Piece, _cursor: Cursor, /) -> Iterable[Entry]:
        """The requests that a piece's statements make."""
        wanted = {
            name: (where, record.type)
            for record in piece.tables.history
            for name, where in self._moved(record)
        }
        if not wanted:
            return ()
        existing = set(self._tables.captured())
        return [
            note_of(self._request(name, where, by))
            for name, (where, by) in wanted.items()
            if name in existing
        ]

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Do nothing: each worker follows the journal."""

    def _moved(self, record: SchemaRecord) -> Iterator[tuple[TableName, str | None]]:
        """The new and old names of renamed tables being read; another table may have an old name now."""
        for change in record.changes:
            if not isinstance(change, TableChange) or change.renamed_to is None:
                continue
            read = self._tables.snapshots.get(change.name)
            if read is not None and read.is_pending:
                yield change.renamed_to, read.where
                yield change.name, read.where
                continue
            # The table takes the name of a dropped table, of which rows up to some key are published.
            replaced = self._tables.snapshots.get(change.renamed_to)
            if replaced is not None and replaced.is_pending:
                yield change.renamed_to, replaced.where

    def _request(self, name: TableName, where: str | None, by: str) -> SnapshotRequest:
        now_ms = time.time_ns() // 1_000_000
        return SnapshotRequest(
            destination=self._tables.destination,
            database=name[0],
            table=name[1],
            id=uuid.uuid4().hex[:12],
            action=SnapshotAction.START,
            where=where,
            by=by,
            ts_ms=now_ms,
        )
