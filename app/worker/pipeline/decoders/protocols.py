"""The protocols of stages, which decoders run, and of decoders, which the reader uses; the error of a stage.

Invariant: only ``number`` depends on other portions, and it is called in their order, wherever each is decoded;
so the output does not depend on the number of decoders.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from app.worker.pipeline.portions import Effect, Portion
from connectors.errors import AqueductError, DecoderLost, MalformedEvent

log = logging.getLogger(__name__)


class Decoded(Protocol):
    """A decoded portion, not yet numbered."""

    def number(self, state: Any, news: list[Any]) -> tuple[Any, list[Any]]:
        """Take the state after the previous portion; return the state after this one, and its news.

        ``news`` is what earlier portions announced, in order, except for news that this stage has already
        received or has announced itself.
        """

    def encode(self) -> list[Any]:
        """Make the finished pieces in their order; called once, after ``number``.

        An error in the last piece takes effect right after that piece, and ends the stream.
        """


class Stage(Protocol):
    """Turns portions into pieces; made once in each decoder, and called by one thread.

    It may decode one more portion before it numbers and encodes an earlier one.
    """

    def decode(self, portion: Portion, learned: Sequence[Effect]) -> Decoded:
        """Do all work that needs no other portion.

        ``learned``: the effects of earlier portions that the stage does not know yet, in their order.
        """


class StageSpec(Protocol):
    """The parameters of a stage; it can be pickled, and its module imports no more than the stage needs."""

    def make(self) -> Stage:
        """Make the stage, in the process that runs it."""


Deliver = Callable[[Any], bool]
"""Takes a piece, and may wait; returns False once no more is wanted."""
Fail = Callable[[AqueductError], None]
"""Takes the error that ends the stream; called once at most, after all pieces."""


class Decoders(Protocol):
    """Any number of decoders, as the reader's thread sees them."""

    def put(self, portion: Portion) -> bool:
        """Hand over a portion, waiting for room; False once no more is wanted."""

    def finish(self, error: AqueductError) -> None:
        """End the stream; the error comes after all pieces."""

    def idle(self) -> bool:
        """Whether a decoder has no work, so that a portion put now is decoded at once."""

    def close(self) -> None:
        """End everything at once, from any thread; a waiting ``put`` returns."""


def named(error: BaseException, portion: Portion) -> AqueductError:
    """Return the error with which a portion ends the run."""
    if isinstance(error, AqueductError):
        return error
    log.debug("a stage failed", exc_info=error)
    if isinstance(error, MemoryError):
        return DecoderLost("out of memory", chunk=portion.start, bytes=portion.size)
    return MalformedEvent(f"{type(error).__name__}: {error}", chunk=portion.start)
