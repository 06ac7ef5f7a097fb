"""Report of skipped statements: counted, logged once per table, listed on /status.

Invariant: only committed statements are counted, so that a new run counts nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from app import metrics
from app.worker.pipeline.piece import Piece
from app.worker.status import DestinationStatus
from tables.journal_format import Entry
from tables.state.cursor import Cursor

log = logging.getLogger(__name__)

_MOST_TABLES = 100
"""The maximum number of tables on the status page; statements on others are only counted."""


class SkippedStatements:
    """The skipped statements of one destination."""

    def __init__(self, status: DestinationStatus) -> None:
        self._status = status

    def before(self, _piece: Piece, _cursor: Cursor) -> Iterable[Entry]:
        """Return no records."""
        return ()

    def committed(self, piece: Piece, _cursor: Cursor) -> None:
        """Count the statements of a piece, and list their tables."""
        if not piece.counts.statements:
            return
        metrics.STATEMENTS_PASSED.labels(self._status.name).inc(piece.counts.statements.total())
        for name, count in piece.counts.statements.items():
            self._list(name, count)

    def _list(self, name: tuple[str, str], count: int) -> None:
        shown = self._status.statements_passed
        if name not in shown:
            if len(shown) >= _MOST_TABLES:
                return
            log.warning(
                "%s: statements on %s are passed by: it is not captured, and they change no other table",
                self._status.name,
                ".".join(name),
            )
        shown[name] += count
