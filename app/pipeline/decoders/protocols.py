"""What decoders run, and how they are met from outside.

Invariant: only ``number`` knows of other portions, and it is called in their order, wherever each is decoded;
so what comes out does not depend on how many decoders there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from app.pipeline.decoders.stall_watch import STALL_SECONDS
from app.pipeline.portions.portion import Effect, Portion
from connectors.errors import AqueductError


class Decoded(Protocol):
    """A portion whose rows are understood, but not yet numbered."""

    def number(self, state: Any, news: list[Any]) -> tuple[Any, list[Any]]:
        """Take the state after the portion before; give the state after this one, and what it announces.

        ``news`` is what the portions before have announced, in order, without what this stage knows already:
        it was handed in before, or this stage announced it itself.
        """

    def encode(self) -> list[Any]:
        """Make the finished pieces, each a ``Piece``, in their order; called once, after ``number``."""


class Stage(Protocol):
    """What turns portions into pieces; made once in each decoder, and called by one thread.

    It may decode one more portion before it numbers and encodes an earlier one.
    """

    def decode(self, portion: Portion, learned: Sequence[Effect]) -> Decoded:
        """Do all that needs no other portion.

        ``learned``: the effects of the portions before that it does not know yet, in their order.
        """


class StageSpec(Protocol):
    """All that a stage is made of; it can be pickled, and its module imports no more than the stage needs."""

    def make(self) -> Stage:
        """Make the stage, in the process that it is to run in."""


class Piece(Protocol):
    """What comes out; an error that it holds comes right after it, and is the end."""

    @property
    def error(self) -> AqueductError | None:
        """Why nothing follows, if nothing does."""


Deliver = Callable[[Any], bool]
"""Takes a piece, and may wait; False when nobody wants it any more."""
Fail = Callable[[AqueductError], None]
"""Takes the error that is the end; called once at most, after all pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may be under way. Room is what lies below a limit, so one portion may go beyond it."""

    chunks_each: int = 2
    """One to work on and one that is there already when it is done."""
    bytes_each: int = 8 * 1024 * 1024
    chunks: int = 64
    """In all, those included whose pieces wait for their turn or were not yet taken."""
    bytes: int = 32 * 1024 * 1024
    stall_seconds: float = STALL_SECONDS
    """Until a decoder that has work and does nothing is ended."""


class Decoders(Protocol):
    """Any number of decoders, as the reader's thread sees them."""

    def put(self, portion: Portion) -> bool:
        """Hand a portion over, waiting for room; False when nobody wants it any more."""

    def finish(self, error: AqueductError) -> None:
        """Nothing more comes, and why; it comes after all pieces."""

    def idle(self) -> bool:
        """Whether a decoder has nothing to do: a portion that is put now is worked on at once."""

    def close(self) -> None:
        """End everything at once, from any thread; a waiting ``put`` goes on."""
