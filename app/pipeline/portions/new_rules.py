"""New rules, which enter the stream between two transactions.

Invariant: what was put before is decoded and encoded by the earlier rules, whichever decoder does it; what
is put later, by these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.pipeline.gather.captured_tables import Name, Schema
from app.pipeline.rules import Rules
from connectors.mysql.position import Coordinates


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRules:
    """What is published from here on, and how."""

    start: Coordinates
    """Between which transactions they enter."""
    rules: Rules
    known: Mapping[Name, Schema]
    """The tables that are captured by them, as their history has them here."""

    @property
    def size(self) -> int:
        """Nothing waits for room for them."""
        return 0

    @property
    def effect(self) -> NewRules:
        """All decoders must know them."""
        return self
