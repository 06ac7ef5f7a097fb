"""Operators' requests to one unit of work, as this worker follows them in the journal.

Invariant: the later of two requests is valid, whichever way this worker learned of them. A request that changes
the desired state ends the present run or wait, and counts as applied only once this worker has acted on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from app.worker.coordination.write_permit import StopRequested
from app.worker.coordination.zookeeper_lease import Lease
from app.worker.status import State
from tables.state.operator_requests import Control, DesiredState

log = logging.getLogger(__name__)

_PAUSED = (State.PAUSED,)
_RUN = (State.RUNNING, State.RETRYING, State.FAILED, State.FENCED)
"""The states of a unit that is to run."""


@dataclass(slots=True)
class Requests:
    """The last request to a unit, and whether this worker has acted on it."""

    last: Control | None = None
    is_heeded: bool = False
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by a request that ends the present run or wait."""
    called: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by a notice that ends the present wait, such as a cursor set by an operator."""

    @property
    def desired(self) -> DesiredState:
        """The desired state."""
        return DesiredState.RUN if self.last is None else self.last.desired

    @property
    def has_leader(self) -> bool:
        """Whether a worker is to lead the unit."""
        return self.last is None or self.last.has_leader

    def begin(self) -> bool:
        """Act on all requests from now on; return whether a request or notice ended the last run or wait."""
        was_requested = self.interrupted.is_set() or self.called.is_set()
        self.interrupted.clear()
        self.called.clear()
        self.is_heeded = True
        return was_requested

    def learn(self, control: Control) -> None:
        """Record a request from before this worker started; a run reads it from the journal too."""
        if self.last is None:
            self.last = control
            if control.desired is not DesiredState.RUN:
                self.interrupted.set()

    def obey(self, control: Control) -> bool:
        """Record a desired state committed in the journal; return whether it is a change."""
        known = self.last
        if known is not None and control.offset <= known.offset:
            return False
        self.last = control
        if known is None:
            is_other = control.desired is not DesiredState.RUN or control.restart != ""
        else:
            is_other = (control.desired, control.restart) != (known.desired, known.restart)
        if is_other:
            log.info("%s: %s", control.destination, control.to_text())
            self.is_heeded = False
            self.interrupted.set()
        return is_other

    def check(self, control: Control | None) -> None:
        """Raise StopRequested if the unit is not to run.

        ``control`` is the last request in the journal, which this worker may not have received yet.
        """
        if control is not None and (self.last is None or control.offset > self.last.offset):
            self.last = control
        if self.desired is not DesiredState.RUN:
            raise StopRequested

    def outcome(
        self, state: State, error: str | None, epoch: int, *, here: bool
    ) -> tuple[str, str | None, int] | None:
        """State, error and epoch after this worker applied the last request; None if it has not.

        ``here``: whether this worker leads the unit, with this state.
        """
        if self.last is None:
            return None
        if not self.has_leader:
            return None if here else (State.STOPPED.value, None, 0)
        shown = _PAUSED if self.desired is DesiredState.PAUSE else _RUN
        if not here or not self.is_heeded or state not in shown:
            return None
        return state.value, error, epoch

    async def wait(self, lease: Lease, seconds: float | None = None) -> None:
        """Wait for a request, a notice, or at most these seconds; raise LeadershipLost if the lease is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await first(self.interrupted.wait(), self.called.wait(), lease.ended.wait())
        lease.check()


async def first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of these is done, and cancel the others."""
    tasks = [asyncio.create_task(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
