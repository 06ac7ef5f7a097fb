"""Who leads which destination, seen from one worker; and a worker that is alone.

The law: to cancel whoever leads is to ask for an orderly end; it finishes the transaction that is open.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable
from typing import Any, Protocol

from app.coordination.lease import Lease, PermanentLease


class DestinationRunner(Protocol):
    """The destinations of a worker, as those who say which to lead see them."""

    def wanted(self) -> Collection[str]:
        """Those that this worker could lead now."""
        ...

    def is_ready(self) -> bool:
        """Whether it could lead them without delay."""
        ...

    async def lead(self, name: str, lease: Lease) -> None:
        """Lead one, until it is not to be led any more or what ended it is raised."""
        ...


class Leadership(Protocol):
    """Says which destinations this worker leads."""

    async def run(self) -> None:
        """Until ``leave`` was called."""
        ...

    async def leave(self) -> None:
        """Lead nothing any more; in order, and at once."""
        ...

    def wake(self) -> None:
        """Look again: other destinations are wanted."""
        ...

    def to_json(self) -> dict[str, Any] | None:
        """For the status page; None without coordination."""
        ...

    def why(self, name: str) -> dict[str, Any]:
        """For the status page: who leads a destination, and why this worker does not."""
        ...


class SingleWorker:
    """The only worker there is leads all."""

    def __init__(self, runner: DestinationRunner) -> None:
        self._runner = runner
        self._wake = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_leaving = False

    async def run(self) -> None:
        """See Leadership."""
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
        """See Leadership."""
        self._is_leaving = True
        self.wake()
        await ended(self._tasks.values())

    def wake(self) -> None:
        """See Leadership."""
        self._wake.set()

    def to_json(self) -> dict[str, Any] | None:
        """See Leadership."""
        return None

    def why(self, name: str) -> dict[str, Any]:
        """See Leadership."""
        task = self._tasks.get(name)
        here = task is not None and not task.done()
        return {"here": here, "vacant": not here}


def unforeseen(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Raise what nobody foresaw, if any of these has ended by it: the process ends, and is started anew."""
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def ended(tasks: Any) -> None:
    """Cancel tasks, and wait until they have ended; one that was told to end is not told again, which would cut
    short what it does for that."""
    wanted = list(tasks)
    for task in wanted:
        if not task.cancelling():
            task.cancel()
    with contextlib.suppress(ValueError):  # of none at all
        await asyncio.wait(wanted)
