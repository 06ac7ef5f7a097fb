"""A portion of the stream of changes, as decoders get it.

Invariant: a portion can be decoded by itself; portions are numbered in the order in which they are put.
"""

from __future__ import annotations

from typing import Protocol

from app.worker.pipeline.portions.key_watch import KeyWatch
from app.worker.pipeline.portions.new_rules import NewRules
from app.worker.pipeline.statement_effect import Applied
from connectors.mysql.position import Coordinates

Effect = Applied | NewRules | KeyWatch
"""The effect of a portion on later ones: that of a statement on tables, new rules, or tables to watch."""


class Portion(Protocol):
    """A stretch of the stream that can be decoded by itself: a captured chunk, rows from outside the binlog, or
    news for decoders."""

    @property
    def start(self) -> Coordinates:
        """Its position in the stream, for errors."""

    @property
    def size(self) -> int:
        """Its size in bytes."""

    @property
    def effect(self) -> Effect | None:
        """The effect that all decoders must know before they decode a later portion."""
