"""All rows of a table without a key, as portions that enter at one position.

The first one says that all earlier rows of the table are gone. If the table changed since the SELECT, it is
refused, and so are the others; else it enters, and so do the others, since nothing else of the stream comes
between them. So only the end of a run can leave a part of the rows published. The journal then has the table as
one whose rows are to be replaced: the next run begins with the record that all are gone.

Invariant: a portion is read from the spool once a decoder takes it; no two have one name, whatever was killed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from app.worker.pipeline.portions.portion_series import PortionSeries
from app.worker.pipeline.portions.selected_rows import SelectedRows
from connectors.mysql.position import Coordinates
from connectors.mysql.select.chunk_reader import ReadChunk
from connectors.mysql.select.spool import Spool
from tables.state.snapshots.table_snapshot import SnapshotState, TableSnapshot, note_of
from wire.changes import reading_id


class SelectedSpool:
    """The rows of one SELECT, until they are committed or refused."""

    def __init__(
        self,
        spool: Spool,
        chunk: ReadChunk,
        before: TableSnapshot,
        *,
        number: int,
        since: int,
        attempt: int,
        server_id: int,
    ) -> None:
        """``before``: the table's state, without any of these rows."""
        self._spool, self._chunk, self._before = spool, chunk, before
        self._number, self._since = number, since
        self._attempt, self._server_id = attempt, server_id
        self.seconds = time.time() - chunk.began_ms / 1000
        """How long they were read."""
        self.after = self._state(len(spool), chunk.rows)
        """The table's state once all are committed."""

    def close(self) -> None:
        """Enter no more, and remove the rows."""
        self._spool.close()

    def entering(self, start: Coordinates) -> PortionSeries:
        """Return the portions that enter at a position."""
        return PortionSeries(self._portions(start))

    def _portions(self, start: Coordinates) -> Iterator[SelectedRows]:
        rows = 0
        for at in range(len(self._spool)):
            blocks = self._spool.blocks(at)
            if blocks is None:
                # The first one was refused, or the run has ended.
                return
            rows += self._spool.rows_of(at)
            state = self._state(at + 1, rows)
            yield SelectedRows(
                start=start,
                table=state.name,
                read=reading_id(state.id, state.name, state.chunks),
                id=self._number,
                read_ms=self._chunk.began_ms,
                server_id=self._server_id,
                attempt=self._attempt,
                since=self._since,
                begins=self._number,
                kept=self._since,
                table_map=self._chunk.table_map,
                blocks=blocks,
                note=note_of(state),
                empties=at == 0,
                is_last=at + 1 == len(self._spool),
                replaced=at + 1 == len(self._spool),
            )

    def _state(self, portions: int, rows: int) -> TableSnapshot:
        """Return the table's state after some of the portions."""
        is_last = portions == len(self._spool)
        estimate = self._chunk.estimate
        return replace(
            self._before,
            state=self._before.ended if is_last else SnapshotState.READING,
            error=self._before.unlogged if is_last else None,
            # What a kill leaves is removed first, also if the table has a key by then.
            replaces=not is_last,
            replacing=False,
            chunks=self._before.chunks + portions,
            rows=rows,
            estimated_rows=self._before.estimated_rows if estimate is None else estimate,
        )
