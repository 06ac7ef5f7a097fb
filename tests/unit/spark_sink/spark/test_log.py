"""What the sink writes to its log of an error that has a traceback."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from spark_sink.settings.model import Log
from spark_sink.spark import log

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


_FAILED_QUERY = """
from types import SimpleNamespace
from pyspark.errors import ArithmeticException
from spark_sink.spark import log
from spark_sink.settings.model import Log

log.configure(Log())
for kind in ("SQL", "DataFrame"):
    context = SimpleNamespace(
        contextType=lambda: SimpleNamespace(name=kind), callSite=lambda: "batch.py:7", fragment=lambda: "divide"
    )
    error = ArithmeticException("[DIVIDE_BY_ZERO] by zero", "DIVIDE_BY_ZERO", contexts=[context])
    try:
        raise error
    except ArithmeticException:
        error._log_exception()  # as PySpark does before it raises what the JVM answered
"""


def test_the_error_of_a_query_with_a_context_is_what_is_raised() -> None:
    # In a process of its own: the first to make PySpark's loggers decides of which class they are.
    done = subprocess.run(
        [sys.executable, "-c", _FAILED_QUERY], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
