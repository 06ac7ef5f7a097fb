"""Waits for the parts of the demo to be ready, and for every change to arrive.

Each wait has a deadline, and fails with the log of the part that missed it.
"""

import asyncio
import time
from collections.abc import Callable

from demo import observe, topics
from demo.load import Server
from demo.observe import Status
from demo.parts import Addresses
from demo.report import Console
from demo.supervise import Program, Supervisor

_PAUSE = 0.3
_DOWN = {"FAILED", "FENCED"}


class Watch:
    """The running worker and sink, and their reports during a wait."""

    def __init__(
        self,
        worker: Supervisor,
        sink: Supervisor,
        *,
        at: Addresses,
        destination: str,
        console: Console,
    ) -> None:
        self.worker = worker
        self.sink = sink
        self._at = at
        self._destination = destination
        self._console = console

    def check(self) -> None:
        """Raise when a part is down for good, or the worker reports that it cannot continue."""
        self.worker.check()
        self.sink.check()

    def status(self) -> Status | None:
        """The worker's report; None while it does not answer."""
        return observe.worker_status(self._at.worker_http, self._destination)

    def offsets(self) -> dict[tuple[str, int], int] | None:
        """The offsets up to which readers of the warehouse see changes; None while the sink does not answer."""
        return observe.sink_offsets(self._at.sink_http)

    def describe(self) -> str:
        """Both in a few words."""
        status, rows = self.status(), observe.sink_rows(self._at.sink_http)
        worker = "worker does not answer" if status is None else f"published {status.seq:,}"
        sink = "sink does not answer" if rows is None else f"merged into the warehouse {rows:,}"
        return f"{worker}, {sink}"

    def until_running(self, seconds: float) -> None:
        """Wait until the worker follows its source and the sink follows Kafka."""
        self._until(self._worker_runs, seconds, self.worker.program, "is not running")
        self._until(
            lambda: self.offsets() is not None, seconds, self.sink.program, "does not answer"
        )

    def until_published(self, server: Server, seconds: float) -> None:
        """Wait until the worker's cursor holds every transaction of the server."""
        self._until(
            lambda: _holds_all(server, self.status()),
            seconds,
            self.worker.program,
            "has not published everything",
        )

    def until_applied(self, kafka: str, wanted: list[str], seconds: float) -> None:
        """Wait until readers of the warehouse see every record that these topics hold now."""
        ends = asyncio.run(topics.ends(kafka, wanted))

        def applied() -> bool:
            offsets = self.offsets() or {}
            return all(offsets.get(at, 0) >= end for at, end in ends.items())

        self._until(applied, seconds, self.sink.program, "has not applied everything")

    def _worker_runs(self) -> bool:
        status = self.status()
        return status is not None and status.state == "RUNNING"

    def _until(self, reached: Callable[[], bool], seconds: float, part: Program, late: str) -> None:
        deadline = time.monotonic() + seconds
        while not reached():
            self.check()
            if (status := self.status()) is not None and status.state in _DOWN:
                raise self.worker.program.failed(f"stopped the destination: {status.error}")
            if time.monotonic() > deadline:
                raise part.failed(f"{late} after {seconds:.0f} s ({self.describe()})")
            if self._console.due:
                self._console.print_line(f"waiting for {part.name}; {self.describe()}")
            time.sleep(_PAUSE)


def _holds_all(server: Server, status: Status | None) -> bool:
    if status is None:
        return False
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT GTID_SUBSET(GTID_SUBTRACT(@@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged), %s)",
            (status.gtid_set,),
        )
        return bool(cursor.fetchone()[0])
