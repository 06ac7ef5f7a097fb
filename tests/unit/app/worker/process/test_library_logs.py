"""Log lines of libraries are dropped except for debugging; a message of ours is one line."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from app.worker.process import library_logs
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
    library_logs.escape_values()
    yield
    logging.setLogRecordFactory(before)


@pytest.mark.usefixtures("escaped")
def test_a_value_neither_ends_its_line_nor_controls_a_terminal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, theirs = (
        logging.getLogger("tables.history.resolved_statement"),
        logging.getLogger("faust.tables"),
    )
    ours.warning("%s of %d: %r", "t\nFORGED\x1b", 3, ValueError("\u202e"))
    ours.warning("%(name)s", {"name": "t\r"})
    ours.warning("%s", PreflightError(Faults.listed("2 faults:", ["a\n", "b"])))
    theirs.warning("%s", "a table\nof theirs")
    messages = [record.getMessage() for record in caplog.records]
    assert messages[:2] == ["t\\nFORGED\\x1b of 3: ValueError('\\u202e')", "t\\r"]
    assert "2 faults:\n  - a\\n\n  - b\n" in messages[2]
    assert messages[3] == "a table\nof theirs"


HOSTILE = "t\nFORGED shop: RUNNING\x1b[31m\u202e"


def raised() -> None:
    try:
        try:
            raise ValueError(HOSTILE)
        except ValueError as error:
            error.add_note(HOSTILE)
            raise ExceptionGroup("of two", [KeyError(HOSTILE), OSError(HOSTILE)]) from error
    finally:
        logging.getLogger("elsewhere")


@pytest.mark.usefixtures("escaped")
@pytest.mark.parametrize(
    "logger", ["app.worker.destination.source_agent", "faust.tables", "asyncio"]
)
def test_a_traceback_neither_forges_a_line_nor_controls_a_terminal(
    caplog: pytest.LogCaptureFixture, logger: str
) -> None:
    try:
        raised()
    except ExceptionGroup:
        logging.getLogger(logger).exception("it fails")
    (record,) = caplog.records
    text = logging.Formatter("%(message)s").format(record)
    assert "The above exception was the direct cause" in text
    assert text.count("Traceback (most recent call last)") == 2
    assert "in raised" in text
    assert text.count("FORGED") == 4
    for line in text.split("\n"):
        assert line.isprintable(), repr(line)
        assert not line.startswith("FORGED")


@pytest.mark.usefixtures("escaped")
def test_a_list_of_faults_keeps_its_lines_in_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("app.worker.destination.source_agent").error(
        "it fails", exc_info=PreflightError(Faults.listed("2 faults:", ["a\n", "b"]))
    )
    (record,) = caplog.records
    assert "2 faults:\n  - a\\n\n  - b\n" in logging.Formatter().format(record)


def test_a_library_logs_no_connection_and_no_service(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger().setLevel(logging.INFO)
    library_logs.quiet_libraries()
    library_logs.show_all_if_debugging()
    logging.getLogger("aiokafka.conn").error("a broker is away")
    logging.getLogger("asyncio").error("Unclosed AIOKafkaConnection\nconn: <AIOKafkaConnection>")
    logging.getLogger("faust.tables").info("a table")
    library_logs.SERVICES.info("Starting...")
    logging.getLogger("app.worker.destination.source_agent").info("ours")
    assert [record.message for record in caplog.records] == ["ours"]


def test_all_is_shown_to_who_debugs(caplog: pytest.LogCaptureFixture) -> None:
    library_logs.quiet_libraries()
    logging.getLogger().setLevel(logging.DEBUG)
    library_logs.show_all_if_debugging()
    logging.getLogger("aiokafka.conn").info("a broker is away")
    logging.getLogger("asyncio").error("Unclosed AIOKafkaConnection")
    shown = [record.message for record in caplog.records]
    assert shown == ["a broker is away", "Unclosed AIOKafkaConnection"]
