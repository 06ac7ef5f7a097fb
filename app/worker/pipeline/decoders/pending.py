"""Portions in a pool: put, decoded by any decoder, and taken in order.

Invariant: outcomes are taken once each, in the order in which portions were put; pending portions are bounded
by bytes and count. Nothing here locks: the pool does.
"""

from __future__ import annotations

from typing import Any

from app.worker.pipeline.decoders.protocols import Limits
from connectors.errors import AqueductError


class Pending:
    """Portions that were put and whose pieces are not all taken yet."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sizes: dict[int, int] = {}
        self._outcomes: dict[int, Any] = {}
        """Pieces and errors by the number of their portion."""
        self._put = 0
        self.taken = 0
        """Count of portions taken, which is the number of the next one in order."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def has_room(self) -> bool:
        """Whether another portion may be put."""
        return self.bytes < self._limits.bytes and len(self._sizes) < self._limits.chunks

    @property
    def has_end(self) -> bool:
        """Whether the reader has reported its end; then nothing more is put."""
        return self._put in self._outcomes

    @property
    def has_next(self) -> bool:
        """Whether the outcome next in order is present."""
        return self.taken in self._outcomes

    def put(self, size: int) -> int:
        """Add a portion and return its number."""
        number = self._put
        self._put += 1
        self._sizes[number] = size
        self.bytes += size
        return number

    def end(self, error: AqueductError) -> None:
        """Add the error that ends the stream, after all outcomes."""
        self._outcomes.setdefault(self._put, error)

    def came(self, number: int, outcome: Any) -> None:
        """Add the pieces, or the error, of a portion."""
        # An error replaces the end that the reader reported; what follows it is ignored.
        self._outcomes[number] = outcome

    def next(self) -> Any:
        """Remove and return the outcome next in order; requires ``has_next``."""
        return self._outcomes.pop(self.taken)

    def took(self) -> None:
        """Note that all pieces of the next portion were taken."""
        self.bytes -= self._sizes.pop(self.taken)
        self.taken += 1
