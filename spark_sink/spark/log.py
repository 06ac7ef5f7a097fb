"""The sink's log: plain lines on the console, details in a file.

Invariant: the console never has a traceback, and no line has row data or a secret. A message is one line,
whatever a name contains.
"""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

from pyspark.logger import PySparkLogger

from spark_sink.settings.model import Log
from spark_sink.text.secrets import hidden
from wire.text import printed, traceback_text

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
# These loggers write tracebacks of errors that the sink itself reports, in one line.
_NOISY = ("py4j", "pyspark")
# PySpark logs the context of a failed query to these loggers, with arguments that only its own logger class
# takes. An ordinary logger of that name would raise TypeError in place of the query's error.
_NOISY_OF_QUERIES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class _Lines(logging.Formatter):
    """Escapes invisible characters of a message; a traceback in the file keeps a line for each frame."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return printed(hidden(super().formatMessage(record)))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's own name
        return hidden(traceback_text(ei[1]) if ei[1] is not None else super().formatException(ei))


class _ConsoleLines(_Lines):
    """The same without tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        bare = copy.copy(record)
        bare.exc_info = bare.exc_text = bare.stack_info = None
        return super().format(bare)


def _is_of_sink(record: logging.LogRecord) -> bool:
    """Whether py4j did not log a record as the root logger, as it does when the JVM ends during a call."""
    return record.name != "root" or Path(record.pathname).parent.name != "py4j"


def configure(log: Log) -> None:
    """Set up the root logger."""
    console = logging.StreamHandler()
    console.setLevel(log.level.upper())
    console.setFormatter(_ConsoleLines(_FORMAT))
    console.addFilter(_is_of_sink)
    handlers: list[logging.Handler] = [console]
    if log.file:
        details = logging.FileHandler(log.file)
        details.setLevel(logging.DEBUG)
        details.setFormatter(_Lines(_FORMAT))
        handlers.append(details)
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
    logging.getLogger("spark_sink").setLevel(logging.DEBUG)
    for noisy in (
        *map(logging.getLogger, _NOISY),
        *map(PySparkLogger.getLogger, _NOISY_OF_QUERIES),
    ):
        noisy.setLevel(logging.WARNING)
        noisy.handlers = [details] if log.file else [logging.NullHandler()]
        noisy.propagate = False
