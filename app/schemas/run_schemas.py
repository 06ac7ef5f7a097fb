"""The schemas of one destination during a run: their history, and which tables are quarantined.

Invariant: answers describe the journal after the present batch is committed. The reader's thread
may be further in the history, so every query is as of the cursor.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from app import metrics
from app.pipeline.gather.captured_tables import GivenUp, QuarantinedMarker, Schema
from app.pipeline.piece import Piece
from app.pipeline.rules import Rules
from app.schemas.history_expiry import Expiry
from app.schemas.store_mirror import Mirror
from app.service.status import DestinationStatus
from tables.cursor import Cursor
from tables.journal_format import Entry
from tables.quarantine import Quarantine, Resolution, note_of
from tables.schema_history.codec.journal_records import checkpoint_records
from tables.schema_history.history import SchemaHistory
from tables.schema_history.position import HistoryPosition
from tables.schema_history.record import SchemaRecord


class Schemas:
    """Adds the journal's schema records to each commit, and shows them."""

    def __init__(
        self,
        history: SchemaHistory | None,
        quarantine: Quarantine,
        rules: Rules,
        status: DestinationStatus,
        *,
        expiry: Expiry,
        mirror: Mirror | None = None,
    ) -> None:
        self._history = history
        self._expiry = expiry
        self._is_new = False
        """Whether the batch that is being published contains a checkpoint of the history."""
        self._quarantine = quarantine
        self._rules = rules
        self._status = status
        self._mirror = mirror

    def known(self) -> dict[tuple[str, str], Schema]:
        """Return the captured tables as decoders need them at the beginning."""
        routes = self._rules.routes
        tables = self._history.now().tables() if self._history is not None else {}
        known: dict[tuple[str, str], Schema] = {
            name: table for name, table in tables.items() if routes.of(name) is not None
        }
        known.update(dict.fromkeys(self._quarantine.quarantined, QuarantinedMarker()))
        known.update(dict.fromkeys(self._quarantine.given_up, GivenUp()))
        self._show()
        return known

    def before(self, piece: Piece, cursor: Cursor) -> list[Entry]:
        """Return quarantine entries; add checkpoints of the history, and the expiry of old ones."""
        return [*self._quarantined(piece), *self._checkpointed(piece, cursor), *self._expired()]

    def _quarantined(self, piece: Piece) -> Iterator[Entry]:
        for record in piece.tables.history:
            yield from map(note_of, self._quarantine.released_by_statement(record))
        for added in piece.tables.quarantined:
            yield note_of(self._quarantine.add(added.name, added.why, added.since))

    def _checkpointed(self, piece: Piece, cursor: Cursor) -> list[Entry]:
        history, now = self._history, time.time_ns() // 1_000_000
        if history is None or not history.is_due(now, cursor.offset.server_uuid):
            return []
        at = HistoryPosition.between(cursor.offset, ts_ms=piece.committed_ms or now)
        self._is_new = True
        return checkpoint_records(history.checkpoint(at, made_ms=now, count=cursor.history))

    def _expired(self) -> list[Entry]:
        expired = self._expiry.found() if self._history is not None else None
        if expired is None:
            return []
        if self._history is not None and expired.checkpoint is not None:
            self._history.forget_before(expired.checkpoint)
        return expired.entries

    def waits_for(self, resolution: Resolution | None) -> bool:
        """Return whether a resolution is new for a table that is quarantined or given up."""
        if resolution is None:
            return False
        unreleased = self._quarantine.quarantined | self._quarantine.given_up
        entry = unreleased.get(resolution.name)
        return entry is not None and entry.resolution != resolution.id

    def run_started(self, cursor: Cursor) -> None:
        """Report that the run's own cursor is committed, so the history up to there may be mirrored."""
        if self._mirror is not None and self._history is not None:
            self._mirror.begin(self._history, cursor.history or 0)

    def committed(self, piece: Piece, cursor: Cursor) -> None:
        """Show the effects of a committed batch, and report it to the central store's thread."""
        name = self._rules.destination
        if self._mirror is not None and cursor.history is not None:
            self._mirror.committed(cursor.history)
        for record in piece.tables.history:
            if record.changes or record.reason is not None:
                metrics.SCHEMA_CHANGES.labels(name, self._outcome(record)).inc()
        if piece.counts.parked:
            self._status.parked.update(piece.counts.parked)
            metrics.PARKED.labels(name).inc(piece.counts.parked.total())
        if piece.tables.quarantined or piece.tables.history:
            self._show()
        if self._is_new and self._history is not None:
            self._is_new = False
            self._expiry.begin(self._history.policy.expire_ms)

    def _outcome(self, record: SchemaRecord) -> str:
        """Return the metric's label: an unresolved statement that quarantines nothing needs no alert."""
        is_harmless = not self._quarantine.quarantined.keys() & set(record.unresolved)
        return "unknown" if record.outcome == "unresolved" and is_harmless else record.outcome

    def _show(self) -> None:
        waiting, given_up = self._quarantine.quarantined, self._quarantine.given_up
        self._status.quarantined, self._status.given_up = waiting, given_up
        metrics.QUARANTINED.labels(self._rules.destination).set(len(waiting))
        metrics.GIVEN_UP.labels(self._rules.destination).set(len(given_up))
