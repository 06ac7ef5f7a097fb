"""The write permit of a run, and the end of the run between two transactions.

Invariant: the permit is checked before a transaction is opened and again right before its commit, so that
a worker that was suspended in between does not commit what it began. A run that is asked to leave
finishes its write, even if other runs are ended meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from app.worker.coordination.zookeeper_lease import Lease, PermanentLease
from connectors.errors import LeadershipLost

_LAST_TRANSACTION_SECONDS = 12.0
"""The longest wait for the open transaction; longer than ``ANSWER_TIMEOUT``, the producer's limit for it."""


class StopRequested(Exception):
    """The run ends as requested."""


@dataclass(slots=True)
class WritePermit:
    """The write permit of one destination's run."""

    lease: Lease = field(default_factory=PermanentLease)
    is_leaving: bool = False
    is_writing: bool = False
    _written: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a transaction is complete."""
    _id_taken_in: int | None = None
    """The term of the lease under which the transactional id was last taken over."""
    _ends: bool = False
    """Whether the run ends by itself: its permit is withdrawn, or its transaction failed."""

    def begin(self) -> None:
        """Reset for another run."""
        self._ends = False

    @property
    def has_taken_id(self) -> bool:
        """Whether this worker has taken over the transactional id under its present lease."""
        return self._id_taken_in == self.lease.term

    def id_is_taken(self) -> None:
        """Note that the transactional id was taken over."""
        self._id_taken_in = self.lease.term

    def check(self) -> None:
        """Raise StopRequested if the run is to end, LeadershipLost if its lease is over."""
        try:
            if self.is_leaving:
                raise StopRequested
            self.lease.check()
        except (StopRequested, LeadershipLost):
            self._ends = True
            raise

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Enclose a transaction; wait while the lease is in doubt."""
        self.check()
        await self.lease.hold()
        # A caller that saw no open transaction may have asked the run to leave meanwhile.
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
        """End a run after its open transaction, or at once if none is open or the lease is over.

        ``hand_over`` lets the next leader begin as soon as nothing more is written here, before the
        run's remaining cleanup. If the caller is cancelled while it waits, the transaction is not cut
        short: the lease is handed over too, and CancelledError is raised once the run has ended.
        """
        self.is_leaving = True
        try:
            is_cancelled = await outlasted(asyncio.create_task(self._after_transaction(run)))
            # A run that already ends by itself is not cancelled.
            if not self._ends:
                run.cancel()
            handing = asyncio.create_task(self._hand_over(wanted=hand_over or is_cancelled))
            is_cancelled |= await outlasted(handing)
            is_cancelled |= await outlasted(run)
        finally:
            self.is_leaving = False
        if is_cancelled:
            raise asyncio.CancelledError
        handing.result()

    async def _after_transaction(self, run: asyncio.Task[Any]) -> None:
        """Wait for the open transaction while it may still be committed."""
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
    """Wait until a task has ended, even if the caller is cancelled; return whether the caller was cancelled."""
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            is_cancelled = True
    return is_cancelled
