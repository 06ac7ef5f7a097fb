"""The process's log as it was, though a test configures it and PySpark changes it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from _pytest.logging import LogCaptureHandler
from pyspark.logger import PySparkLogger

_add = PySparkLogger.addHandler


def keep_formats() -> None:
    """Have PySpark's loggers leave pytest's handlers their format, for as long as the process lives.

    Once a query has failed, its logger passes nothing on to the root. Pytest adds its handlers, which are those
    of all tests, to each such logger, and PySpark gives JSON to whatever handler is added.
    """

    def added(self: PySparkLogger, handler: logging.Handler) -> None:
        if isinstance(handler, LogCaptureHandler):
            logging.Logger.addHandler(self, handler)
        else:
            _add(self, handler)

    PySparkLogger.addHandler = added  # type: ignore[method-assign]


@contextmanager
def logging_restored() -> Iterator[None]:
    """Give each logger its level, handlers and propagation back, and close what handlers were added."""
    root = logging.getLogger()
    before = {each: (each.level, each.handlers[:], each.propagate) for each in [root, *_loggers()]}
    root.handlers = []  # what is configured closes those it finds
    try:
        yield
    finally:
        added = set()
        for each in [root, *_loggers()]:
            was = before.get(each, (logging.NOTSET, [], True))
            added |= set(each.handlers) - set(was[1])
            each.setLevel(was[0])
            each.handlers, each.propagate = was[1], was[2]
        for handler in added:
            handler.close()


def _loggers() -> list[logging.Logger]:
    known = logging.getLogger().manager.loggerDict.values()
    return [each for each in known if isinstance(each, logging.Logger)]
