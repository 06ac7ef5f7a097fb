"""Starts any number of decoder processes, or an inline decoder.

Invariant: the number of decoders affects only speed.
"""

from __future__ import annotations

from typing import Any

from app.failpoints import point
from app.worker.pipeline.decoders.errors import named
from app.worker.pipeline.decoders.pool import Pool
from app.worker.pipeline.decoders.protocols import Decoders, Deliver, Fail, Limits, Stage, StageSpec
from app.worker.pipeline.portions import Effect, Portion
from connectors.errors import AqueductError


def start(
    spec: StageSpec,
    *,
    count: int,
    state: Any,
    deliver: Deliver,
    fail: Fail,
    name: str = "",
    limits: Limits | None = None,
) -> Decoders:
    """Start ``count`` processes, or with 0 decode in the thread that puts.

    ``state`` is that before the first portion; ``name`` appears in process titles and errors. ``deliver`` and
    ``fail`` are called by one thread, in order. Raises DecoderLost if no process can be started and, with no
    processes, any error of ``spec.make()``.
    """
    if count == 0:
        return Inline(spec.make(), state=state, deliver=deliver, fail=fail)
    return Pool(
        spec, count=count, state=state, deliver=deliver, fail=fail, name=name, limits=limits
    )


class Inline:
    """Runs the stage in the thread that puts.

    Invariant: the pieces are the same as with any number of decoders.
    """

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
