"""The inlet of the stream: portions that come from elsewhere enter it here.

Invariant: a portion enters between two transactions of the source, at the first such position that is read
after it was handed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from app.pipeline.portions.portion import Portion
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk

Entering = Callable[[Coordinates], Portion]
"""Makes a portion, in the reader's thread, once the position is known at which it enters."""


class Inlet:
    """Filled by any thread, emptied by the reader's."""

    def __init__(self) -> None:
        self._waiting: deque[Entering] = deque()

    def hand_in(self, entering: Entering) -> None:
        """Let a portion enter, after those that were handed in before."""
        self._waiting.append(entering)

    def before(self, chunk: Chunk) -> Iterator[Portion]:
        """What enters before a chunk; nothing, where the chunk begins within a transaction."""
        while self._waiting and chunk.begins_between:
            yield self._waiting.popleft()(chunk.start)
