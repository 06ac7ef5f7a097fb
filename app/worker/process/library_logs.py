"""The log: the levels of the libraries' loggers, and the escaping of values in log lines.

Invariant: we report an error once, with what to do; the libraries would repeat it for each
connection and topic. With ``faust worker -l debug`` all of their lines are shown. Neither a value in
a message of ours nor an error's message in a traceback can end its line or control a terminal,
whatever a table is named.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from connectors.errors import AqueductError
from wire.text import printed, traceback_text

_OWN_PACKAGES = ("app", "connectors", "tables")

_LEVELS = {
    "faust": logging.WARNING,
    "mode": logging.WARNING,
    # Thousands of lines a minute while a broker is away, and a warning for each topic that is new.
    "aiokafka": logging.CRITICAL,
}


SERVICES = logging.getLogger("mode.aqueduct")
"""The logger of our services: mode logs each start and stop of a service with that service's logger."""


class _Traced(logging.LogRecord):
    """A record with escaped error messages in its traceback, whichever handler formats it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        error = self.exc_info[1] if self.exc_info else None
        if error is not None:
            self.exc_text = traceback_text(error, escaped=AqueductError)


class _Line(_Traced):
    """A record with escaped values in its message."""

    def getMessage(self) -> str:  # noqa: N802 - logging's own name
        """Return the message with its values."""
        text = str(self.msg)
        if isinstance(self.args, Mapping):
            return text % {name: _shown(value) for name, value in self.args.items()}
        return text % tuple(map(_shown, self.args)) if self.args else text


class _Shown:
    """A value whose text is escaped."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return printed(self._value)

    def __repr__(self) -> str:
        return printed(repr(self._value))


def _shown(value: object) -> object:
    # An error of ours escapes its own parts, and a list of faults keeps its lines.
    if value is None or isinstance(value, int | float | AqueductError):
        return value
    return _Shown(value)


def escape_values() -> None:
    """Escape values in records of our own loggers, and error messages in all tracebacks, for all handlers."""
    logging.setLogRecordFactory(_record)


def _record(name: str, *args: Any, **kwargs: Any) -> logging.LogRecord:
    kind = _Line if name.partition(".")[0] in _OWN_PACKAGES else _Traced
    return kind(name, *args, **kwargs)


def quiet_libraries() -> None:
    """Set the levels of the libraries' loggers, before their first line."""
    for name, level in _LEVELS.items():
        logging.getLogger(name).setLevel(level)
    logging.getLogger("asyncio").addFilter(_is_no_closed_connection)


def _is_no_closed_connection(record: logging.LogRecord) -> bool:
    """Whether to keep a line; unless debugging, ``Unclosed AIOKafkaConnection`` is dropped.

    Python closes such a connection because its request was given up.
    """
    return not (
        str(record.msg).startswith("Unclosed AIOKafkaConnection")
        and logging.getLogger("aiokafka").getEffectiveLevel() > logging.DEBUG
    )


def show_all_if_debugging() -> None:
    """Show all lines of the libraries if the level is debug; call it once logging is set up."""
    if logging.getLogger().getEffectiveLevel() <= logging.DEBUG:
        for name in _LEVELS:
            logging.getLogger(name).setLevel(logging.NOTSET)
