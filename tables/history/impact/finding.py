"""One consequence of a table change for its subscribers.

Invariant: ``kind`` and ``severity`` are for programs and stay as they are; the sentences are for
operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """The severity of a finding."""

    HARMLESS = "harmless"
    """No effect on a subscriber that ignores unknown fields."""
    CAREFUL = "careful"
    """To be checked first: a subscriber may need preparation, or keeps values that the source no
    longer has."""
    BREAKING = "breaking"
    """A subscriber that needs the removed or changed data fails or produces wrong results."""

    @property
    def rank(self) -> int:
        """Greater is worse."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The consequence, its severity, and whom it concerns."""

    kind: str
    severity: Severity
    column: str | None = None
    """By its new name, if it has one."""
    old: str | None = None
    """The old type, name or key."""
    new: str | None = None
    consumers: str = ""
    """The effect on readers of the topic."""
    warehouse: str = ""
    """The effect in the sink."""
    warehouse_columns: tuple[str, ...] = ()
    """The affected columns of the warehouse's table."""
