"""Heartbeat thread, which checks that a source is alive beside the run that reads it.

Invariant: it has its own connections, to distinguish a silent stream from a dead server; it never
ends a run itself, but sets the reason to leave the source, and the run ends where that is safe.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from app import metrics
from app.worker.destination.plan import Failover, Signals
from connectors.errors import AqueductError, RunRestarts, SourceSilent
from connectors.mysql.server.facts import SourceAddress
from connectors.mysql.server.heartbeat import HeartbeatCheck

log = logging.getLogger(__name__)

_RETURN_CHECK_SECONDS = 10.0
"""Seconds between two checks of earlier sources, if a return to them is enabled."""


class Heartbeat:
    """The heartbeat of one source for one run, until closed."""

    def __init__(
        self,
        destination: str,
        address: SourceAddress,
        failover: Failover,
        signals: Signals,
        *,
        silent: Callable[[], None],
        is_back: Callable[[], bool] | None = None,
        go_back: Callable[[], None] | None = None,
    ) -> None:
        self._name, self._failover, self._signals = destination, failover, signals
        # A response that takes longer than three intervals counts as none.
        timeout = max(1.0, 3 * failover.interval)
        self._address = replace(address, heartbeat=timeout / 3)
        self._silent, self._is_back, self._go_back = silent, is_back, go_back
        self._beat = HeartbeatCheck(failover.heartbeat) if failover.heartbeat is not None else None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source-heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop, without waiting for a pending query."""
        self._over.set()

    def _run(self) -> None:
        failures, limit = 0, self._failover.retries
        gauge = metrics.HEARTBEAT_FAILURES.labels(self._name)
        gauge.set(0)
        returned = self._returned()
        while not self._over.is_set():
            error = self._checked()
            failures = 0 if error is None else failures + 1
            gauge.set(failures)
            if error is not None:
                log.warning("%s: heartbeat %d of %d: %s", self._name, failures, limit, error)
                if failures >= limit and not self._over.is_set():
                    detail = f"{failures} times one after the other: {error.detail}"
                    self._leave(SourceSilent(detail, source=self._address))
                    return
            # The check of an earlier source takes seconds, in which this run may have ended.
            if next(returned) and not self._over.is_set():
                if self._go_back is not None:
                    self._go_back()
                self._signals.leave = RunRestarts("to go back to an earlier source")
                return
            self._over.wait(self._failover.interval)

    def _checked(self) -> AqueductError | None:
        """The error of the source; None if it answers.

        A server that refuses a statement which it never accepted is alive: the statement or the
        privileges need correction, and the next source would refuse it too.
        """
        if self._beat is None:
            return None
        try:
            never_done = self._beat.ask(self._address)
        except AqueductError as error:
            return error
        if never_done is not None:
            log.warning("%s: the heartbeat never worked; correct it: %s", self._name, never_done)
        return None

    def _leave(self, error: SourceSilent) -> None:
        self._silent()
        self._signals.leave = error

    def _returned(self) -> Iterator[bool]:
        """Yield whether an earlier source has been fit long enough to return to it."""
        after, looked = self._failover.back_after, time.monotonic()
        since: float | None = None
        while self._is_back is not None:
            now = time.monotonic()
            if now - looked < min(_RETURN_CHECK_SECONDS, after / 3):
                yield False
                continue
            looked = now
            since = (since or now) if self._is_back() else None
            yield since is not None and now - since >= after
        yield from itertools.repeat(False)
