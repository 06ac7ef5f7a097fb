"""The protocols of stages, which decoders run, and of decoders, which the reader uses.

Invariant: only ``number`` depends on other portions, and it is called in their order, wherever each is decoded;
so the output does not depend on the number of decoders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from app.worker.pipeline.decoders.stall_watch import STALL_SECONDS
from app.worker.pipeline.portions import Effect, Portion
from connectors.errors import AqueductError


class Decoded(Protocol):
    """A decoded portion, not yet numbered."""

    def number(self, state: Any, news: list[Any]) -> tuple[Any, list[Any]]:
        """Take the state after the previous portion; return the state after this one, and its news.

        ``news`` is what earlier portions announced, in order, without what this stage knows already because it
        received or announced it itself.
        """

    def encode(self) -> list[Any]:
        """Make the finished pieces, each a ``Piece``, in their order; called once, after ``number``."""


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


class Piece(Protocol):
    """The output of a stage; an error that it holds comes right after it, and ends the stream."""

    @property
    def error(self) -> AqueductError | None:
        """The error that ends the stream after this piece, if any."""


Deliver = Callable[[Any], bool]
"""Takes a piece, and may wait; returns False once no more is wanted."""
Fail = Callable[[AqueductError], None]
"""Takes the error that ends the stream; called once at most, after all pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on pending portions. There is room below a limit, so one portion may exceed it."""

    chunks_each: int = 2
    """Portions of one decoder: one in work and the next."""
    bytes_each: int = 8 * 1024 * 1024
    chunks: int = 64
    """Portions in all, including those whose pieces were not taken yet."""
    bytes: int = 32 * 1024 * 1024
    stall_seconds: float = STALL_SECONDS
    """Seconds until a decoder that has work and makes no progress is ended."""


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
