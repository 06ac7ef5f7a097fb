"""Whether a run may write now, and how it is ended between two transactions.

The law: it is asked before a transaction is opened and again right before its commit, so that a worker that
slept in between does not end what it began; and a run that is told to leave finishes what it writes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from app.lease import Lease, Unshared

_LAST_TRANSACTION_SECONDS = 12.0
"""For the one that is open; longer than Kafka is given for it."""


class Leaving(Exception):
    """The run ends as it was told to."""


@dataclass(slots=True)
class Mandate:
    """What a run of one destination may do."""

    lease: Lease = field(default_factory=Unshared)
    is_leaving: bool = False
    is_writing: bool = False

    def check(self) -> None:
        """Raise Leaving where the run is to end, LeadershipLost where it may do nothing any more."""
        if self.is_leaving:
            raise Leaving
        self.lease.check()

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Around a transaction; it waits while the lease is in doubt."""
        self.check()
        await self.lease.hold()
        self.is_writing = True
        try:
            yield
        finally:
            self.is_writing = False

    async def end(self, run: asyncio.Task[Any], *, hand_over: bool = False) -> None:
        """End a run: behind its transaction if one is open, at once if none is.

        To hand over is to let the next leader begin as soon as nothing is written here any more; what the run
        still has to tear down is nothing to it.
        """
        self.is_leaving = True
        try:
            if self.is_writing and not run.done():
                await asyncio.wait([run], timeout=_LAST_TRANSACTION_SECONDS)
            run.cancel()
            if hand_over:
                await self.lease.hand_over()
            await asyncio.wait([run])
        finally:
            # Whoever waits for this may be told to end at once, too.
            run.cancel()
            self.is_leaving = False
