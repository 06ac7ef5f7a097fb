"""Whether a run may write now, and how it is ended between two transactions.

The law: it is asked before a transaction is opened and again right before its commit, so that a worker that
slept in between does not end what it began; and a run that is told to leave finishes what it writes, whoever
else is told to end meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from app.coordination.lease import Lease, PermanentLease
from connectors.errors import LeadershipLost

_LAST_TRANSACTION_SECONDS = 12.0
"""For the one that is open; longer than Kafka is given for it."""


class Leaving(Exception):
    """The run ends as it was told to."""


@dataclass(slots=True)
class Mandate:
    """What a run of one destination may do."""

    lease: Lease = field(default_factory=PermanentLease)
    is_leaving: bool = False
    is_writing: bool = False
    _written: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a transaction is through."""
    _ends: bool = False
    """Whether the run ends by itself: it was told that it may do nothing more, or its transaction failed."""

    def begin(self) -> None:
        """Another run begins."""
        self._ends = False

    def check(self) -> None:
        """Raise Leaving where the run is to end, LeadershipLost where it may do nothing any more."""
        try:
            if self.is_leaving:
                raise Leaving
            self.lease.check()
        except (Leaving, LeadershipLost):
            self._ends = True
            raise

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Around a transaction; it waits while the lease is in doubt."""
        self.check()
        await self.lease.hold()
        # It may have been told to leave meanwhile, and who ends it has seen that nothing is written.
        self.check()
        self.is_writing = True
        self._written.clear()
        try:
            yield
        except BaseException:
            self._ends = True
            raise
        finally:
            self.is_writing = False
            self._written.set()

    async def end(self, run: asyncio.Task[Any], *, hand_over: bool = False) -> None:
        """End a run: behind its transaction if one is open, at once if none is or the lease is over.

        To hand over is to let the next leader begin as soon as nothing is written here any more; what the run
        still has to tear down is nothing to it. Whoever is told to end while it waits for this does so once
        the run has ended, and does not cut the transaction short: all that it may do is hand over, too.
        """
        self.is_leaving = True
        try:
            is_told = await outlasted(asyncio.create_task(self._behind_transaction(run)))
            # Who unwinds already is not disturbed in it.
            if not self._ends:
                run.cancel()
            handing = asyncio.create_task(self._hand_over(wanted=hand_over or is_told))
            is_told |= await outlasted(handing)
            is_told |= await outlasted(run)
        finally:
            self.is_leaving = False
        if is_told:
            raise asyncio.CancelledError
        handing.result()

    async def _behind_transaction(self, run: asyncio.Task[Any]) -> None:
        """Wait for the transaction that is open, while it may still be committed."""
        if not self.is_writing or run.done():
            return
        waits = [asyncio.create_task(event.wait()) for event in (self._written, self.lease.ended)]
        await asyncio.wait(
            [run, *waits],
            timeout=_LAST_TRANSACTION_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in waits:
            task.cancel()

    async def _hand_over(self, *, wanted: bool) -> None:
        if wanted and not self.lease.ended.is_set():
            await self.lease.hand_over()


async def outlasted(task: asyncio.Task[Any]) -> bool:
    """Wait until a task has ended, whoever says that this one is to end; whether somebody did."""
    is_told = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            is_told = True
    return is_told
