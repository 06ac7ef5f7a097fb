"""GTIDs of the transactions that end in a share, as runs without gaps.

Invariant: a transaction costs one comparison here, as long as numbers are consecutive.
"""

from __future__ import annotations

from app.worker.pipeline.piece_parts import GtidInterval, add_run


class GtidRuns:
    """Collects them in the order of the binlog."""

    __slots__ = ("_first", "_runs", "last", "source")

    def __init__(self) -> None:
        self._runs: list[GtidInterval] = []
        self.source: str | None = None
        """The source part of the last GTID; None if the last transaction has none."""
        self._first = self.last = 0
        """The first and last number of the current run; a caller extends it by setting ``last``."""

    def add(self, source: str | None, number: int) -> None:
        """Add the GTID of a transaction; ``source`` is None if it has none."""
        if number != self.last + 1 or source != self.source:
            self._close()
            self.source, self._first = source, number
        self.last = number

    def found(self) -> list[GtidInterval]:
        """Return all runs."""
        self._close()
        return self._runs

    def _close(self) -> None:
        if self.source is not None:
            add_run(self._runs, (self.source, self._first, self.last))
        self.source = None
