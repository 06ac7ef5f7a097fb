"""Commit participants: parts of a run that add records to a Kafka transaction or act after its commit.

Invariant: ``before`` returns the records that must be in the transaction; ``committed`` does what
is valid only after the commit. A transaction that does not commit ends its run, so a participant
kept over runs does not change its state in ``before``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from app.worker.pipeline.piece import Piece
from tables.journal_format import Entry
from tables.state.cursor import Cursor


class CommitParticipant(Protocol):
    """One concern of a run that takes part in its commits."""

    def before(self, piece: Piece, cursor: Cursor, /) -> Iterable[Entry]:
        """The journal records for the transaction of a piece; ``cursor`` is the one before it.

        Raise if the piece must not be published.
        """
        ...

    def committed(self, piece: Piece, cursor: Cursor, /) -> None:
        """Act on a piece whose transaction has committed; ``cursor`` is the one after it."""
        ...


@dataclass(frozen=True, slots=True)
class Commits:
    """All participants of a run, in the order in which each is called before and after a commit."""

    participants: tuple[CommitParticipant, ...]

    def before(self, piece: Piece, cursor: Cursor) -> None:
        """Add the participants' journal records to a piece, in their order."""
        for one in self.participants:
            piece.notes += one.before(piece, cursor)

    def committed(self, piece: Piece, cursor: Cursor) -> None:
        """Call each participant after the commit, in the same order."""
        for one in self.participants:
            one.committed(piece, cursor)
