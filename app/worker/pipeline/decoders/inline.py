"""Decoding in the calling thread, for a small source and for tests.

Invariant: the pieces are the same as with any number of decoders.
"""

from __future__ import annotations

from typing import Any

from app.failpoints import point
from app.worker.pipeline.decoders.errors import named
from app.worker.pipeline.decoders.protocols import Deliver, Fail, Stage
from app.worker.pipeline.portions.portion import Effect, Portion
from connectors.errors import AqueductError


class Inline:
    """Runs the stage in the thread that puts."""

    def __init__(self, stage: Stage, *, state: Any, deliver: Deliver, fail: Fail) -> None:
        self._stage = stage
        self._state = state
        self._deliver = deliver
        self._fail = fail
        self._over = False
        self._learned: tuple[Effect, ...] = ()
        """The effect of the previous portion."""

    def put(self, portion: Portion) -> bool:
        """Decode and deliver."""
        if self._over:
            return False
        learned = self._learned
        self._learned = () if portion.effect is None else (portion.effect,)
        point("decode.before")
        try:
            decoded = self._stage.decode(portion, learned)
            # The only stage has announced all versions itself, so there is no news.
            self._state, _ = decoded.number(self._state, [])
            pieces = decoded.encode()
        except Exception as error:
            self.finish(named(error, portion))
            return False
        point("decode.after")
        for piece in pieces:
            if not self._deliver(piece):
                self._over = True
            elif piece.error is not None:
                self.finish(piece.error)
            if self._over:
                break
        return not self._over

    def finish(self, error: AqueductError) -> None:
        """Report why nothing more comes."""
        if not self._over:
            self._over = True
            self._fail(error)

    def idle(self) -> bool:
        """True: nothing is ever under way between two calls."""
        return True

    def close(self) -> None:
        """Take no more."""
        self._over = True
