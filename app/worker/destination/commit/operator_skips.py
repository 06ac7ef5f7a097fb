"""Operator skips: transactions omitted at an operator's request, and their completion in the journal.

Invariant: a skip is logged and counted only after the commit of the Kafka transaction that moves
the cursor past it; a run that ends before that skips it again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from app import metrics
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.publish.publisher import Publisher
from connectors.mysql.binlog.mariadb_events import type_name
from connectors.mysql.lookup.skipped_transactions import (
    SkippedTransaction,
    TransactionSkipper,
    skipped_up_to,
)
from tables.history.resolved_statement import ResolvedStatement
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.operator_requests import Skip, Skips, skip_note

log = logging.getLogger(__name__)


class OperatorSkips:
    """The skips of one run of a destination."""

    def __init__(self, destination: str, skips: Skips, server_uuid: str) -> None:
        self._destination = destination
        self._pending: dict[str, Skip] = skips.pending
        self._noted: list[SkippedTransaction] = []
        self.skipper: TransactionSkipper[ResolvedStatement] | None = None
        """Removes the transactions to skip from the chunks read; None if there are none."""
        if self._pending:
            self.skipper = TransactionSkipper(frozenset(self._pending), server_uuid)

    def start_cursor(self, publisher: Publisher) -> Cursor:
        """The cursor to read from; a skipped transaction is not resumed in its middle."""
        cursor = publisher.cursor
        if cursor.resume is not None and cursor.resume.transaction_id in self._pending:
            log.warning(
                "%s: %d record(s) of %s were published before it was to be skipped",
                self._destination, cursor.resume.published, cursor.resume.transaction_id,
            )  # fmt: skip
            publisher.cursor = cursor = replace(cursor, resume=None)
        return cursor

    def is_due(self, piece: Piece) -> bool:
        """Whether a piece passes a skipped transaction, and so is committed at once."""
        return bool(self._passed(piece))

    def before(self, piece: Piece, _cursor: Cursor) -> Iterable[Entry]:
        """The records that mark skips as done, for the skipped transactions that end before the piece does."""
        self._noted = self._passed(piece)
        return [
            skip_note(
                replace(self._pending[one.id], done=str(one.start), events=one.events.total())
            )
            for one in self._noted
        ]

    def _passed(self, piece: Piece) -> list[SkippedTransaction]:
        return [] if self.skipper is None else skipped_up_to(self.skipper.done, piece.coordinates)

    def committed(self, _piece: Piece, _cursor: Cursor) -> None:
        """Log and count the skips in the committed transaction."""
        for one in self._noted:
            assert self.skipper is not None
            self.skipper.done.remove(one)
            skip = self._pending.pop(one.id)
            for kind, count in one.events.items():
                metrics.EVENTS.labels(self._destination, type_name(kind), "skipped").inc(count)
            log.warning(
                "%s: transaction %s at %s was skipped with %d event(s), as %s requested: %s",
                self._destination, one.id, one.start, one.events.total(), skip.by, skip.why,
            )  # fmt: skip
        self._noted = []
