"""Log lines of aiokafka about the clients that a subscriber uses: shown only while debugging.

aiokafka repeats one fault for each request: 200 lines in five seconds without a broker, and errors at the
first start on a new cluster, whose topic of offsets is made only then. A subscriber reports by its own logger
what concerns its program.

Invariant: lines about other clients of the same process are not touched.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

_OURS = ContextVar("aqueduct_client", default=False)
"""Whether a subscriber's request runs now; the tasks that aiokafka starts within it inherit that."""
_OWN = logging.getLogger("aqueduct_client")


def _is_shown(record: logging.LogRecord) -> bool:
    return not _OURS.get() or record.levelno >= logging.CRITICAL or _OWN.isEnabledFor(logging.DEBUG)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide aiokafka's lines about what begins within the block."""
    _filter_loggers()
    token = _OURS.set(True)
    try:
        yield
    finally:
        _OURS.reset(token)


@cache
def _filter_loggers() -> None:
    """Filter each of aiokafka's loggers: one of them does not see the lines of those below it."""
    for name, one in list(logging.root.manager.loggerDict.items()):
        if name.partition(".")[0] == "aiokafka" and isinstance(one, logging.Logger):
            one.addFilter(_is_shown)
