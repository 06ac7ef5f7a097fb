"""The inlet of the stream, where portions from outside the source enter.

Invariant: portions enter between two transactions of the source, in the order in which they were handed in. A
portion enters at the first such position that is read after it was handed in and that is not before its own
position. A waiting portion enters even if the source is idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from app.worker.pipeline.portions import Portion
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.replica import Bell

Entering = Callable[[Coordinates], Iterable[Portion]]
"""Makes one portion or several, in the reader's thread, once their position is known.

They enter directly after each other: the stream waits until all of them are made, however long that takes.
"""


class Inlet:
    """Filled by any thread, emptied by the reader's thread; see Interruption."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Entering, Coordinates | None]] = deque()
        self._bell = Bell()

    def hand_in(self, entering: Entering, *, not_before: Coordinates | None = None) -> None:
        """Add portions after those handed in earlier; they enter at ``not_before`` or later."""
        self._waiting.append((entering, not_before))
        self._bell.ring()

    def before(self, chunk: Chunk) -> Iterator[Iterable[Portion]]:
        """Yield what enters before a chunk, as handed in; nothing if the chunk begins within a transaction."""
        while self._waiting and chunk.begins_between:
            entering, least = self._waiting[0]
            if least is not None and chunk.start.order < least.order:
                return
            self._waiting.popleft()
            yield entering(chunk.start)

    @property
    def is_wanted(self) -> bool:
        """Whether a portion waits."""
        return bool(self._waiting)

    def fileno(self) -> int:
        """The descriptor that a new portion makes readable."""
        return self._bell.fileno()

    def noticed(self) -> None:
        """Make the descriptor unreadable."""
        self._bell.noticed()
