"""The libraries' own lines are left out, unless somebody debugs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from app import log


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Leave the loggers as they were."""
    loggers = [logging.getLogger(name) for name in (None, "faust", "mode", "aiokafka")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


def test_a_library_logs_no_connection_and_no_service(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger().setLevel(logging.INFO)
    log.quiet_libraries()
    log.show_all_if_debugging()
    logging.getLogger("aiokafka.conn").error("a broker is away")
    logging.getLogger("faust.tables").info("a table")
    log.SERVICES.info("Starting...")
    logging.getLogger("app.run").info("ours")
    assert [record.message for record in caplog.records] == ["ours"]


def test_all_is_shown_to_who_debugs(caplog: pytest.LogCaptureFixture) -> None:
    log.quiet_libraries()
    logging.getLogger().setLevel(logging.DEBUG)
    log.show_all_if_debugging()
    logging.getLogger("aiokafka.conn").info("a broker is away")
    assert [record.message for record in caplog.records] == ["a broker is away"]
