"""One thing that a change of a table means to its subscribers.

The law: ``kind`` and ``severity`` are for programs and stay as they are; the sentences are for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How bad it is."""

    HARMLESS = "harmless"
    """A subscriber that ignores what it does not know notices nothing."""
    CAREFUL = "careful"
    """Look at it first: a subscriber may have to be prepared, or keeps values that the source has not."""
    BREAKING = "breaking"
    """A subscriber that needs what was there fails, or goes wrong."""

    @property
    def rank(self) -> int:
        """Greater is worse."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What it is, how bad, and for whom."""

    kind: str
    severity: Severity
    column: str | None = None
    """By its new name, if it has one."""
    old: str | None = None
    """What it was: a type, a name, a key."""
    new: str | None = None
    consumers: str = ""
    """What readers of the topic meet."""
    warehouse: str = ""
    """What the sink does."""
    warehouse_columns: tuple[str, ...] = ()
    """Which columns of the warehouse's table that touches."""
