"""One unit of work that one of the workers leads: run after run, until leadership or the desired state ends it.

A destination, a merge, and the publication of logical schemas are all units; only their runs differ. Whatever a
destination has besides its runs is not part of the unit.

Invariant: one function decides what follows an error. A run that is asked to end finishes its open transaction;
a run that has lost leadership ends at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from app import metrics
from app.worker.coordination.write_permit import StopRequested, WritePermit
from app.worker.coordination.zookeeper_lease import Lease
from app.worker.status import State
from app.worker.unit.requests import Requests, first
from app.worker.unit.retry_policy import ErrorPolicy
from connectors.errors import (
    AnotherWorkerLeads,
    AqueductError,
    Fenced,
    LeadershipLost,
    Unforeseen,
)
from tables.state.operator_requests import Control, DesiredState

log = logging.getLogger(__name__)

FAILED_SECONDS = 30.0
"""The pause of a merge, or of the logical schemas, after an error that an operator has to resolve."""
_MEASURE_SECONDS = 1.0
Installation = Callable[[], Awaitable[str]]
"""Returns the installation's id."""
Run = Callable[[], Awaitable[None]]
"""A run; it ends with an error only."""
Cause = Callable[[AqueductError], Awaitable[AqueductError | None]]
"""Returns the true cause of an error that ended a run; None if the next run may begin at once."""


class UnitStatus(Protocol):
    """The state of a unit, for the status page."""

    state: State
    error: str | None

    def show(self, state: State, error: str | None = None) -> None:
        """Show a state."""
        ...

    def is_news(self, error: str) -> bool:
        """Return whether an error was not yet reported in this state since the unit last ran."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return it for the status page."""
        ...


async def _as_it_is(error: AqueductError) -> AqueductError:
    return error


@dataclass(slots=True, kw_only=True)
class Unit:
    """One unit, over all its runs."""

    name: str
    """The name in the journal: a destination's name, ``merge.NAME``, or ``logical.schemas``."""
    status: UnitStatus
    run: Run
    context: Mapping[str, str] = field(default_factory=dict)
    """Context that is added to the unit's errors, besides its name."""
    permit: WritePermit = field(default_factory=WritePermit)
    requests: Requests = field(default_factory=Requests)
    policy: Callable[[], ErrorPolicy]
    """Returns the policy of the unit's present runs."""
    cause: Cause = _as_it_is
    measure: Callable[[], None] | None = None
    """Called each second while the unit waits without a run, since a lag grows meanwhile."""
    failed_seconds: float | None = FAILED_SECONDS
    """The pause after an error that an operator has to resolve; None: until a request."""
    _is_superseded: bool = False
    """Whether another worker led the unit when this worker last tried to lead it."""

    @property
    def has_leader(self) -> bool:
        """Whether a worker is to lead the unit, by the last request known here."""
        return self.requests.has_leader

    @property
    def request(self) -> Control | None:
        """The last request that this worker has received."""
        return self.requests.last

    def outcome(self, *, here: bool, alone: bool) -> tuple[str, str | None, int] | None:
        """State, error and epoch after this worker applied the request; None if it has not."""
        if alone and self._is_superseded:
            # Without ZooKeeper, only the worker that leads answers.
            return None
        return self.requests.outcome(self.status.state, self.status.error, 0, here=here)

    def learn(self, control: Control) -> None:
        """Record a request from before this worker started."""
        self.requests.learn(control)

    def obey(self, control: Control) -> bool:
        """Record a desired state committed in the journal; return whether it is a change."""
        return self.requests.obey(control)

    def to_json(self) -> dict[str, Any]:
        """Return it for the status page, with the desired state."""
        return {**self.status.to_json(), "wish": self.requests.desired.value}

    async def lead(self, lease: Lease) -> None:
        """Lead the unit until no worker is to lead it; raise the error that ended leadership.

        Cancelling this requests an orderly end.
        """
        self.permit.lease = lease
        failed: str | None = None
        try:
            while self.has_leader:
                await self._pass(lease)
        except Unforeseen as error:
            failed = f"{error.name}: {error}"
            raise
        finally:
            self.rest(failed)

    def rest(self, failed: str | None = None) -> None:
        """Show that the unit is not led here; ``failed``: the error that ended its leadership."""
        last = self.requests.last
        is_stopped = last is not None and not last.has_leader
        # The state FENCED is shown until an operator stops the unit.
        if is_stopped or self.status.state is not State.FENCED:
            self.status.show(
                State.STOPPED if is_stopped else State.STANDBY,
                last.to_text() if last is not None and is_stopped else failed,
            )

    async def _pass(self, lease: Lease) -> None:
        """Perform one run, or one wait instead of it."""
        was_requested, last = self.requests.begin(), self.requests.last
        if last is not None and last.desired is DesiredState.PAUSE:
            self.status.show(State.PAUSED, last.to_text())
            await self._wait(lease)
            return
        if was_requested or self.status.state not in (State.FENCED, State.FAILED):
            # The last run's error is shown until this one has made progress.
            was_retried = self.status.state in (State.RETRYING, State.STANDBY) and not was_requested
            self.status.show(State.STARTING, self.status.error if was_retried else None)
        error = await self._outcome(lease)
        if error is not None:
            error = await self.cause(error)
        if error is None:
            return
        self._is_superseded = isinstance(error, Fenced | AnotherWorkerLeads)
        if isinstance(error, LeadershipLost):
            self.report(error, State.STANDBY)
            raise error
        decision = self.policy().decide(error)
        if isinstance(error, Fenced | Unforeseen) and lease.shared:
            # The transactional id is not taken back: the present leader is determined first. And another
            # worker may not have the trouble that nothing foresees.
            self.report(error, State.STANDBY)
            raise error
        self.report(error, decision.state)
        pause = decision.pause if decision.pause is not None else self.failed_seconds
        await self._wait(lease, pause)

    async def _wait(self, lease: Lease, seconds: float | None = None) -> None:
        """Wait for a request, at most for these seconds; without them, forever."""
        if self.measure is None:
            await self.requests.wait(lease, seconds)
            return
        measuring = asyncio.create_task(_each_second(self.measure))
        try:
            await self.requests.wait(lease, seconds)
        finally:
            measuring.cancel()

    async def _outcome(self, lease: Lease) -> AqueductError | None:
        """Perform a run; return its error, or None if the run was asked to end."""
        self.permit.begin()
        run = asyncio.ensure_future(self.run())
        # On cancellation or loss of leadership the run's result is not used.
        run.add_done_callback(_seen)
        is_leaving = True
        try:
            await first(_done(run), self.requests.interrupted.wait(), lease.ended.wait())
            is_leaving = False
        finally:
            if not run.done():
                await self.permit.end(run, hand_over=is_leaving)
        lease.check()
        if run.cancelled():
            return None
        try:
            run.result()
        except StopRequested:
            return None
        except AqueductError as error:
            return error
        except Exception as error:
            found = Unforeseen(f"{type(error).__name__}: {error}")
            if found.detail not in (self.status.error or ""):
                log.exception("%s: an unforeseen error", self.name)
            return found
        return None

    def report(self, error: AqueductError, state: State) -> None:
        """Report the error that ended a run."""
        # Commands on the journal take any unit's name in place of a destination's.
        error.context = {**self.context, "destination": self.name, **error.context}
        metrics.ERRORS.labels(self.name, error.name).inc()
        if "event" in error.context:
            kind = str(error.context["event"])
            metrics.EVENTS.labels(self.name, kind, "refused").inc()
        self.status.show(state, f"{error.name}: {error}")
        # A repeated error is on the status page and in the metrics; the log has it once.
        level = logging.ERROR if self.status.is_news(error.name) else logging.DEBUG
        log.log(level, "%s: %s: %s: %s", self.name, state.value, error.name, error)


async def _each_second(measure: Callable[[], None]) -> None:
    while True:
        measure()
        await asyncio.sleep(_MEASURE_SECONDS)


def _seen(run: asyncio.Future[Any]) -> None:
    if not run.cancelled():
        run.exception()


async def _done(task: asyncio.Future[Any]) -> None:
    await asyncio.wait([task])
