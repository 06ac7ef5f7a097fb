"""Background tasks: requested reloads and maintenance, due maintenance, and the removal of what is not needed.

One runs at a time, in a thread beside the batches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from spark_sink.errors import KafkaUnreachable
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.waiting_tables import Request

_SECONDS_FOR_THE_GATE: Final = 1.0


class _Waits(Protocol):
    requests: list[Request]

    def refresh(self) -> object: ...


class _Reloader(Protocol):
    def answer(self, *requests: Request) -> None: ...


class _Requested(Protocol):
    def next(self) -> Callable[[], None] | None: ...


class _Recent(Protocol):
    @property
    def is_untidy(self) -> bool: ...

    def remove_unused(self) -> None: ...


class _Maintenance(Protocol):
    def due(self) -> Name | None: ...

    def maintain(self, name: Name) -> object: ...


class _Hard(Protocol):
    def due(self) -> Name | None: ...

    def sweep(self, name: Name) -> object: ...


@dataclass(slots=True, kw_only=True)
class BackgroundTasks:
    """Starts background tasks, one at a time.

    Batches may follow one another almost without a pause. So the check for requests waits for the gate
    instead of polling it, and maintenance starts without holding it.
    """

    gate: threading.Lock
    """Held while a batch is applied."""
    waits: _Waits
    reloader: _Reloader
    maintenance: _Maintenance
    requested: _Requested | None = None
    """Requests for maintenance."""
    recent: _Recent | None = None
    hard: _Hard | None = None
    """What removes markers from tables that should have none."""
    is_quiet: Callable[[], bool] = lambda: False
    """Whether no batch has looked for DDL for a while."""
    apply_ddl: Callable[[], object] = lambda: None
    """Does what DDL says, without a batch."""
    failure: Exception | None = None
    """The first error that ended a task."""
    _thread: threading.Thread | None = field(default=None, init=False)

    def look(self, stop: threading.Event) -> None:
        """Starts the first task that is due, unless one is running."""
        if self._thread is not None and self._thread.is_alive():
            return
        work: Callable[[], object] | None = None
        if requests := self._requests():
            work = partial(self.reloader.answer, *requests)
        elif self.requested is not None and (step := self.requested.next()):
            work = step
        elif self.hard is not None and (name := self.hard.due()) is not None:
            work = partial(self.hard.sweep, name)
        elif self.is_quiet():
            work = self._apply_ddl
        elif (name := self.maintenance.due()) is not None:
            work = partial(self.maintenance.maintain, name)
        elif self.recent is not None and self.recent.is_untidy:
            work = self.recent.remove_unused
        if work is not None:
            self._thread = threading.Thread(target=self._guarded, args=(work, stop), daemon=True)
            self._thread.start()

    def _requests(self) -> list[Request]:
        """All requests; none while a long batch holds the gate."""
        if not self.gate.acquire(timeout=_SECONDS_FOR_THE_GATE):
            return []
        try:
            self.waits.refresh()
        finally:
            self.gate.release()
        return list(self.waits.requests)

    def _apply_ddl(self) -> None:
        with suppress(KafkaUnreachable):
            self.apply_ddl()

    def _guarded(self, work: Callable[[], object], stop: threading.Event) -> None:
        try:
            work()
        except Exception as fault:
            # A stop ends the JVM during the task, which does no harm.
            if not stop.is_set():
                self.failure = self.failure or fault
