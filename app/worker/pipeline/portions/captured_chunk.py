"""A chunk of the binlog as decoders get it, with the effect of its last statement on tables.

Invariant: the effect is determined once, in binlog order, before the chunk goes to a decoder.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.worker.pipeline.statement_effect import Applied
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk


@dataclass(frozen=True, slots=True)
class CapturedChunk:
    """A portion of the stream that comes from the binlog."""

    chunk: Chunk
    effect: Applied | None = None
    """The effect of the statement at the end of the chunk."""

    @property
    def start(self) -> Coordinates:
        """The start of its first event."""
        return self.chunk.start

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.chunk.size
