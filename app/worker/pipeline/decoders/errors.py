"""Errors of a stage, mapped to the error tree.

Invariant: an error of the tree is kept; any other becomes one, with its traceback in the debug log only.
"""

from __future__ import annotations

import logging

from app.worker.pipeline.portions import Portion
from connectors.errors import AqueductError, DecoderLost, MalformedEvent

log = logging.getLogger(__name__)


def named(error: BaseException, portion: Portion) -> AqueductError:
    """Return the error with which a portion ends the run."""
    if isinstance(error, AqueductError):
        return error
    log.debug("a stage failed", exc_info=error)
    if isinstance(error, MemoryError):
        return DecoderLost("out of memory", chunk=portion.start, bytes=portion.size)
    return MalformedEvent(f"{type(error).__name__}: {error}", chunk=portion.start)
