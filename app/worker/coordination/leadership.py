"""Leadership of destinations from one worker's view, and the leadership of a single worker.

Invariant: cancelling a leader requests an orderly end; it finishes the open transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable
from typing import Any, Protocol

from app.worker.coordination.zookeeper_lease import Lease, PermanentLease


class DestinationRunner(Protocol):
    """The destinations of a worker, as leadership sees them."""

    def wanted(self) -> Collection[str]:
        """Return the destinations that this worker could lead now."""
        ...

    def is_ready(self) -> bool:
        """Return whether this worker could lead them without delay."""
        ...

    async def lead(self, name: str, lease: Lease) -> None:
        """Lead a destination until cancelled or stopped; raise the error that ended leadership."""
        ...


class Leadership(Protocol):
    """Decides which destinations this worker leads."""

    async def run(self) -> None:
        """Run until ``leave`` is called."""
        ...

    async def leave(self) -> None:
        """End all leadership now, in an orderly way."""
        ...

    def wake(self) -> None:
        """Decide again: the wanted destinations have changed."""
        ...

    def to_json(self) -> dict[str, Any] | None:
        """Return the state for the status page; None without coordination."""
        ...

    def why(self, name: str) -> dict[str, Any]:
        """Return the leader of a destination, and why it is not this worker, for the status page."""
        ...


class SingleWorker:
    """The only worker, which leads all destinations."""

    def __init__(self, runner: DestinationRunner) -> None:
        self._runner = runner
        self._wake = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_leaving = False

    async def run(self) -> None:
        while not self._is_leaving:
            self._wake.clear()
            unforeseen(self._tasks.values())
            wanted = self._runner.wanted()
            await ended(task for name, task in self._tasks.items() if name not in wanted)
            for name in wanted:
                task = self._tasks.get(name)
                if task is None or task.done():
                    task = self._tasks[name] = asyncio.create_task(self._lead(name))
                    task.add_done_callback(lambda _: self.wake())
            await self._wake.wait()

    async def _lead(self, name: str) -> None:
        await self._runner.lead(name, PermanentLease())

    async def leave(self) -> None:
        self._is_leaving = True
        self.wake()
        await ended(self._tasks.values())

    def wake(self) -> None:
        self._wake.set()

    def to_json(self) -> dict[str, Any] | None:
        return None

    def why(self, name: str) -> dict[str, Any]:
        task = self._tasks.get(name)
        here = task is not None and not task.done()
        return {"here": here, "vacant": not here}


def unforeseen(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Raise the unforeseen error that ended one of these tasks: the process ends, and is restarted."""
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def ended(tasks: Any) -> None:
    """Cancel tasks and wait until they have ended.

    A task that is being cancelled is not cancelled again, since that would cut its cleanup short.
    """
    wanted = list(tasks)
    for task in wanted:
        if not task.cancelling():
            task.cancel()
    with contextlib.suppress(ValueError):  # an empty set of tasks
        await asyncio.wait(wanted)
