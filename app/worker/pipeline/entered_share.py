"""Shares of portions from outside the source whose owner waits for them.

Invariant: what was selected is compared with the keys that changed until here before any of it is numbered, and
the piece reports the outcome to the owner.
"""

from __future__ import annotations

from collections import Counter

from app.worker.pipeline.decoded_share import DecodedShare, News
from app.worker.pipeline.encode.encode import Encoder
from app.worker.pipeline.encode.transaction_markers import EarlierProgress
from app.worker.pipeline.gather.gathered import Gathered
from app.worker.pipeline.gather.items import REMOVED, Rows
from app.worker.pipeline.gather.selected import GatheringSelected
from app.worker.pipeline.number.changed_keys import (
    ChangedKeys,
    GenerationBegun,
    KeyNews,
    Refused,
    Watched,
)
from app.worker.pipeline.number.numbers import Numbers, Progress
from app.worker.pipeline.number.table_versions import VersionBook
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.portions import Entered, KeyWatch, RemovedRows, SelectedRows
from connectors.mysql.binlog.changes import Transaction


class WatchShare(DecodedShare):
    """The share of a KeyWatch."""

    def __init__(
        self, encoder: Encoder, book: VersionBook, keys: ChangedKeys, portion: KeyWatch
    ) -> None:
        super().__init__(encoder, book, keys, Gathered(), portion.start)
        self._portion = portion

    def _key_news(self) -> list[KeyNews]:
        return [Watched(self._portion.tables)]

    def encode(self) -> Piece:
        """Return the piece, which reports that the stream is published up to here."""
        piece = super().encode()
        piece.notes += self._portion.notes
        piece.entered.append(Entered(self._portion.id))
        return piece


class RemovedShare(DecodedShare):
    """The share of rows that are all gone at once: a part of the transaction of their deletes."""

    def __init__(
        self,
        encoder: Encoder,
        book: VersionBook,
        keys: ChangedKeys,
        portion: RemovedRows,
        selected: GatheringSelected,
        transaction: Transaction,
    ) -> None:
        # Only a later part begins with what was published before.
        selected.gathered.first = transaction if portion.ordinal else None
        super().__init__(encoder, book, keys, selected.gathered, portion.start)
        self._portion, self._transaction = portion, transaction
        self._earlier = EarlierProgress(
            ordinal=portion.ordinal,
            order=portion.ordinal,
            part=portion.part,
            is_published=portion.ordinal > 0,
            counts=Counter(),
        )

    def _first_progress(self, numbers: Numbers) -> Progress | None:  # noqa: ARG002
        """Return None: it is no part of a transaction of the source."""
        return None

    def _cut(self) -> Transaction | None:
        return None if self._portion.is_last else self._transaction

    def encode(self) -> Piece:
        """Return the piece, which reports that the stream is published up to here."""
        piece = super().encode()
        if piece.error is None:
            piece.entered.append(Entered(self._portion.id))
        return piece


class SelectedShare(DecodedShare):
    """The share of selected rows."""

    def __init__(
        self,
        encoder: Encoder,
        book: VersionBook,
        keys: ChangedKeys,
        portion: SelectedRows,
        selected: GatheringSelected,
    ) -> None:
        selected.gathered.first = None
        super().__init__(encoder, book, keys, selected.gathered, portion.start)
        self._portion, self._selected = portion, selected
        self._dropped = self._rows = self._removed = 0

    def _key_news(self) -> list[KeyNews]:
        portion = self._portion
        news: list[KeyNews] = [GenerationBegun(portion.table, portion.begins, portion.kept)]
        if self._selected.refused is not None:
            news.append(Refused(portion.table, portion.attempt))
        return news

    def number(self, numbers: Numbers, news: list[News]) -> tuple[Numbers, list[News]]:
        """Drop the rows that changed, and number the others."""
        self._learn(news)
        portion, selected = self._portion, self._selected
        if self._keys.is_refused(portion.table, portion.attempt):
            selected.refuse("an earlier read of it was refused")
        if selected.gathered.error is None and portion.is_read:
            changed = self._keys.since(portion.table, portion.since)
            if portion.empties and changed:
                # Also of one whose changes have the key that its server promotes: what was published of them is
                # gone with all rows before these.
                selected.refuse("rows of it changed, and all of them are to be replaced")
            else:
                self._dropped = selected.drop(changed)
        found = [item for item in selected.gathered.items if isinstance(item, Rows)]
        self._rows = sum(len(item.rows) for item in found if item.event_type != REMOVED)
        self._removed = sum(len(item.rows) for item in found if item.event_type == REMOVED)
        return super().number(numbers, [])

    def encode(self) -> Piece:
        """Return the piece; the journal's record is in it unless the rows were refused."""
        piece = super().encode()
        if piece.error is None:
            refused = self._selected.refused
            piece.entered.append(
                Entered(
                    self._portion.id,
                    self._rows,
                    self._dropped,
                    refused=refused,
                    removed=self._removed,
                    unreadable=refused if self._selected.unreadable is not None else None,
                    is_last=self._portion.is_last,
                )
            )
            if refused is None:
                piece.notes.append(self._portion.note)
        return piece
