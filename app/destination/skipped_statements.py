"""Statements that were skipped, as people see them: counted, logged once for each table, listed on /status.

Invariant: only what is committed is counted, so that a run which begins again counts nothing twice.
"""

from __future__ import annotations

import logging
from collections import Counter

from app import metrics
from app.service.status import DestinationStatus

log = logging.getLogger(__name__)

_MOST_TABLES = 100
"""Of which the status page lists each; statements on others are only counted."""


def note(status: DestinationStatus, statements: Counter[tuple[str, str]]) -> None:
    """Count the statements of a piece that is committed."""
    if not statements:
        return
    metrics.STATEMENTS_PASSED.labels(status.name).inc(statements.total())
    shown = status.statements_passed
    for name, count in statements.items():
        if name not in shown:
            if len(shown) >= _MOST_TABLES:
                continue
            log.warning(
                "%s: statements on %s are passed by: it is not captured, and they change no other table",
                status.name,
                ".".join(name),
            )
        shown[name] += count
