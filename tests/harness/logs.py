"""Logging as it was, after a test that has it configured."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logging_restored() -> Iterator[None]:
    """Give each logger its level, handlers and propagation back, and close what handlers were added.

    A PySpark logger that propagates nothing would else, through pytest, give its JSON format to ``caplog``'s
    handler for all tests that follow.
    """
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
