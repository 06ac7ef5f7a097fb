"""The libraries' own lines are left out, unless somebody debugs; a message of ours is one line."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from app import log
from connectors.errors import Faults, PreflightError


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Leave the loggers as they were."""
    loggers = [logging.getLogger(name) for name in (None, "faust", "mode", "aiokafka")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.fixture
def escaped() -> Iterator[None]:
    """Records as a worker makes them."""
    before = logging.getLogRecordFactory()
    log.escape_values()
    yield
    logging.setLogRecordFactory(before)


@pytest.mark.usefixtures("escaped")
def test_a_value_neither_ends_its_line_nor_controls_a_terminal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, theirs = logging.getLogger("tables.effect"), logging.getLogger("faust.tables")
    ours.warning("%s of %d: %r", "t\nFORGED\x1b", 3, ValueError("\u202e"))
    ours.warning("%(name)s", {"name": "t\r"})
    ours.warning("%s", PreflightError(Faults.listed("2 faults:", ["a\n", "b"])))
    theirs.warning("%s", "a table\nof theirs")
    messages = [record.getMessage() for record in caplog.records]
    assert messages[:2] == ["t\\nFORGED\\x1b of 3: ValueError('\\u202e')", "t\\r"]
    assert "2 faults:\n  - a\\n\n  - b\n" in messages[2]
    assert messages[3] == "a table\nof theirs"


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
