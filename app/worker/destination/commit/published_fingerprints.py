"""Fingerprints of published transactions, kept for sources without GTIDs.

Invariant: the fingerprints are in the same Kafka transaction as their rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.worker.pipeline.piece import Piece
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.fingerprints import Fingerprints


class PublishedFingerprints:
    """The fingerprints of one run; if ``kept`` is None, no fingerprints are kept."""

    def __init__(self, kept: Fingerprints | None) -> None:
        self._kept = kept

    def before(self, piece: Piece, cursor: Cursor) -> Iterable[Entry]:
        """The records of the ring that the piece's transactions change."""
        if self._kept is None:
            return ()
        return self._kept.add(piece.trace.fingerprints, cursor.offset.server_uuid)

    def committed(self, _piece: Piece, _cursor: Cursor) -> None:
        """Do nothing: the next run reads the fingerprints from the journal."""
