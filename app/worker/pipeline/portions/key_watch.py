"""The tables of which the keys of changed rows are recorded from a position on.

Invariant: whatever changes after it is recorded before a later portion of selected rows is numbered.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.worker.pipeline.number.changed_keys import Name
from connectors.mysql.position import Coordinates


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWatch:
    """It enters between two transactions, and replaces the one before."""

    start: Coordinates
    tables: frozenset[Name]
    id: int
    """For the report to the owner that the stream was published up to here."""
    notes: tuple[tuple[bytes, bytes], ...] = ()
    """Records for the journal, keys and values, of states that begin here."""

    @property
    def size(self) -> int:
        """Zero: its records are few."""
        return 0

    @property
    def effect(self) -> KeyWatch:
        """The watch itself, which all decoders must know."""
        return self
