"""Leadership shared through ZooKeeper: a worker joins, leads its share of the destinations, and hands over.

Invariant: what a session owns ends with it, and a new session begins with nothing. Each worker decides alone,
from the nodes that all workers see. If two decide differently, both try to create the same znode, and one of
them is refused.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

from app import metrics
from app.worker.coordination.assignment import leaders
from app.worker.coordination.cluster_view import View, read_views
from app.worker.coordination.delays import PlannedMoves, RestPeriods, Vacancies
from app.worker.coordination.leadership import DestinationRunner
from app.worker.coordination.led_destinations import LedDestinations
from app.worker.coordination.membership import Membership, candidacies
from app.worker.coordination.report import leader_report, reason_not_led, session_report
from app.worker.coordination.znodes import Identity, Nodes
from connectors.errors import AqueductError, CoordinationLost
from connectors.zookeeper.protocol import Opens, Session, SessionState, now

log = logging.getLogger(__name__)

_TICKS = 6
"""Confirmations of this worker's znodes within a session's time-out."""
_LOOK_SECONDS = 5.0
"""The interval of reads of the cluster if ZooKeeper reports no change, in case a report was missed."""
_SETTLE_SECONDS = 1.0
"""The wait before anything is taken, for the sake of workers that start at the same time."""
_LEAVE_SECONDS = 20.0


class ZooKeeperLeadership:
    """The leadership of one of several workers."""

    def __init__(
        self,
        runner: DestinationRunner,
        opens: Opens,
        *,
        identity: Identity,
        nodes: Nodes,
        prefix: str,
        delay: float,
    ) -> None:
        self._runner, self._opens = runner, opens
        self._identity, self._nodes, self._prefix = identity, nodes, prefix
        self._wake, self._has_left = asyncio.Event(), asyncio.Event()
        self._is_leaving = False
        self._session: Session | None = None
        self._error: str | None = None
        self._views: dict[str, View] = {}
        self._looked = 0.0
        self._offered: tuple[set[str], bool] = (set(), False)
        """The destinations that this worker last offered to lead, and whether without delay."""
        self._led = LedDestinations(runner, nodes=nodes, identity=identity, changed=self.wake)
        self._vacant, self._moves, self._rests = Vacancies(), PlannedMoves(delay), RestPeriods()
        self._may_take = 0.0

    async def run(self) -> None:
        self._may_take = now() + _SETTLE_SECONDS
        metrics.COORDINATION.set(0)
        while not self._is_leaving:
            try:
                async with self._opens(self._wake.set) as session:
                    await self._in_session(session)
            except AqueductError as error:
                self._report(error)
            except Exception as error:
                log.exception("this worker's part among others")
                self._error = f"{type(error).__name__}: {error}"
            if not self._is_leaving:
                await asyncio.sleep(random.uniform(0.2, 1.0))  # noqa: S311 - not for a secret
        self._has_left.set()

    async def leave(self) -> None:
        self._is_leaving = True
        self.wake()
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._has_left.wait()
        except TimeoutError:
            log.error("shutdown timed out; destinations still led: %s", ", ".join(self._led))

    def wake(self) -> None:
        self._wake.set()

    def _report(self, error: AqueductError) -> None:
        text = f"{error.name}: {error}"
        if text != self._error:
            log.error("%s", text)
        self._error = text

    async def _in_session(self, session: Session) -> None:
        member = Membership(session, self._nodes, self._identity)
        self._session, self._views, self._looked = session, {}, 0.0
        try:
            await member.join(self._prefix)
            self._error = None
            metrics.COORDINATION.set(1)
            log.info("a session with ZooKeeper, 0x%x, of %.1f s", session.id, session.timeout)
            while not self._is_leaving:
                await self._turn(session, member)
            await self._go(member)
        finally:
            metrics.COORDINATION.set(0)
            self._led.revoke("the session with ZooKeeper is over")
            await self._led.end()
            self._reap()
            self._session, self._views = None, {}

    async def _turn(self, session: Session, member: Membership) -> None:
        """Wait until there may be something to do, and do it."""
        is_notified = await self._waited(session)
        silent = now() - session.answered
        if session.state is SessionState.OVER or silent > session.timeout:
            raise CoordinationLost(f"the session is over, {silent:.1f} s after the last answer")
        if _is_suspended(session):
            return
        try:
            self._reap()
            await asyncio.gather(member.confirm(), self._led.confirm(session))
            is_other = self._offered != (self._may_lead(), self._runner.is_ready())
            if is_notified or is_other or now() - self._looked > _LOOK_SECONDS:
                await self._look(session, member)
            await self._act(session)
        except CoordinationLost as error:
            if not _is_suspended(session):
                raise
            self._report(error)

    async def _waited(self, session: Session) -> bool:
        """Wait for a change, or until there may be something to do; return whether there was a change."""
        try:
            async with asyncio.timeout(self._timeout(session)):
                await self._wake.wait()
        except TimeoutError:
            pass
        is_notified = self._wake.is_set()
        self._wake.clear()
        return is_notified

    def _timeout(self, session: Session) -> float:
        tick = session.timeout / _TICKS
        waits = [*self._vacant.ends(), *self._rests.ends(now()), self._may_take]
        return min([tick, *(at - now() + 0.01 for at in waits if at > now())])

    def _reap(self) -> None:
        for name in self._led.reap():
            self._rests.begin(name, now())

    def _may_lead(self) -> set[str]:
        return {name for name in self._runner.wanted() if not self._rests.has(name, now())}

    async def _look(self, session: Session, member: Membership) -> None:
        """Read the nodes of all destinations, and offer to lead those that this worker could lead."""
        self._looked = now()
        wanted, ready = self._offered = self._may_lead(), self._runner.is_ready()
        names = {*await session.children(self._nodes.destinations), *self._runner.wanted()}
        self._views = await read_views(session, self._nodes, names)
        metrics.show_candidates(self._runner.wanted(), self._led)
        for name, view in self._views.items():
            self._views[name] = await member.update(name, view, wanted=name in wanted, ready=ready)
            if view.owner == session.id and name not in self._led:
                # Created by a request whose answer was lost: this worker does not lead under it.
                await session.delete(self._nodes.running(name))

    async def _act(self, session: Session) -> None:
        """Take what this worker should lead; hand over what it must not lead, and one that should move."""
        plan = leaders({name: view.seen() for name, view in self._views.items()})
        wanted = self._may_lead()
        for name, view in self._views.items():
            if view.exists:
                self._vacant.filled(name)
                continue
            self._vacant.seen(name, now())
            is_mine = plan.get(name) == self._identity.worker
            is_due = is_mine or self._vacant.is_anybodys(name, now())
            if is_due and name in wanted and name not in self._led and now() >= self._may_take:
                await self._take(session, name)
        unwanted = {*self._led} - set(self._runner.wanted())
        moving = self._moves.due(self._led, plan, self._identity.worker, now())
        for name in (*unwanted, *moving[:1]):
            self._led.hand_over(name)

    async def _take(self, session: Session, name: str) -> None:
        if await self._led.take(session, name):
            self._vacant.filled(name)
        else:
            self._wake.set()

    async def _go(self, member: Membership) -> None:
        """Withdraw as a candidate first, so that no worker counts on this one; then end all leadership."""
        await member.withdraw(candidacies(self._views, self._identity.worker))
        log.info("leaves the others, %d destination(s) to be handed over", len(self._led))
        await self._led.end()

    def to_json(self) -> dict[str, Any] | None:
        return session_report(self._session, self._views, self._error)

    def why(self, name: str) -> dict[str, Any]:
        view, here = self._views.get(name), name in self._led
        report = leader_report(view, here=here)
        return report if here else {**report, "why_not": self._why_not(name, view)}

    def _why_not(self, name: str, view: View | None) -> str:
        if self._session is None or view is None:
            return self._error or "ZooKeeper has not been asked yet"
        return reason_not_led(view, self._nodes.running(name), is_wanted=name in self._may_lead())


def _is_suspended(session: Session) -> bool:
    return session.state is SessionState.SUSPENDED
