"""How fast existing rows may be read: by a rate, and only while the source has capacity to spare.

Invariant: a read begins only within the limits, and one that waits for them ends within a second of its
connection's end. Nothing else waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymysql

log = logging.getLogger(__name__)

_GLANCE_SECONDS = 0.5
_LAG = ("seconds_behind_source", "seconds_behind_master")

Report = Callable[[str | None], None]
"""Receives why reading waits; None once it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """The limits; 0 of any is none."""

    rows_per_second: int = 0
    """Of all tables together."""
    threads_running: int = 25
    """Threads that run at the source, besides the one that asks."""
    probe_ms: int = 250
    """Milliseconds in which the source answers a trivial query."""
    replica_lag_seconds: int = 0
    """Seconds that the source itself is late, where it is a replica."""


class LoadGate:
    """Where the reads of a destination wait; used by the threads of all readers."""

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
        """Return once a read may begin; asks the source through a cursor, whose errors are raised."""
        while (reason := self._reason(cursor)) is not None:
            if reason:
                self._show(reason)
            self._sleep(_GLANCE_SECONDS)
        self._show(None)

    def most_rows(self, rows: int) -> int:
        """As many of so many rows as one read may have: those of a second, so that the rate is even."""
        rate = self._limits.rows_per_second
        return min(rows, rate) if rate else rows

    def read(self, rows: int) -> None:
        """Count the rows of a read."""
        rate = self._limits.rows_per_second
        if rate:
            with self._lock:
                self._next = max(self._next, self._clock()) + rows / rate

    def _show(self, reason: str | None) -> None:
        """Report a change."""
        with self._lock:
            is_news = (reason is None) != (self._reported is None)
            self._reported = reason
        if is_news or reason is not None:
            self._report(reason)

    def _reason(self, cursor: Any) -> str | None:
        """Why a read may not begin now; empty if only the rate is the reason."""
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
        """Why a source that is a replica is too late; None if it is not."""
        lag = _lag_of(cursor)
        if lag is None or int(lag) <= self._limits.replica_lag_seconds:
            return None
        return f"the source is {int(lag)} s late, of at most {self._limits.replica_lag_seconds}"


def _value(cursor: Any, query: str, column: str) -> Any:
    """A column of a query's only row; None without one."""
    cursor.execute(query)
    row = cursor.fetchone()
    names = [one[0] for one in cursor.description]
    return None if row is None else row[names.index(column)]


def _lag_of(cursor: Any) -> Any:
    """The seconds that a replica is late; None of another server."""
    try:
        cursor.execute("SHOW REPLICA STATUS")
    except pymysql.MySQLError as error:
        if error.args[0] != pymysql.constants.ER.PARSE_ERROR:
            raise
        # Before MySQL 8.0.22.
        cursor.execute("SHOW SLAVE STATUS")
    row = cursor.fetchone()
    names = [one[0].lower() for one in cursor.description]
    return None if row is None else row[next(n for n, name in enumerate(names) if name in _LAG)]
