"""Rows of the signal table, which become requests for snapshots.

Invariant: a request is in the Kafka transaction of its row, so each row makes its requests once.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping

from app.pipeline.piece import Piece
from connectors.mysql.ddl.definition import TableName
from tables.cursor import Cursor
from tables.journal_format import Entry
from tables.snapshots.request import note_of
from tables.snapshots.signal_row import SignalRefused, requests_of, signal_in
from tables.snapshots.table_snapshot import TableSnapshot

log = logging.getLogger(__name__)


class SignalRows:
    """Those of one run of a destination."""

    def __init__(
        self,
        destination: str,
        *,
        captured: Callable[[], Iterable[TableName]],
        snapshots: Callable[[], Mapping[TableName, TableSnapshot]],
    ) -> None:
        """``captured``: the captured tables that exist; ``snapshots``: the states of their snapshots."""
        self._destination, self._captured, self._snapshots = destination, captured, snapshots

    def before(self, piece: Piece, _cursor: Cursor, /) -> Iterable[Entry]:
        """The requests that a piece's rows make."""
        return [note for row in piece.signals for note in self._notes(row)]

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Nothing more: each worker follows the journal."""

    def _notes(self, row: str) -> list[Entry]:
        try:
            signal = signal_in(row)
        except SignalRefused as error:
            log.warning("%s: a signal is passed by, as %s: %s", self._destination, error, row)
            return []
        if signal is None:
            return []
        requests = list(
            requests_of(
                signal,
                self._destination,
                captured=self._captured,
                snapshots=self._snapshots(),
                name=uuid.uuid4().hex[:12],
                now_ms=time.time_ns() // 1_000_000,
            )
        )
        if not requests:
            log.warning(
                "%s: signal %s concerns no table: %s of %s",
                self._destination, signal.id, signal.action.value, ", ".join(signal.patterns) or "all",
            )  # fmt: skip
        return [note_of(one) for one in requests]
