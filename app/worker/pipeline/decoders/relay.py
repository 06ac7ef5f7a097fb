"""The relay between decoders: the state from one to the next, news and effects.

Invariant: one decoder at a time has the state, in the order of the portions; each decoder gets each effect
before a later portion, and all news with its next turn. Nothing here locks: the pool does.
"""

from __future__ import annotations

import pickle
from typing import Any

from app.worker.pipeline.decoders.messages import Numbered, PickledState
from app.worker.pipeline.decoders.process import DecoderProcess
from app.worker.pipeline.decoders.protocols import Limits
from app.worker.pipeline.portions.portion import Effect


class Worker:
    """A decoder as the pool knows it."""

    def __init__(self, process: DecoderProcess) -> None:
        self.process = process
        self.ready = False
        self.sizes: dict[int, int] = {}
        """Sizes of its unfinished portions, by number."""
        self.news: list[bytes] = []
        """News of others since its last turn."""
        self.learned: list[Effect] = []
        """The effects of portions since its last one."""
        self.messages_received = 0
        """Count of messages received from it."""

    def takes(self, limits: Limits) -> bool:
        """Whether it may be given another portion."""
        return (
            self.ready
            and len(self.sizes) < limits.chunks_each
            and sum(self.sizes.values()) < limits.bytes_each
        )


class Relay:
    """Passes state, news and effects between decoders."""

    def __init__(self, workers: list[Worker], state: Any) -> None:
        self._workers = workers
        self._owners: dict[int, Worker] = {}
        """The decoder of each portion, until it has the state."""
        self._state: tuple[int, bytes] | None = (0, pickle.dumps(state, protocol=5))
        """The number of the next portion and the state before it."""

    def give(self, number: int, worker: Worker, effect: Effect | None) -> tuple[Effect, ...]:
        """Record the decoder of a portion, and its effect; return earlier effects that the decoder lacks."""
        self._owners[number] = worker
        learned, worker.learned = tuple(worker.learned), []
        if effect is not None:
            for each in self._workers:
                each.learned.append(effect)
        return learned

    def numbered(self, worker: Worker, message: Numbered) -> None:
        """Take back the state, and the news for the others."""
        if message.news is not None:
            for other in self._workers:
                if other is not worker:
                    other.news.append(message.news)
        self._state = (message.number + 1, message.state)

    def turn(self) -> tuple[Worker, PickledState] | None:
        """Return the next decoder and the state for it, once both are known."""
        if self._state is None or self._state[0] not in self._owners:
            return None
        (number, state), self._state = self._state, None
        owner = self._owners.pop(number)
        news, owner.news = owner.news, []
        return owner, PickledState(number, state, news)
