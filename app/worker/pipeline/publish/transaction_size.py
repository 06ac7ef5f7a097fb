"""The size limit of a Kafka transaction: lowered when Kafka is too slow, raised again later.

Invariant: a transaction that missed its deadline is never retried at the same size, down to a floor; the larger
size is tried again once smaller transactions succeed with ease. After a topic refused a batch, no batch as
large is sent again until many transactions have succeeded.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mysql.stream.cutter import TARGET

_LEAST_BYTES = 64 * 1024
_LEAST_CHUNK = 16 * 1024
_MOST_HALVINGS = 8
_MOST_TIMEOUT_FACTOR = 4.0
_EASY = 0.2
"""The share of its deadline within which a transaction succeeds with ease."""
_EASY_IN_A_ROW = 25
_LONG_AGO = 100
"""Transactions after which a topic's smaller limit may have been raised again."""


@dataclass(slots=True)
class Budget:
    """The limits of one destination, over all its runs."""

    most: int
    """The setting for bytes of keys and values in one Kafka transaction."""
    batch: int | None = None
    """Batch bytes that fit all topics that refused a batch; None if no topic did, or only long ago."""
    halvings: int = 0
    _easy: int = 0
    _since: int = 0
    """Transactions that succeeded after a batch was refused."""

    @property
    def bytes(self) -> int:
        """Bytes of keys and values to publish at once."""
        return max(self.most >> self.halvings, min(self.most, _LEAST_BYTES))

    @property
    def chunk(self) -> int:
        """Bytes of the binlog to decode at once: as records, small rows are a hundred times larger."""
        return max(TARGET >> self.halvings, _LEAST_CHUNK)

    @property
    def timeout_factor(self) -> float:
        """The factor by which the deadline of a transaction is extended."""
        return min(1.0 + self.halvings, _MOST_TIMEOUT_FACTOR)

    def refused(self, limit: object, *, sent: object) -> None:
        """Record that a batch of ``sent`` bytes was too large for its topic, whose limit may be unknown."""
        # Incompressible data is a little larger when sent.
        less = limit * 9 // 10 if isinstance(limit, int) else int(str(sent)) // 2
        fits = max(less, 1)
        self.batch, self._since = min(self.batch or fits, fits), 0

    def batch_bytes(self, usual: int) -> int:
        """Bytes of a record batch before compression, for a run that begins."""
        if self._since > _LONG_AGO:
            # The topic may accept more by now; if not, it refuses once.
            self.batch = None
        return usual if self.batch is None else min(usual, self.batch)

    def too_slow(self) -> None:
        """Record that a transaction missed its deadline."""
        self.halvings, self._easy = min(self.halvings + 1, _MOST_HALVINGS), 0

    def through(self, share: float) -> bool:
        """Record a success in this share of the deadline; return whether the next ones may be larger."""
        self._since += 1
        if not self.halvings:
            return False
        self._easy = self._easy + 1 if share < _EASY else 0
        grows = self._easy >= _EASY_IN_A_ROW
        if grows:
            self.halvings, self._easy = self.halvings - 1, 0
        return grows
