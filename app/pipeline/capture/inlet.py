"""The inlet of the stream, where portions from outside the source enter.

Invariant: a portion enters between two transactions of the source, at the first such position read after it
was handed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from app.pipeline.portions.portion import Portion
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk

Entering = Callable[[Coordinates], Portion]
"""Makes a portion, in the reader's thread, once its position is known."""


class Inlet:
    """Filled by any thread, emptied by the reader's."""

    def __init__(self) -> None:
        self._waiting: deque[Entering] = deque()

    def hand_in(self, entering: Entering) -> None:
        """Add a portion after those handed in earlier."""
        self._waiting.append(entering)

    def before(self, chunk: Chunk) -> Iterator[Portion]:
        """Yield the portions that enter before a chunk; none if the chunk begins within a transaction."""
        while self._waiting and chunk.begins_between:
            yield self._waiting.popleft()(chunk.start)
