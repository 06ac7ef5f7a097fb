"""Limits on reading existing rows: a rate, and only while the source has capacity to spare.

Invariant: a read begins only within the limits. A read that waits ends within a second after its connection
is closed. Nothing else waits for a read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymysql

from connectors.mysql.server.facts import REPLICA_STATUS

log = logging.getLogger(__name__)

_GLANCE_SECONDS = 0.5
_LAG = ("seconds_behind_source", "seconds_behind_master")

Report = Callable[[str | None], None]
"""Receives the reason why reading waits; None once reading no longer waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """The limits; a limit of 0 is disabled."""

    rows_per_second: int = 0
    """Rows of all tables together, per second."""
    threads_running: int = 25
    """Running threads at the source, except the thread of the query itself."""
    probe_ms: int = 250
    """Milliseconds in which the source answers a trivial query."""
    replica_lag_seconds: int = 0
    """Seconds by which the source lags, if it is a replica."""


class LoadGate:
    """Makes the reads of a destination wait for the limits; used by the threads of all readers."""

    def __init__(
        self,
        limits: LoadLimits,
        report: Report,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limits, self._report, self._clock, self._sleep = limits, report, clock, sleep
        self._lock = threading.Lock()
        self._next = 0.0
        """When the rate allows the next read, by the clock."""
        self._reported: str | None = None

    def wait(self, cursor: Any) -> None:
        """Wait until a read may begin; queries the source through ``cursor``, whose errors are raised."""
        while (reason := self._reason(cursor)) is not None:
            if reason:
                self._show(reason)
            self._sleep(_GLANCE_SECONDS)
        self._show(None)

    def most_rows(self, rows: int) -> int:
        """Limit the number of rows of one read to the rows of one second, so that the rate is even."""
        rate = self._limits.rows_per_second
        return min(rows, rate) if rate else rows

    def read(self, rows: int) -> None:
        """Count the rows of a read."""
        rate = self._limits.rows_per_second
        if rate:
            with self._lock:
                self._next = max(self._next, self._clock()) + rows / rate

    def _show(self, reason: str | None) -> None:
        """Report the reason why reading waits, or once, that reading no longer waits."""
        with self._lock:
            is_news = (reason is None) != (self._reported is None)
            self._reported = reason
        if is_news or reason is not None:
            self._report(reason)

    def _reason(self, cursor: Any) -> str | None:
        """Return why a read may not begin now; empty if the rate is the only reason; None if it may begin."""
        limits = self._limits
        began = self._clock()
        running = int(_value(cursor, "SHOW GLOBAL STATUS LIKE 'Threads_running'", "Value") or 1) - 1
        probe_ms = (self._clock() - began) * 1000
        if limits.threads_running and running > limits.threads_running:
            return (
                f"{running} threads are running at the source, of at most {limits.threads_running}"
            )
        if limits.probe_ms and probe_ms > limits.probe_ms:
            return f"the source took {probe_ms:.0f} ms for a trivial query, of at most {limits.probe_ms}"
        if limits.replica_lag_seconds and (reason := self._lag(cursor)):
            return reason
        return "" if self._clock() < self._next else None

    def _lag(self, cursor: Any) -> str | None:
        """Return the reason if the source, as a replica, lags by more than the limit; else None."""
        lag = _lag_of(cursor)
        if lag is None or lag <= self._limits.replica_lag_seconds:
            return None
        return f"the source is {lag} s late, of at most {self._limits.replica_lag_seconds}"


def _value(cursor: Any, query: str, column: str) -> Any:
    """Return a column of a query's only row; None without a row."""
    cursor.execute(query)
    row = cursor.fetchone()
    names = [one[0] for one in cursor.description]
    return None if row is None else row[names.index(column)]


def _lag_of(cursor: Any) -> int | None:
    """Return the seconds by which a replica lags; None if unknown, or if the server is not a replica.

    Of several channels, the one that lags most counts.
    """
    for statement in REPLICA_STATUS:
        try:
            cursor.execute(statement)
        except pymysql.MySQLError as error:
            if error.args[0] == pymysql.constants.ER.PARSE_ERROR:
                continue
            raise
        names = [one[0].lower() for one in cursor.description]
        at = next(n for n, name in enumerate(names) if name in _LAG)
        return max((int(row[at]) for row in cursor.fetchall() if row[at] is not None), default=None)
    return None
