"""Supervisor of one destination on this worker: run after run, while it is to be led.

Invariant: one function decides what follows an error; an unreadable table does not stop other tables.
A run that is asked to end finishes its open transaction; a run that has lost leadership ends at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from app import metrics
from app.worker.coordination.zookeeper_lease import Lease
from app.worker.destination.failover.source_selection import Sources
from app.worker.destination.plan import Following, Plan, Signals, at_once
from app.worker.destination.purge_watch import PurgeWatch
from app.worker.destination.source_agent import SourceAgent
from app.worker.mapping_versions.choice import MappingChoice
from app.worker.mapping_versions.watch import Mappings
from app.worker.schemas.store_mirror import Mirror
from app.worker.status import TO_PUBLISH, DestinationStatus, State
from app.worker.unit.retry_policy import ErrorPolicy
from app.worker.unit.run_loop import Unit
from connectors.errors import (
    AqueductError,
    Fenced,
    KafkaLost,
    LeadershipLost,
    RunRestarts,
    ServerIdConflict,
    WitnessesDiffer,
)
from connectors.mysql.lookup.binlog_end import BinlogEnd, read_end, seconds_unread
from connectors.mysql.position import SourceOffset
from connectors.mysql.server.connection import SourceAddress
from tables.journal_kind import Addressed, Kind
from tables.state.cursor import CURSOR, Claimed, cursor_key
from tables.state.journal.checkpoint import Checkpoint, records_of
from tables.state.journal.kinds import Kinds
from tables.state.journal.state import DestinationState, fold
from tables.state.operator_requests import SOURCE, Control, DesiredState, SourceRequest

log = logging.getLogger(__name__)
_JOURNAL_SECONDS = 15.0
"""The maximum delay of another leader's claim in the journal, on a busy machine too."""
_SHARED_SECONDS = 3.0
"""The same with coordination, where this worker gives up leadership and may regain it."""
_GLANCE_SECONDS = 0.2
_BETWEEN_RUNS = (State.PAUSED, State.FAILED, State.RETRYING)
"""States in which no run has taken over."""
_LAST = Kinds((CURSOR, SOURCE))
"""The journal's records of how far a destination is published, and from which source."""


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
        """``mappings``: the mapping's versions; None if the mapping is read from a file."""
        self.status = DestinationStatus(plan.name, schema_store=mirror.status if mirror else None)
        self._checkpoint, self._mirror = checkpoint, mirror
        self._mapping: MappingChoice | None = None
        if mappings is not None:
            self._mapping = MappingChoice(
                destination=plan.name, mappings=mappings, status=self.status
            )
        self._signals = Signals(following=following)
        self._reactions: dict[Kind[Any], Callable[[Any], object]] = {
            CURSOR: self.observe,
            SOURCE: self.consider,
        }
        """Immediate handlers of notices, by kind."""
        self._plan(plan)
        self._unit = Unit(
            name=plan.name,
            status=self.status,
            run=lambda: self._run.run(),
            permit=self._signals.permit,
            requests=self._signals.requests,
            policy=lambda: self._run.policy,
            cause=self._cause,
            failed_seconds=None,
        )
        """The part that destinations have in common with merges and logical schemas."""
        self._seen = 0
        """The last epoch claimed by a leader, as far as this worker has followed the journal."""
        self._is_recalled = False
        """Whether this worker knows the journal's cursor and source, as far as no run reads them."""
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
        """End the run, so that the next run proves its position; a server does not report that it was reset."""
        self._signals.leave = RunRestarts(
            "to prove its position: the source's binlog ends before it"
        )

    @property
    def has_leader(self) -> bool:
        """Whether a worker is to lead the destination, by the last request known here."""
        return self._unit.has_leader

    @property
    def request(self) -> Control | None:
        return self._unit.request

    def outcome(self, *, here: bool, alone: bool) -> tuple[str, str | None, int] | None:
        signals = self._signals
        if alone and self._seen > signals.led:
            # Without ZooKeeper, only the last leader answers for the destination.
            return None
        return signals.requests.outcome(
            self.status.state, self.status.error, signals.epoch, here=here
        )

    @property
    def desired(self) -> DesiredState:
        """The desired state."""
        return self._signals.requests.desired

    async def lead(self, lease: Lease) -> None:
        """Lead the destination as any unit, with the watches of its source beside its runs."""
        # Another worker may have led meanwhile.
        self._is_recalled = False
        watches = [
            asyncio.create_task(self._recall()),
            asyncio.create_task(self._purge_watch.run()),
            asyncio.create_task(self._lag_watch.run()),
        ]
        try:
            await self._unit.lead(lease)
        finally:
            for watch in watches:
                watch.cancel()
            self._signals.epoch = 0

    def rest(self) -> None:
        """Show that the destination is not led here."""
        self._unit.rest()

    async def _recall(self) -> None:
        """Show the journal's cursor and source for the watches while no run reads them, until cancelled.

        A worker may have started, or taken over, while the destination was paused.
        """
        is_reported = False
        while True:
            if self.status.state is State.RUNNING:
                self._is_recalled = True
            elif self.status.state in _BETWEEN_RUNS and not self._is_recalled:
                # Set first, as an operator's command may set the cursor meanwhile.
                self._is_recalled = True
                try:
                    self._show_last(await self._read_last())
                except AqueductError as error:
                    self._is_recalled = False
                    if not is_reported:
                        log.warning(
                            "%s: how far it is published is not known: %s", self.status.name, error
                        )
                    is_reported = True
                    await asyncio.sleep(_JOURNAL_SECONDS)
            await asyncio.sleep(_GLANCE_SECONDS)

    async def _read_last(self) -> DestinationState:
        """The cursor and the source in the journal; raise AqueductError."""
        name, rows = self.plan.name, self._checkpoint.rows
        state = fold(name, records_of(name, rows), kinds=_LAST)
        row = rows.get(cursor_key(name).decode())
        await self.plan.journal.read(state.apply, start=int(row["offset"]) if row else 0)
        state.check_readable()
        return state

    def _show_last(self, state: DestinationState) -> None:
        """Show a cursor that no run has got beyond, and let the watches ask the server that it is of."""
        cursor, known = state.cursor, self.status.cursor
        if cursor is None or self.status.state not in _BETWEEN_RUNS:
            return
        if known is None or (cursor.epoch, cursor.seq) >= (known.epoch, known.seq):
            self.status.cursor = cursor
            address = self._run.sources.read_last(state.source_choice).address
            self._run.address = replace(address, server=cursor.offset.server_uuid)

    async def _cause(self, error: AqueductError) -> AqueductError | None:
        """The true cause of an error that ended a run; None if the next run begins at once."""
        if isinstance(error, WitnessesDiffer):
            self._unit.report(error, State.RETRYING)
            for other in error.others:
                other.context = {"destination": self.plan.name, **other.context}
                log.error("%s: %s: %s", self.plan.name, other.name, other)
            self._run.unreadable.append(error)
            return None
        error = await self._true_cause(error)
        if isinstance(error, RunRestarts):
            log.info("%s: starts a new run %s", self.plan.name, error.detail)
            return None
        return error

    def observe(self, cursor: Claimed) -> None:
        """Record a cursor committed in the journal: a greater epoch is another leader's."""
        if cursor.by is None:
            self._seen = max(self._seen, cursor.epoch)
        if self._signals.epoch and cursor.epoch > self._signals.epoch:
            self._signals.superseded_by = cursor.epoch
        if cursor.by is not None and cursor.epoch > self._signals.epoch:
            # An operator's command set the cursor, and led for a moment only.
            self._is_recalled = False
            self._signals.set_in = cursor.epoch
            self._signals.requests.called.set()

    def prepare(self, installation: str) -> None:
        """Set the installation id that a takeover needs first, and confirms later."""
        self._signals.installation = self._signals.installation or installation

    def kafka(self, lost: AqueductError | None) -> None:
        """Record that Kafka does not answer, or that it answers again (None)."""
        self._signals.kafka_lost = lost

    def notify(self, kind: Kind[Any], notice: Addressed) -> None:
        """Handle a notice committed in the journal by the handler of its kind.

        Without a handler, end the present wait; the next run acts on the notice.
        """
        self._signals.notify(kind, notice)
        react = self._reactions.get(kind)
        if react is None:
            self._signals.requests.called.set()
        else:
            react(notice)

    def mapping_changed(self) -> None:
        """Show a new version of the mapping, and end the present wait: it may be the correction waited for."""
        if self._mapping is not None:
            self._mapping.show()
            self._signals.requests.called.set()

    def consider(self, request: SourceRequest) -> None:
        """End the present wait if a request for another source is new; the next run tries it."""
        if request.ts_ms > self._signals.tried_ms:
            self._signals.requests.called.set()

    def learn(self, control: Control) -> None:
        """Record a request from before this worker started."""
        self._unit.learn(control)

    def obey(self, control: Control) -> bool:
        """Record a desired state committed in the journal; return whether it is a change."""
        is_other = self._unit.obey(control)
        if is_other:
            self._signals.claimed = 0
            self._run.forget_dead_letters()
        return is_other

    def replan(self, plan: Plan) -> None:
        """Restart with other settings."""
        self._plan(plan)
        self._is_recalled = False
        self._signals.requests.interrupted.set()

    async def _true_cause(self, error: AqueductError) -> AqueductError:
        """The true cause of an error, as the journal shows it.

        MySQL drops a destination's old connection when another worker takes the destination over, and
        Kafka fences the old producer. A foreign client with our server_id, or a transaction of ours that
        the broker timed out, has the same effects.
        """
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
                # If a worker took the id and claims later, the next run finds its claim in the journal.
                return KafkaLost(
                    "it ended our transaction, which was open for too long; the journal shows no other leader"
                )
        return error


_MEASURE_SECONDS = 10.0
"""The interval between two checks, and the accuracy of the age."""
_MOST = 1000


@dataclass(slots=True)
class PendingEnds:
    """Ends of one source's binlog that the cursor has not reached, each with its time."""

    _seen: deque[tuple[float, BinlogEnd]] = field(default_factory=lambda: deque(maxlen=_MOST))
    _source: str = ""

    def began(self, then: float, offset: SourceOffset, end: BinlogEnd) -> None:
        """Note that a source passed an offset at a time before this worker asked; it has this end now."""
        self._keep(offset)
        self._seen.appendleft((then, end))

    def _keep(self, offset: SourceOffset) -> None:
        """Forget the ends of another source than the offset's."""
        if offset.server_uuid != self._source:
            self._seen.clear()
            self._source = offset.server_uuid

    def seconds(self, now: float, offset: SourceOffset, end: BinlogEnd | None) -> float:
        """Seconds since the source passed an offset; ``end`` is None if it did not answer."""
        self._keep(offset)
        if end is not None and (not self._seen or self._seen[-1][1] != end):
            if len(self._seen) == _MOST:
                # The oldest end counts; any end in between may be dropped.
                del self._seen[_MOST // 2]
            self._seen.append((now, end))
        while self._seen and not self._seen[0][1].is_past(offset):
            self._seen.popleft()
        return now - self._seen[0][0] if self._seen else 0.0


@dataclass(slots=True)
class LagWatch:
    """The watch of one destination on this worker."""

    status: DestinationStatus
    address: Callable[[], SourceAddress | None]
    """The source read now or last; None before the first."""
    went_back: Callable[[], None]
    """Called if the binlog ends before the cursor."""
    _unread: PendingEnds = field(default_factory=PendingEnds)
    _reported: SourceOffset | None = None
    """The last cursor offset that was past the end; reported once, as the next run proves it."""

    async def run(self) -> None:
        """Check at intervals, until cancelled."""
        has_answered = False
        while True:
            address, before = self.address(), self._running_at()
            if address is not None and self.status.state in TO_PUBLISH:
                try:
                    end = await asyncio.to_thread(read_end, address)
                    if not has_answered and self.status.state in _BETWEEN_RUNS:
                        await self._find_oldest(address, end)
                    has_answered = True
                except AqueductError:
                    end = None  # reported by the run; ends not reached grow older
                if has_answered:
                    self._show(end)
                if before is not None and end is not None:
                    self._compare(before, end)
            await asyncio.sleep(_MEASURE_SECONDS)

    async def _find_oldest(self, address: SourceAddress, end: BinlogEnd) -> None:
        """Take what was unread before this watch began as old as it is."""
        cursor = self.status.cursor
        if cursor is None or not end.is_past(cursor.offset):
            return
        try:
            seconds = await asyncio.to_thread(seconds_unread, address, cursor.offset)
        except AqueductError as error:
            # The server may have purged it; the age is counted from now on.
            log.info("%s: how old its unread changes are is not known: %s", self.status.name, error)
        else:
            self._unread.began(time.monotonic() - seconds, cursor.offset, end)

    def _running_at(self) -> SourceOffset | None:
        """The cursor's offset while the source is read; None if there is no run to react to ``went_back``."""
        cursor = self.status.cursor
        return cursor.offset if cursor is not None and self.status.state is State.RUNNING else None

    def _compare(self, before: SourceOffset, end: BinlogEnd) -> None:
        """Call ``went_back`` if an end that was queried later is before the offset."""
        if end.is_before(before) and before != self._reported:
            self._reported = before
            self.went_back()

    def _show(self, end: BinlogEnd | None) -> None:
        cursor = self.status.cursor
        if cursor is not None and self.status.state in TO_PUBLISH:
            seconds = self._unread.seconds(time.monotonic(), cursor.offset, end)
            self.status.unread_seconds = seconds
            metrics.UNREAD.labels(self.status.name).set(seconds)
            if seconds > (self.status.lag_seconds or 0.0):
                # Otherwise the lag would stay that of the last commit, however long ago it was.
                self.status.lag_seconds = seconds
                metrics.LAG.labels(self.status.name).set(seconds)
