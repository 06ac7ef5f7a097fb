"""Rows of the signal table, which become requests for snapshots.

Invariant: a request is in the Kafka transaction of its row, so each row makes its requests once.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable

from app.worker.destination.commit.read_tables import ReadTables
from app.worker.pipeline.piece import Piece
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.snapshots.request import unapplied_starts
from tables.state.snapshots.signal_row import SignalRefused, requests_of, signal_in

log = logging.getLogger(__name__)


class SignalRows:
    """The signal rows of one run of a destination."""

    def __init__(self, tables: ReadTables) -> None:
        self._tables = tables

    def before(self, piece: Piece, cursor: Cursor, /) -> Iterable[Entry]:
        """The requests that a piece's rows make."""
        return [note for row in piece.signals for note in self._notes(row, piece, cursor)]

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Do nothing: each worker follows the journal."""

    def _notes(self, row: str, piece: Piece, cursor: Cursor) -> list[Entry]:
        # No log line contains a row's values, not even its id.
        before = cursor.offset.coordinates
        tables = self._tables
        try:
            signal = signal_in(row)
        except SignalRefused as error:
            log.warning(
                "%s: a signal after %s is passed by, as %s", tables.destination, before, error
            )
            return []
        if signal is None:
            return []
        requests = list(
            requests_of(
                signal,
                tables.destination,
                captured=lambda: tables.existing(piece, cursor),
                snapshots=tables.snapshots,
                started=unapplied_starts(tables.unapplied(), tables.snapshots),
                name=uuid.uuid4().hex[:12],
                now_ms=time.time_ns() // 1_000_000,
            )
        )
        if not requests:
            log.warning(
                "%s: a signal after %s (%s) concerns no table",
                tables.destination, before, signal.action.value,
            )  # fmt: skip
        return tables.records(requests)
