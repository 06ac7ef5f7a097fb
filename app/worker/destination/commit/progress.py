"""Progress of a run: cursor, rows, lag and commit times, on the status page and in the metrics.

Invariant: only committed progress is shown.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from app import metrics
from app.worker.destination.takeover.timings import Phases
from app.worker.pipeline.piece import Piece
from app.worker.status import DestinationStatus
from app.worker.unit.retry_policy import ErrorPolicy
from connectors.mysql.binlog.mariadb_events import type_name
from tables.journal_format import Entry
from tables.state.cursor import Cursor

log = logging.getLogger(__name__)


class Progress:
    """The progress of one run."""

    def __init__(self, status: DestinationStatus, policy: ErrorPolicy, phases: Phases) -> None:
        self._status, self._policy, self._phases = status, policy, phases
        self._is_first = True
        self._began = 0.0
        """The start of the transaction, by the monotonic clock."""

    def before(self, _piece: Piece, _cursor: Cursor) -> Iterable[Entry]:
        """Start the clock."""
        self._began = time.monotonic()
        return ()

    def committed(self, piece: Piece, cursor: Cursor) -> None:
        """Show the progress that the piece made."""
        name = self._status.name
        metrics.COMMITS.labels(name).observe(time.monotonic() - self._began)
        if self._is_first:
            self._is_first = False
            log.info("%s: first commit after %.2f s", name, self._phases.reached("first commit"))
        self._policy.succeeded()
        self._show(piece, cursor)
        self._count(piece)

    def _show(self, piece: Piece, cursor: Cursor) -> None:
        status = self._status
        status.cursor = cursor
        status.rows += piece.counts.rows.total()
        metrics.SEQ.labels(status.name).set(cursor.seq)
        if piece.committed_ms:
            status.committed_ms = piece.committed_ms
            status.lag_seconds = max(0.0, time.time() - piece.committed_ms / 1000)
            metrics.LAG.labels(status.name).set(status.lag_seconds)

    def _count(self, piece: Piece) -> None:
        name = self._status.name
        for (kind, handling), count in piece.counts.events.items():
            metrics.EVENTS.labels(name, type_name(kind), handling).inc(count)
        for op, count in piece.counts.rows.items():
            metrics.ROWS.labels(name, op).inc(count)
        for way, count in piece.counts.oversize.items():
            metrics.OVERSIZE.labels(name, way).inc(count)
        metrics.RECORDS.labels(name).inc(piece.records)
        metrics.BYTES.labels(name).inc(piece.size)
