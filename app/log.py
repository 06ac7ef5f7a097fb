"""What of the libraries' own logging is shown: warnings of Faust, nothing of aiokafka.

Invariant: what goes wrong is reported once by us, with what to do; the libraries repeat it for each connection
and topic. With ``faust worker -l debug`` all of theirs is shown.
"""

from __future__ import annotations

import logging

_LEVELS = {
    "faust": logging.WARNING,
    "mode": logging.WARNING,
    # Thousands of lines a minute while a broker is away, and a warning for each topic that is new.
    "aiokafka": logging.CRITICAL,
}


SERVICES = logging.getLogger("mode.aqueduct")
"""For services of ours: mode logs each start and stop of one by its own logger."""


def quiet_libraries() -> None:
    """Set the levels of the libraries' loggers, before their first line."""
    for name, level in _LEVELS.items():
        logging.getLogger(name).setLevel(level)


def show_all_if_debugging() -> None:
    """Undo it where the worker was started with ``-l debug``; the level is known once logging is set up."""
    if logging.getLogger().getEffectiveLevel() <= logging.DEBUG:
        for name in _LEVELS:
            logging.getLogger(name).setLevel(logging.NOTSET)
