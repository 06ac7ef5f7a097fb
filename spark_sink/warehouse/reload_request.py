"""A reload that a command requests of the sink that runs, or of the next that does.

Invariant: a request that is not answered in time stays in the log, and a sink carries it out later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from spark_sink.errors import ReloadRefused
from spark_sink.warehouse.waiting_tables import Request, Waits

_log = logging.getLogger(__name__)
_SECONDS = 1.0


def request_reload(
    waits: Waits, request: Request, *, timeout: float, stopped: Callable[[float], bool]
) -> bool:
    """Requests it and waits for the answer; returns whether one came before a stop. Raises ReloadRefused."""
    name = ".".join(request.name)
    waits.ask(request)
    _log.info("reload requested table=%s; waiting for the sink", name)
    deadline = time.monotonic() + timeout
    while not stopped(_SECONDS):
        answer = waits.tables.get(request.name) if waits.refresh() else None
        if answer is not None and answer.answered == request.number:
            if answer.error:
                raise ReloadRefused(f"{answer.error}: {answer.reason}", advice=answer.action)
            _log.info("table reloaded table=%s", name)
            return True
        if time.monotonic() >= deadline:
            raise ReloadRefused(
                f"no sink has reloaded {name} within {timeout} s",
                advice="The request is kept: a running sink or the next start carries it out; see status",
            )
    return False
