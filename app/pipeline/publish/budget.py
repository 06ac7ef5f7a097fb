"""How much is published at once: less once Kafka was too slow for it, more again later.

Invariant: a transaction that was too large for its deadline is never tried again at the same size, down to a
floor; a size that was given up is tried again once smaller ones go through with ease. A batch that a topic
refused is never sent again as large, unless much went through since.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mysql.stream.cutter import TARGET

_LEAST_BYTES = 64 * 1024
_LEAST_CHUNK = 16 * 1024
_MOST_HALVINGS = 8
_MOST_PATIENCE = 4.0
_EASY = 0.2
"""The share of its deadline within which a transaction goes through with ease."""
_EASY_IN_A_ROW = 25
_LONG_AGO = 100
"""Transactions after which a topic's smaller limit may have been raised again."""


@dataclass(slots=True)
class Budget:
    """Of one destination, over all its runs."""

    most: int
    """Bytes of keys and values in one Kafka transaction, as the settings have it."""
    batch: int | None = None
    """Bytes of a record batch that the topic takes that refused one last; None while none did, or long ago."""
    halvings: int = 0
    _easy: int = 0
    _since: int = 0
    """Transactions that went through after a batch was refused."""

    @property
    def bytes(self) -> int:
        """Bytes of keys and values to publish at once."""
        return max(self.most >> self.halvings, min(self.most, _LEAST_BYTES))

    @property
    def chunk(self) -> int:
        """Bytes of the binlog to decode at once: small rows are a hundred times as large as records."""
        return max(TARGET >> self.halvings, _LEAST_CHUNK)

    @property
    def patience(self) -> float:
        """How many times as long a transaction may take as otherwise."""
        return min(1.0 + self.halvings, _MOST_PATIENCE)

    def refused(self, limit: object, *, sent: object) -> None:
        """A batch of so many bytes was too large for its topic, whose limit may not be known."""
        # What cannot be compressed is a little larger as it is sent.
        less = limit * 9 // 10 if isinstance(limit, int) else int(str(sent)) // 2
        fits = max(less, 1)
        self.batch, self._since = min(self.batch or fits, fits), 0

    def batch_bytes(self, usual: int) -> int:
        """Bytes of a record batch before compression, for a run that begins."""
        if self._since > _LONG_AGO:
            # The topic may take more by now; if not, it says so once.
            self.batch = None
        return usual if self.batch is None else min(usual, self.batch)

    def too_slow(self) -> None:
        """A transaction was not through in time."""
        self.halvings, self._easy = min(self.halvings + 1, _MOST_HALVINGS), 0

    def through(self, share: float) -> bool:
        """A transaction went through in this share of its deadline; whether the next ones may be larger."""
        self._since += 1
        if not self.halvings:
            return False
        self._easy = self._easy + 1 if share < _EASY else 0
        grows = self._easy >= _EASY_IN_A_ROW
        if grows:
            self.halvings, self._easy = self.halvings - 1, 0
        return grows
