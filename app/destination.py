"""One destination on this worker: run after run, until it is told to stop or only a person can help.

The law: one function decides what follows an error; a table that cannot be read does not stop the others.
"""

from __future__ import annotations

import asyncio
import logging
import time

from app import metrics
from app.central_store import Mirror
from app.plan import Plan, Signals
from app.policy import ErrorPolicy
from app.purge_watch import PurgeWatch
from app.run import Run
from app.sources import Sources
from app.status import DestinationStatus, State
from connectors.errors import (
    AqueductError,
    BeginsAnew,
    Fenced,
    ServerIdConflict,
    WitnessesDiffer,
)
from tables.checkpoint import Checkpoint
from tables.cursor import Cursor
from tables.quarantine import Resolution
from tables.source_choice import Asked

log = logging.getLogger(__name__)

_JOURNAL_SECONDS = 15.0
"""Within which another leader's claim reaches us through the journal, on a busy machine too."""
_GLANCE_SECONDS = 0.2


class Destination:
    """A destination on this worker, over all its runs."""

    def __init__(self, plan: Plan, checkpoint: Checkpoint, mirror: Mirror | None = None) -> None:
        self.plan = plan
        self.status = DestinationStatus(plan.name, schema_store=mirror.status if mirror else None)
        self._signals = Signals()
        self._run = Run(
            plan=plan,
            status=self.status,
            checkpoint=checkpoint,
            policy=ErrorPolicy(),
            signals=self._signals,
            mirror=mirror,
            sources=Sources(plan),
        )
        self._called = asyncio.Event()
        """Set when a person's command has set the cursor."""
        self._purge_watch = PurgeWatch(self.status, lambda: self._run.address)

    async def run(self) -> None:
        """Run until cancelled; after an error that only a person can mend, until the person has."""
        watch = asyncio.create_task(self._purge_watch.run())
        try:
            await self._run_again_and_again()
        except asyncio.CancelledError:
            self.status.show(State.STOPPED, None)
            raise
        finally:
            watch.cancel()

    async def _run_again_and_again(self) -> None:
        while True:
            self._called.clear()
            try:
                self.status.show(State.STARTING, None)
                await self._run.run()
            except BeginsAnew as why:
                log.info("%s: begins anew %s", self.plan.name, why.detail)
            except WitnessesDiffer as error:
                self._tell(error, State.RETRYING)
                self._run.unreadable.append(error)
            except AqueductError as raised:
                error_ = await self._true_cause(raised)
                if isinstance(error_, BeginsAnew):
                    log.info("%s: begins anew %s", self.plan.name, error_.detail)
                    continue
                decision = self._run.policy.decide(error_)
                self._tell(error_, decision.state)
                if decision.pause is None:
                    await self._called.wait()
                    log.info("%s: begins anew, as its cursor was set", self.plan.name)
                    continue
                await asyncio.sleep(decision.pause)

    def _tell(self, error: AqueductError, state: State) -> None:
        """Show why a run has ended."""
        error.where = {"destination": self.plan.name, **error.where}
        metrics.ERRORS.labels(self.plan.name, error.name).inc()
        if "event" in error.where:
            kind = str(error.where["event"])
            metrics.EVENTS.labels(self.plan.name, kind, "refused").inc()
        self.status.show(state, f"{error.name}: {error}")
        log.error("%s: %s: %s: %s", self.plan.name, state.value, error.name, error)

    def observe(self, cursor: Cursor) -> None:
        """Take note of a cursor that was folded from the journal: a greater epoch is another leader's."""
        if self._signals.epoch and cursor.epoch > self._signals.epoch:
            self._signals.superseded_by = cursor.epoch
        if cursor.by is not None and cursor.epoch > self._signals.epoch:
            # A person's command led for a moment, and leads no more.
            self._signals.set_in = cursor.epoch
            self._called.set()

    def resolve(self, resolution: Resolution) -> None:
        """Take note of a resolution that was folded from the journal; the next run tries it."""
        self._signals.resolution = resolution

    def ask(self, wish: Asked) -> None:
        """Take note of a wish for another source that was folded from the journal."""
        self._signals.wish = wish

    async def _true_cause(self, error: AqueductError) -> AqueductError:
        """MySQL drops the old connection of a destination when another worker takes it over; the journal
        tells that from a stranger with our server_id."""
        if isinstance(error, Fenced | ServerIdConflict):
            deadline = time.monotonic() + _JOURNAL_SECONDS
            while time.monotonic() < deadline:
                signals = self._signals
                if signals.superseded_by and signals.superseded_by == signals.set_in:
                    return BeginsAnew("as a person has set its cursor")
                try:
                    signals.check()
                except Fenced as fenced:
                    return fenced
                await asyncio.sleep(_GLANCE_SECONDS)
        return error
