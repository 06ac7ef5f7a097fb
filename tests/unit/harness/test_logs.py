"""What one test does to the log, and the next one finds."""

from __future__ import annotations

import logging

import pytest
from pyspark.logger import PySparkLogger

from tests.harness.logs import keep_formats, logging_restored


def test_pytest_keeps_its_format_though_it_adds_its_handler_to_a_logger_of_pyspark(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keep_formats()
    logger, before = PySparkLogger("of a failed query"), caplog.handler.formatter
    logger.addHandler(caplog.handler)
    assert caplog.handler.formatter is before
    other = logging.StreamHandler()
    logger.addHandler(other)
    assert other.formatter is not None


def test_what_is_configured_is_undone() -> None:
    root, before = logging.getLogger(), logging.getLogger().handlers[:]
    with logging_restored():
        handler = logging.NullHandler()
        logging.basicConfig(handlers=[handler], level=logging.CRITICAL, force=True)
        logging.getLogger("made within").propagate = False
        assert root.handlers == [handler]
    assert root.handlers == before
    assert root.level != logging.CRITICAL
    assert logging.getLogger("made within").propagate
