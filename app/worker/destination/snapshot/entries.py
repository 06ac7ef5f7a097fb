"""Portions that were handed in, until the transaction of each has committed.

Invariant: a portion's owner is notified only after the commit, and receives the cursor after it: all
transactions up to that cursor are published.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from app.worker.pipeline.capture.reader_thread import Entering, Inlet
from app.worker.pipeline.piece import Entered, Piece
from connectors.mysql.position import Coordinates
from tables.journal_format import Entry
from tables.state.cursor import Cursor


@dataclass(frozen=True, slots=True)
class Committed:
    """A portion whose transaction has committed."""

    entered: Entered
    cursor: Cursor
    """The cursor after the commit."""


class Entries:
    """The portions of one run; a participant of its commits."""

    def __init__(self) -> None:
        self._inlet: Inlet | None = None
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Committed]] = {}
        self._rows: Counter[int] = Counter()
        """Rows committed so far of each number, while more portions with that number follow."""

    def open(self, inlet: Inlet) -> None:
        """Hand portions in here from now on."""
        self._inlet = inlet

    def number(self) -> int:
        """A number for a portion, unique in the run."""
        return next(self._numbers)

    def hand_in(
        self, number: int, entering: Entering, *, not_before: Coordinates | None = None
    ) -> asyncio.Future[Committed]:
        """Hand in a portion with this number; the result is set once it is committed.

        If several portions have this number, the result is set once the last one is committed, with the rows of
        all, or once one of them is refused.
        """
        assert self._inlet is not None, "open() comes first"
        future: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._inlet.hand_in(entering, not_before=not_before)
        return future

    def before(self, _piece: Piece, _cursor: Cursor, /) -> Iterable[Entry]:
        """Return no records: each portion has its own."""
        return ()

    def committed(self, piece: Piece, cursor: Cursor, /) -> None:
        """Report to the owners of a piece's portions."""
        for entered in piece.entered:
            if not entered.is_last and entered.refused is None:
                self._rows[entered.id] += entered.rows
                continue
            future = self._waiting.pop(entered.id, None)
            rows = entered.rows + self._rows.pop(entered.id, 0)
            if future is not None and not future.done():
                future.set_result(Committed(entered._replace(rows=rows), cursor))
