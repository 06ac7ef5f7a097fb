"""An error's traceback in the sink's log file."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from spark_sink import log
from spark_sink.settings import Log

HOSTILE = "t\nFORGED shop: RUNNING\x1b[31m\u202e"


@pytest.mark.usefixtures("logging_as_it_was")
def test_a_traceback_neither_forges_a_line_nor_controls_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "sink.log"
    log.configure(Log(file=file))
    try:
        try:
            raise ValueError(HOSTILE)
        except ValueError as error:
            raise KeyError(HOSTILE) from error
    except KeyError:
        logging.getLogger("spark_sink.test").exception("it fails")
    text = file.read_text()
    assert text.count("FORGED") == 2
    assert text.count("Traceback (most recent call last)") == 2
    for line in text.split("\n"):
        assert line.isprintable(), repr(line)
        assert not line.startswith("FORGED")
