"""What goes wrong in a stage, by name.

The law: an error of the tree stays as it is; any other becomes one, and only a debug log sees its traceback.
"""

from __future__ import annotations

import logging

from connectors.errors import AqueductError, DecoderLost, MalformedEvent
from connectors.mysql.stream.chunk import Chunk

log = logging.getLogger(__name__)


def named(error: BaseException, chunk: Chunk) -> AqueductError:
    """The error with which a chunk ends the run."""
    if isinstance(error, AqueductError):
        return error
    log.debug("a stage failed", exc_info=error)
    if isinstance(error, MemoryError):
        return DecoderLost("out of memory", chunk=chunk.start, bytes=chunk.size)
    return MalformedEvent(f"{type(error).__name__}: {error}", chunk=chunk.start)
