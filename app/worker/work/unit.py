"""One unit of work that one of the workers leads: run after run, until leadership ends.

Invariant: a run that is asked to end finishes its open transaction; one that has lost leadership ends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from app import metrics
from app.worker.coordination.lease import Lease
from app.worker.coordination.write_permit import StopRequested, WritePermit
from app.worker.destination.retry_policy import ErrorPolicy
from app.worker.status import State
from connectors.errors import AqueductError, Fenced, LeadershipLost

_FAILED_SECONDS = 30.0
"""Before a unit is run again whose error an operator is to resolve."""
Installation = Callable[[], Awaitable[str]]
"""Returns the installation's id."""
Run = Callable[[WritePermit, Callable[[], None]], Awaitable[None]]
"""A run, given its write permit and what to call after each commit; it ends with an error only."""


class UnitStatus(Protocol):
    """The state of a unit, as its runs see it."""

    def show(self, state: State, error: str | None = None) -> None:
        """Show a state."""
        ...


class Unit:
    """One unit, over all its runs."""

    def __init__(
        self, name: str, status: UnitStatus, run: Run, *, context: Mapping[str, str]
    ) -> None:
        """``context``: what an error of it is about."""
        self.name = name
        self._status, self._run, self._context = status, run, context
        self._policy = ErrorPolicy()
        self._permit = WritePermit()

    async def lead(self, lease: Lease) -> None:
        """Lead until cancelled, which requests an orderly end; raise the error that ended leadership."""
        self._permit.lease = lease
        try:
            while True:
                error = await self._outcome(lease)
                if error is None:
                    continue
                if isinstance(error, LeadershipLost) or (
                    isinstance(error, Fenced) and lease.shared
                ):
                    raise error
                await self._rest_after(error, lease)
        finally:
            self._status.show(State.STANDBY)

    async def _rest_after(self, error: AqueductError, lease: Lease) -> None:
        # Its name is what commands of the journal take in place of a destination's.
        error.context = {**self._context, "destination": self.name, **error.context}
        metrics.ERRORS.labels(self.name, error.name).inc()
        decision = self._policy.decide(error)
        self._status.show(decision.state, f"{error.name}: {error}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(decision.pause or _FAILED_SECONDS):
                await lease.ended.wait()
        lease.check()

    async def _outcome(self, lease: Lease) -> AqueductError | None:
        """Run; return its error, or None if it was asked to end."""
        self._permit.begin()
        run = asyncio.ensure_future(self._run(self._permit, self._policy.succeeded))
        ended = asyncio.create_task(lease.ended.wait())
        is_leaving = True
        try:
            await asyncio.wait([run, ended], return_when=asyncio.FIRST_COMPLETED)
            is_leaving = False
        finally:
            ended.cancel()
            if not run.done():
                await self._permit.end(run, hand_over=is_leaving)
        lease.check()
        try:
            run.result()
        except (StopRequested, asyncio.CancelledError):
            return None
        except AqueductError as error:
            return error
        return None
