"""New rules, which enter the stream between two transactions.

Invariant: portions put before are decoded and encoded by the earlier rules, whichever decoder does it; later
portions by these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.worker.pipeline.gather.captured_tables import Name, Schema
from app.worker.pipeline.rules import Rules
from connectors.mysql.position import Coordinates


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRules:
    """The rules of publishing from here on."""

    start: Coordinates
    """The position between transactions at which they enter."""
    rules: Rules
    known: Mapping[Name, Schema]
    """The tables that they capture, with their definitions at this position."""

    @property
    def size(self) -> int:
        """Zero: rules take no room."""
        return 0

    @property
    def effect(self) -> NewRules:
        """The rules themselves, which all decoders must know."""
        return self
