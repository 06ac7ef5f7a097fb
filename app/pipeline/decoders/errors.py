"""What goes wrong in a stage, by name.

The law: an error of the tree stays as it is; any other becomes one, and only a debug log sees its traceback.
"""

from __future__ import annotations

import logging

from app.pipeline.portions.portion import Portion
from connectors.errors import AqueductError, DecoderLost, MalformedEvent

log = logging.getLogger(__name__)


def named(error: BaseException, portion: Portion) -> AqueductError:
    """The error with which a portion ends the run."""
    if isinstance(error, AqueductError):
        return error
    log.debug("a stage failed", exc_info=error)
    if isinstance(error, MemoryError):
        return DecoderLost("out of memory", chunk=portion.start, bytes=portion.size)
    return MalformedEvent(f"{type(error).__name__}: {error}", chunk=portion.start)
