"""A chunk of the binlog as decoders get it: with what its last statement did to tables.

Invariant: the effect is found out once, before the chunk goes to a decoder, and by the order of the binlog.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.pipeline.statement_effect import Applied
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk


@dataclass(frozen=True, slots=True)
class CapturedChunk:
    """A portion of the stream that comes from the binlog."""

    chunk: Chunk
    effect: Applied | None = None
    """What the statement did with which the chunk ends."""

    @property
    def start(self) -> Coordinates:
        """Where its first event begins."""
        return self.chunk.start

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return self.chunk.size
