"""The sink's log: plain lines on the console, details in a file.

Invariant: the console never has a traceback, and no line has row data. A message is one line, whatever a name
contains.
"""

from __future__ import annotations

import logging
from typing import Any

from spark_sink.settings import Log
from spark_sink.text.printable import printed
from spark_sink.text.tracebacks import traceback_text

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
# They write tracebacks of errors that the sink reports itself, in one line.
_NOISY = ("py4j", "pyspark", "SQLQueryContextLogger", "DataFrameQueryContextLogger")


class _Lines(logging.Formatter):
    """Escapes what is not visible in a message; a traceback in the file keeps its frames' lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return printed(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's own name
        return traceback_text(ei[1]) if ei[1] is not None else super().formatException(ei)


def configure(log: Log) -> None:
    """Sets up the root logger."""
    console = logging.StreamHandler()
    console.setLevel(log.level.upper())
    handlers: list[logging.Handler] = [console]
    if log.file:
        details = logging.FileHandler(log.file)
        details.setLevel(logging.DEBUG)
        handlers.append(details)
    for handler in handlers:
        handler.setFormatter(_Lines(_FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
    logging.getLogger("spark_sink").setLevel(logging.DEBUG)
    for name in _NOISY:
        noisy = logging.getLogger(name)
        noisy.setLevel(logging.WARNING)
        noisy.handlers = [details] if log.file else [logging.NullHandler()]
        noisy.propagate = False
