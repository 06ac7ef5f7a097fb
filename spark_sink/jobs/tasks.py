"""Background tasks: requested reloads and maintenance, due maintenance, and the removal of what is not needed.

One task runs at a time, in a thread beside the batches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from spark_sink.errors import KafkaUnreachable
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.waiting_tables import Request, Waits

_SECONDS_FOR_THE_GATE: Final = 1.0
_SECONDS_BETWEEN_LOOKS: Final = 0.2

Work = Callable[[], object]


def requested_reloads(
    gate: threading.Lock, waits: Waits, answer: Callable[..., None]
) -> Work | None:
    """Return the work that answers all requests; None without requests, or while a long batch holds the gate.

    Batches may follow one another almost without a pause, so the check waits for the gate instead of polling
    it.
    """
    if not gate.acquire(timeout=_SECONDS_FOR_THE_GATE):
        return None
    try:
        waits.refresh()
    finally:
        gate.release()
    requests: list[Request] = list(waits.requests)
    return partial(answer, *requests) if requests else None


def work_on_due_table(
    due: Callable[[], Name | None], work: Callable[[Name], object]
) -> Work | None:
    """Return the work on the table that is due; None without such a table."""
    name = due()
    return None if name is None else partial(work, name)


def quiet_ddl(is_quiet: Callable[[], bool], apply_ddl: Work) -> Work | None:
    """Return the work that looks for DDL while no batch does; it is repeated later if Kafka does not answer."""

    def apply() -> None:
        with suppress(KafkaUnreachable):
            apply_ddl()

    return apply if is_quiet() else None


@dataclass(slots=True, kw_only=True)
class BackgroundTasks:
    """Starts background tasks, one at a time, without holding the gate."""

    due: Sequence[Callable[[], Work | None]]
    """Each returns the work of one kind that is due, None without any; the first work found is done."""
    failure: Exception | None = None
    """The first error that ended a task."""
    _thread: threading.Thread | None = field(default=None, init=False)

    def look(self, stop: threading.Event) -> None:
        """Start the first task that is due, unless one is running."""
        if self._thread is not None and self._thread.is_alive():
            return
        work = next((work for each in self.due if (work := each()) is not None), None)
        if work is not None:
            self._thread = threading.Thread(target=self._guarded, args=(work, stop), daemon=True)
            self._thread.start()

    def finished(self, stop: threading.Event) -> Exception | None:
        """Wait for the end of the task that runs, or for a stop; return the first error that ended a task."""
        while self._thread is not None and self._thread.is_alive() and not stop.is_set():
            self._thread.join(_SECONDS_BETWEEN_LOOKS)
        return self.failure

    def _guarded(self, work: Work, stop: threading.Event) -> None:
        try:
            work()
        except Exception as fault:
            # A stop ends the JVM during the task, which does no harm.
            if not stop.is_set():
                self.failure = self.failure or fault
