"""The hourly limit and the count of dead letters.

Invariant: nothing from the first row past the limit on is published. The hour is measured by the
worker's clock, so a restart of the worker, or a restart requested by an operator, resets the count.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from app import metrics
from app.worker.pipeline.piece import DeadLetter, Piece
from app.worker.status import DestinationStatus
from connectors.errors import DeadLetterLimitReached
from tables.journal_format import Entry
from tables.state.cursor import Cursor

HOUR = 3600.0


class DeadLetters:
    """The dead letters of one destination, over all its runs on this worker."""

    def __init__(
        self, limit: int, status: DestinationStatus, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._status = status
        self._clock = clock
        self._times: deque[float] = deque()

    def before(self, piece: Piece, _cursor: Cursor) -> Iterable[Entry]:
        """Raise DeadLetterLimitReached with the first row past the limit, if a piece exceeds it."""
        letters = piece.dead_letters
        if letters:
            self._admit(letters)
        return ()

    def _admit(self, letters: list[DeadLetter]) -> None:
        now = self._clock()
        while self._times and self._times[0] <= now - HOUR:
            self._times.popleft()
        remaining = max(0, self._limit - len(self._times))
        if len(letters) > remaining:
            first = letters[remaining]
            raise DeadLetterLimitReached(
                f"{self._limit} are allowed: {first.reason}",
                table=first.table,
                coordinates=first.coordinates,
                gtid=first.gtid,
                row=first.row,
            )

    def committed(self, piece: Piece, _cursor: Cursor) -> None:
        """Count the dead letters of a piece, and show them."""
        letters = piece.dead_letters
        if letters:
            self._times.extend([self._clock()] * len(letters))
            self._status.dead_letters.update(letter.table for letter in letters)
            self._status.last_dead_letter = letters[-1]
            metrics.DEAD_LETTERS.labels(self._status.name).inc(len(letters))
