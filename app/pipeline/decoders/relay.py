"""What decoders must know of each other's portions: the state, from one to the next, and news and effects.

Invariant: the state is with one decoder at a time, in the order of the portions; each decoder gets each effect
before a later portion, and all news with its next turn. Nothing here locks: the pool does.
"""

from __future__ import annotations

import pickle
from typing import Any

from app.pipeline.decoders.messages import Numbered, PickledState
from app.pipeline.decoders.process import DecoderProcess
from app.pipeline.decoders.protocols import Limits
from app.pipeline.portions.portion import Effect


class Worker:
    """A decoder as the pool knows it."""

    def __init__(self, process: DecoderProcess) -> None:
        self.process = process
        self.ready = False
        self.sizes: dict[int, int] = {}
        """Of the portions it was given and has not finished."""
        self.news: list[bytes] = []
        """What others announced since its last turn."""
        self.learned: list[Effect] = []
        """The effects of portions since it was last given one."""
        self.heard = 0
        """How many messages came from it."""

    def takes(self, limits: Limits) -> bool:
        """Whether it may be given another portion."""
        return (
            self.ready
            and len(self.sizes) < limits.chunks_each
            and sum(self.sizes.values()) < limits.bytes_each
        )


class Relay:
    """Passes it on."""

    def __init__(self, workers: list[Worker], state: Any) -> None:
        self._workers = workers
        self._owners: dict[int, Worker] = {}
        """Who numbers a portion, until the state is with them."""
        self._state: tuple[int, bytes] | None = (0, pickle.dumps(state, protocol=5))
        """Before a portion that nobody was given yet."""

    def give(self, number: int, worker: Worker, effect: Effect | None) -> tuple[Effect, ...]:
        """Note who decodes a portion, and its effect; what that decoder must know of earlier ones."""
        self._owners[number] = worker
        learned, worker.learned = tuple(worker.learned), []
        if effect is not None:
            for each in self._workers:
                each.learned.append(effect)
        return learned

    def numbered(self, worker: Worker, message: Numbered) -> None:
        """Take the state back, and what is announced to the others."""
        if message.news is not None:
            for other in self._workers:
                if other is not worker:
                    other.news.append(message.news)
        self._state = (message.number + 1, message.state)

    def turn(self) -> tuple[Worker, PickledState] | None:
        """The state and who is to have it, once both are known."""
        if self._state is None or self._state[0] not in self._owners:
            return None
        (number, state), self._state = self._state, None
        owner = self._owners.pop(number)
        news, owner.news = owner.news, []
        return owner, PickledState(number, state, news)
