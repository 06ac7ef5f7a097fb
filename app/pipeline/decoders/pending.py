"""Portions on their way through a pool: put, decoded by somebody, and taken in their order.

Invariant: outcomes are taken in the order in which portions were put, each once; what is under way is bounded
by bytes and by portions. Nothing here locks: the pool does.
"""

from __future__ import annotations

from typing import Any

from app.pipeline.decoders.protocols import Limits
from connectors.errors import AqueductError


class Pending:
    """Those that were put, and whose pieces were not all taken yet."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sizes: dict[int, int] = {}
        self._outcomes: dict[int, Any] = {}
        """Pieces and errors that wait for their turn."""
        self._put = 0
        self.taken = 0
        """How many were taken: the number of the one that is next in order."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def has_room(self) -> bool:
        """Whether another may be put."""
        return self.bytes < self._limits.bytes and len(self._sizes) < self._limits.chunks

    @property
    def has_end(self) -> bool:
        """Whether the reader has reported its end, so that nothing more is put."""
        return self._put in self._outcomes

    @property
    def has_next(self) -> bool:
        """Whether the outcome that is next in order has come."""
        return self.taken in self._outcomes

    def put(self, size: int) -> int:
        """Add a portion; its number."""
        number = self._put
        self._put += 1
        self._sizes[number] = size
        self.bytes += size
        return number

    def end(self, error: AqueductError) -> None:
        """Nothing more is put, and why; it comes after all outcomes."""
        self._outcomes.setdefault(self._put, error)

    def came(self, number: int, outcome: Any) -> None:
        """Add the pieces, or the error, of a portion."""
        # An error takes the place of what the reader said of the end, and what follows is not looked at.
        self._outcomes[number] = outcome

    def next(self) -> Any:
        """The outcome that is next in order, once; ``has_next`` is required."""
        return self._outcomes.pop(self.taken)

    def took(self) -> None:
        """All pieces of the portion that was next were taken."""
        self.bytes -= self._sizes.pop(self.taken)
        self.taken += 1
