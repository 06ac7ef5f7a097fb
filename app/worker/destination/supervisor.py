"""Supervisor of one destination on this worker: run after run, while it is to be led.

Invariant: one function decides what follows an error; an unreadable table does not stop the others.
A run that is asked to end finishes its open transaction; one that has lost leadership ends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from app import metrics
from app.worker.coordination.lease import Lease
from app.worker.coordination.write_permit import StopRequested
from app.worker.destination.failover.source_selection import Sources
from app.worker.destination.lag_watch import LagWatch
from app.worker.destination.plan import Following, Plan, Signals, at_once
from app.worker.destination.purge_watch import PurgeWatch
from app.worker.destination.retry_policy import ErrorPolicy
from app.worker.destination.source_agent import SourceAgent
from app.worker.mapping_versions.choice import MappingChoice
from app.worker.mapping_versions.watch import Mappings
from app.worker.schemas.store_mirror import Mirror
from app.worker.status import DestinationStatus, State
from connectors.errors import (
    AqueductError,
    Fenced,
    KafkaLost,
    LeadershipLost,
    RunRestarts,
    ServerIdConflict,
    WitnessesDiffer,
)
from tables.journal_kind import Addressed, Kind
from tables.state.cursor import CURSOR, Claimed
from tables.state.journal.checkpoint import Checkpoint
from tables.state.operator_requests import SOURCE, Control, DesiredState, SourceRequest

log = logging.getLogger(__name__)

_JOURNAL_SECONDS = 15.0
"""The maximum delay of another leader's claim in the journal, on a busy machine too."""
_SHARED_SECONDS = 3.0
"""The same with coordination, where this worker gives up the lead and may regain it."""
_GLANCE_SECONDS = 0.2
_PAUSED = (State.PAUSED,)
_RUN = (State.RUNNING, State.RETRYING, State.FAILED, State.FENCED)
"""The states of a destination that is to run."""


class Destination:
    """A destination on this worker, over all its runs."""

    def __init__(
        self,
        plan: Plan,
        checkpoint: Checkpoint,
        mirror: Mirror | None = None,
        following: Following = at_once,
        mappings: Mappings | None = None,
    ) -> None:
        """``mappings``: the mapping's versions; None if it is read from a file."""
        self.status = DestinationStatus(plan.name, schema_store=mirror.status if mirror else None)
        self._checkpoint, self._mirror = checkpoint, mirror
        self._mapping: MappingChoice | None = None
        if mappings is not None:
            self._mapping = MappingChoice(
                destination=plan.name, mappings=mappings, status=self.status
            )
        self._signals = Signals(following=following)
        self._interrupted = asyncio.Event()
        """Set by a request that ends the present run or wait."""
        self._called = asyncio.Event()
        """Set by a notice that ends the present wait, such as a cursor set by an operator."""
        self._reactions: dict[Kind[Any], Callable[[Any], object]] = {
            CURSOR: self.observe,
            SOURCE: self.consider,
        }
        """Immediate handlers of notices, by kind."""
        self._plan(plan)
        self._was_requested = True
        """Whether a request started this pass, and not the check whether another worker is gone."""
        self._is_heeded = False
        """Whether this worker has acted on the last request."""
        self._seen = 0
        """The last epoch claimed by a leader, as far as this worker has followed the journal."""
        self._purge_watch = PurgeWatch(self.status, lambda: self._run.address)
        self._lag_watch = LagWatch(self.status, lambda: self._run.address, self._restart_proof)

    def _plan(self, plan: Plan) -> None:
        self.plan = plan
        self._run = SourceAgent(
            plan=plan,
            status=self.status,
            checkpoint=self._checkpoint,
            policy=ErrorPolicy(),
            signals=self._signals,
            mirror=self._mirror,
            sources=Sources(plan),
            mapping=self._mapping,
        )

    def _restart_proof(self) -> None:
        """End the run, so that the next one proves its position; a reset server reports nothing."""
        self._signals.leave = RunRestarts(
            "to prove its position: the source's binlog ends before it"
        )

    @property
    def has_leader(self) -> bool:
        """Whether a worker is to lead it, by the last request known here."""
        control = self._signals.control
        return control is None or control.has_leader

    @property
    def request(self) -> Control | None:
        return self._signals.control

    def outcome(self, *, here: bool, alone: bool) -> tuple[str, str | None, int] | None:
        control, signals = self._signals.control, self._signals
        if control is None or (alone and self._seen > signals.led):
            # Without ZooKeeper, only the last leader answers for the destination.
            return None
        if not control.has_leader:
            return None if here else (State.STOPPED.value, None, 0)
        shown = _PAUSED if control.desired is DesiredState.PAUSE else _RUN
        if not here or not self._is_heeded or self.status.state not in shown:
            return None
        return self.status.state.value, self.status.error, signals.epoch

    @property
    def desired(self) -> DesiredState:
        """The desired state."""
        control = self._signals.control
        return DesiredState.RUN if control is None else control.desired

    async def lead(self, lease: Lease) -> None:
        """Lead until no worker is to lead it; raises the error that ended leadership. Cancelling this
        requests an orderly end."""
        self._signals.permit.lease = lease
        watches = [
            asyncio.create_task(self._purge_watch.run()),
            asyncio.create_task(self._lag_watch.run()),
        ]
        try:
            while self.has_leader:
                await self._lead(lease)
        finally:
            for watch in watches:
                watch.cancel()
            self._signals.epoch = 0
            metrics.EPOCH.labels(self.plan.name).set(0)
            self.rest()

    def rest(self) -> None:
        """Show that it is not led here."""
        state = State.STANDBY if self.has_leader else State.STOPPED
        control = self._signals.control
        if self.status.state is not State.FENCED:
            self.status.show(
                state, control.to_text() if control and not control.has_leader else None
            )

    async def _lead(self, lease: Lease) -> None:
        """Perform one run, or one wait instead of it."""
        self._was_requested = self._interrupted.is_set() or self._called.is_set()
        self._interrupted.clear()
        self._called.clear()
        control = self._signals.control
        self._is_heeded = True
        if control is not None and control.desired is DesiredState.PAUSE:
            self.status.show(State.PAUSED, control.to_text())
            await self._wait_for_request(lease)
            return
        if self.status.state is not State.FENCED or self._was_requested:
            # The last run's error is shown until this one has made progress.
            was_retried = self.status.state is State.RETRYING and not self._was_requested
            self.status.show(State.STARTING, self.status.error if was_retried else None)
        error = await self._outcome(lease)
        if error is None:
            return
        if isinstance(error, LeadershipLost):
            self._report(error, State.STANDBY)
            raise error
        if isinstance(error, WitnessesDiffer):
            self._report(error, State.RETRYING)
            for other in error.others:
                other.context = {"destination": self.plan.name, **other.context}
                log.error("%s: %s: %s", self.plan.name, other.name, other)
            self._run.unreadable.append(error)
            return
        error = await self._true_cause(error)
        if isinstance(error, RunRestarts):
            log.info("%s: starts a new run %s", self.plan.name, error.detail)
            return
        decision = self._run.policy.decide(error)
        if isinstance(error, Fenced) and lease.shared:
            # The id is not taken back: the present leader is determined first.
            self._report(error, State.STANDBY)
            raise error
        self._report(error, decision.state)
        await self._wait_for_request(lease, decision.pause)

    async def _outcome(self, lease: Lease) -> AqueductError | None:
        """Run; returns its error, or None if it was asked to end or is to be started again."""
        self._signals.permit.begin()
        run = asyncio.create_task(self._run.run())
        # On cancellation or loss of leadership the run's result is not used.
        run.add_done_callback(_seen)
        is_leaving = True
        try:
            await _first(_done(run), self._interrupted.wait(), lease.ended.wait())
            is_leaving = False
        finally:
            if not run.done():
                await self._signals.permit.end(run, hand_over=is_leaving)
        lease.check()
        if run.cancelled():
            return None
        try:
            run.result()
        except StopRequested:
            return None
        except RunRestarts as why:
            log.info("%s: starts a new run %s", self.plan.name, why.detail)
        except AqueductError as error:
            return error
        return None

    async def _wait_for_request(self, lease: Lease, seconds: float | None = None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _first(self._interrupted.wait(), self._called.wait(), lease.ended.wait())
        lease.check()

    def _report(self, error: AqueductError, state: State) -> None:
        """Report the error that ended a run."""
        error.context = {"destination": self.plan.name, **error.context}
        metrics.ERRORS.labels(self.plan.name, error.name).inc()
        if "event" in error.context:
            kind = str(error.context["event"])
            metrics.EVENTS.labels(self.plan.name, kind, "refused").inc()
        self.status.show(state, f"{error.name}: {error}")
        # A repeated error is on the status page and in the metrics; the log has it once.
        level = logging.ERROR if self.status.is_news(error.name) else logging.DEBUG
        log.log(level, "%s: %s: %s: %s", self.plan.name, state.value, error.name, error)

    def observe(self, cursor: Claimed) -> None:
        """Record a cursor committed in the journal: a greater epoch is another leader's."""
        if cursor.by is None:
            self._seen = max(self._seen, cursor.epoch)
        if self._signals.epoch and cursor.epoch > self._signals.epoch:
            self._signals.superseded_by = cursor.epoch
        if cursor.by is not None and cursor.epoch > self._signals.epoch:
            # An operator's command led for a moment only.
            self._signals.set_in = cursor.epoch
            self._called.set()

    def prepare(self, installation: str) -> None:
        """Set the installation id that a takeover needs first, and confirms later."""
        self._signals.installation = self._signals.installation or installation

    def kafka(self, lost: AqueductError | None) -> None:
        """Record that Kafka does not answer, or that it answers again (None)."""
        self._signals.kafka_lost = lost

    def notify(self, kind: Kind[Any], notice: Addressed) -> None:
        """Handle a record committed in the journal by its kind's handler. Without one, end the present
        wait; the next run acts on it."""
        self._signals.notify(kind, notice)
        react = self._reactions.get(kind)
        if react is None:
            self._called.set()
        else:
            react(notice)

    def mapping_changed(self) -> None:
        """Show a new version of the mapping, and end the present wait: it may be the correction waited for."""
        if self._mapping is not None:
            self._mapping.show()
            self._called.set()

    def consider(self, request: SourceRequest) -> None:
        """End the present wait if a request for another source is new; the next run tries it."""
        if request.ts_ms > self._signals.tried_ms:
            self._called.set()

    def learn(self, control: Control) -> None:
        """Record a request from before this worker started; a run reads it from the journal too."""
        if self._signals.control is None:
            self._signals.control = control
            if control.desired is not DesiredState.RUN:
                self._interrupted.set()

    def obey(self, control: Control) -> bool:
        """Record a desired state committed in the journal; returns whether it is a change."""
        known = self._signals.control
        if known is not None and control.offset <= known.offset:
            return False
        self._signals.control = control
        if known is None:
            is_other = control.desired is not DesiredState.RUN or control.restart != ""
        else:
            is_other = (control.desired, control.restart) != (known.desired, known.restart)
        if is_other:
            log.info("%s: %s", self.plan.name, control.to_text())
            self._signals.claimed = 0
            self._is_heeded = False
            self._run.forget_dead_letters()
            self._interrupted.set()
        return is_other

    def replan(self, plan: Plan) -> None:
        """Restart with other settings."""
        self._plan(plan)
        self._interrupted.set()

    async def _true_cause(self, error: AqueductError) -> AqueductError:
        """The true cause of an error, by the journal. MySQL drops the old connection of a destination
        when another worker takes it over, and Kafka fences its producer. A foreign client with our
        server_id, or a transaction of our own that the broker timed out, has the same effects."""
        if isinstance(error, Fenced | ServerIdConflict):
            signals = self._signals
            limit = _SHARED_SECONDS if signals.permit.lease.shared else _JOURNAL_SECONDS
            deadline = time.monotonic() + limit
            while time.monotonic() < deadline:
                if signals.superseded_by and signals.superseded_by == signals.set_in:
                    return RunRestarts("as an operator set its cursor")
                try:
                    signals.check()
                except (Fenced, LeadershipLost) as known:
                    return known
                await asyncio.sleep(_GLANCE_SECONDS)
            if isinstance(error, Fenced) and not signals.permit.lease.shared:
                # A worker that took the id and claims later is found in the journal by the next run.
                return KafkaLost(
                    "it ended our transaction, which was open for too long; the journal shows no other leader"
                )
        return error


def _seen(run: asyncio.Task[Any]) -> None:
    if not run.cancelled():
        run.exception()


async def _done(task: asyncio.Task[Any]) -> None:
    await asyncio.wait([task])


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them is done; the others are cancelled."""
    tasks = [asyncio.create_task(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
