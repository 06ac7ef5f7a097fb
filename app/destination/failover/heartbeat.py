"""The thread that asks a source whether it lives, beside the run that reads it.

The law: it has connections of its own, so that a silent stream and a dead server are told apart; and it
never ends a run itself, but says why the source is to be left, and the run ends where it is safe.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from app import metrics
from app.destination.plan import Failover, Signals
from connectors.errors import AqueductError, BeginsAnew, SourceSilent
from connectors.mysql.server.facts import SourceAddress
from connectors.mysql.server.heartbeat import Beat

log = logging.getLogger(__name__)

_LOOKS_BACK = 10.0
"""Seconds between two looks at the sources before this one, where they are gone back to."""


class Heartbeat:
    """Asks one source for one run, until it is closed."""

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
        # An answer that takes longer than three intervals is none.
        patience = max(1.0, 3 * failover.interval)
        self._address = replace(address, heartbeat=patience / 3)
        self._silent, self._is_back, self._go_back = silent, is_back, go_back
        self._beat = Beat(failover.heartbeat) if failover.heartbeat is not None else None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End; a question that is under way is not waited for."""
        self._over.set()

    def _run(self) -> None:
        failures, limit = 0, self._failover.retries
        gauge = metrics.HEARTBEAT_FAILURES.labels(self._name)
        gauge.set(0)
        returned = self._returned()
        while not self._over.is_set():
            error = self._asked()
            failures = 0 if error is None else failures + 1
            gauge.set(failures)
            if error is not None:
                log.warning("%s: heartbeat %d of %d: %s", self._name, failures, limit, error)
                if failures >= limit and not self._over.is_set():
                    told = f"{failures} times one after the other: {error.detail}"
                    self._leave(SourceSilent(told, source=self._address))
                    return
            # To look at an earlier source takes seconds; meanwhile this run may be over, and another reads.
            if next(returned) and not self._over.is_set():
                if self._go_back is not None:
                    self._go_back()
                self._signals.leave = BeginsAnew("to go back to an earlier source")
                return
            self._over.wait(self._failover.interval)

    def _asked(self) -> AqueductError | None:
        """What is wrong with the source; None where it answers.

        A server that refuses a statement which it never took is alive: the statement or a grant is to be
        mended, and the next source would do no better.
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
        """Each time it is asked, whether an earlier source has been fit for so long that it is gone back to."""
        after, looked = self._failover.back_after, time.monotonic()
        since: float | None = None
        while self._is_back is not None:
            now = time.monotonic()
            if now - looked < min(_LOOKS_BACK, after / 3):
                yield False
                continue
            looked = now
            since = (since or now) if self._is_back() else None
            yield since is not None and now - since >= after
        yield from itertools.repeat(False)
