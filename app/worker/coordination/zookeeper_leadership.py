"""Leadership shared through ZooKeeper: a worker joins, leads its share of the destinations, and hands over.

Invariant: what a session owns ends with it, and a new session begins with nothing. Each worker decides alone,
from the nodes that all workers see. If two decide differently, both try to create the same znode, and one of
them is refused.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app import metrics
from app.worker.coordination.assignment import leaders
from app.worker.coordination.cluster_view import Identity, Nodes, View, read_views
from app.worker.coordination.leadership import DestinationRunner, ended
from app.worker.coordination.zookeeper_lease import ZNodeLease
from connectors.backoff import Backoff
from connectors.errors import (
    AqueductError,
    CoordinationLost,
    LeadershipLost,
    NodeUnfit,
    WorkerIdTaken,
)
from connectors.zookeeper.protocol import NodeTaken, Opens, Session, SessionState, now

# The destinations that this worker leads: a task and a lease each.
#
# Invariant: a destination is listed from the creation of its znode to the end of its task, so
# none is led twice.


class LedDestinations:
    """Takes destinations, and ends them."""

    def __init__(
        self,
        runner: DestinationRunner,
        *,
        nodes: Nodes,
        identity: Identity,
        changed: Callable[[], None],
    ) -> None:
        self._runner, self._nodes, self._identity, self._changed = runner, nodes, identity, changed
        self._led: dict[str, tuple[asyncio.Task[None], ZNodeLease]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._led

    def __iter__(self) -> Iterator[str]:
        return iter(self._led)

    def __len__(self) -> int:
        return len(self._led)

    async def take(self, session: Session, name: str) -> bool:
        """Lead a destination; return False if another worker was faster."""
        path = self._nodes.running(name)
        try:
            node = await session.create(path, self._identity.data(), ephemeral=True)
        except NodeTaken:
            return False
        lease = ZNodeLease(session, path, node, self._identity)
        self.add(name, lease)
        metrics.LEADER.labels(name).set(1)
        metrics.TAKEOVERS.labels(name).inc()
        log.info("%s: is to be led here, term %d", name, lease.term)
        return True

    def add(self, name: str, lease: ZNodeLease) -> None:
        """Lead a destination under a lease."""
        task = asyncio.create_task(self._lead(name, lease))
        task.add_done_callback(lambda _: self._changed())
        self._led[name] = (task, lease)

    async def _lead(self, name: str, lease: ZNodeLease) -> None:
        try:
            await self._runner.lead(name, lease)
        finally:
            await lease.release()

    def reap(self) -> list[str]:
        """Forget destinations whose tasks have ended; return the destinations to be left alone for a while."""
        resting = []
        for name, (task, lease) in list(self._led.items()):
            if not task.done():
                continue
            del self._led[name]
            metrics.show_candidates(self._runner.wanted(), self._led)
            error = None if task.cancelled() else task.exception()
            if error is None:
                continue
            if not isinstance(error, AqueductError):
                log.error("%s: is led no more", name, exc_info=error)
            if not lease.ended.is_set() or isinstance(error, LeadershipLost):
                resting.append(name)
            metrics.LEADERSHIP_LOST.labels(name).inc()
            log.warning("%s: led no more: %s", name, error)
        return resting

    async def confirm(self, session: Session) -> None:
        """Read the znode of each lease, which also keeps the leases alive."""
        leases = [(name, lease) for name, (_, lease) in self._led.items()]
        read = await asyncio.gather(
            *(session.read(self._nodes.running(name)) for name, _ in leases)
        )
        for (_, lease), node in zip(leases, read, strict=True):
            lease.believe(node)

    def hand_over(self, name: str) -> None:
        """Begin the orderly end of leading a destination, unless it is ending already."""
        task, lease = self._led[name]
        if not lease.ended.is_set() and not task.cancelling():
            task.cancel()

    def revoke(self, reason: str) -> None:
        """End all leases: nothing more is written."""
        for _, lease in self._led.values():
            lease.end(reason)

    async def end(self) -> None:
        """End all leadership in an orderly way, and wait until it has ended."""
        await ended(task for task, _ in self._led.values())


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
            # Withdraw as a candidate first, so that no worker counts on this one; then end all
            # leadership.
            await member.withdraw(candidacies(self._views, self._identity.worker))
            log.info("leaves the others, %d destination(s) to be handed over", len(self._led))
            await self._led.end()
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
                if await self._led.take(session, name):
                    self._vacant.filled(name)
                else:
                    self._wake.set()
        unwanted = {*self._led} - set(self._runner.wanted())
        moving = self._moves.due(self._led, plan, self._identity.worker, now())
        for name in (*unwanted, *moving[:1]):
            self._led.hand_over(name)

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


# How long a worker waits before it takes a destination, requests it again, or hands it over.
#
# Invariant: the time is passed in, never read; a wait counts only while its cause stays the same.

OTHERS_TURN_SECONDS = 1.5
"""The time reserved for the assigned worker; after it, any worker takes a destination without a leader."""
_LONGEST_REST = 30.0
"""The longest rest after a destination was lost in a way that may happen again."""


@dataclass(slots=True)
class RestPeriods:
    """Destinations that were lost and are not requested for a while, which grows each time."""

    _until: dict[str, tuple[float, Backoff]] = field(default_factory=dict)
    """When the rest of each destination ends, and the backoff that gives its next rest."""

    def begin(self, name: str, now: float) -> None:
        """Record that a destination was lost."""
        until, backoff = self._until.get(name, (now, Backoff(1.0, _LONGEST_REST)))
        if now - until >= 2 * _LONGEST_REST:
            backoff.reset()
        self._until[name] = (now + backoff.pause(), backoff)

    def has(self, name: str, now: float) -> bool:
        """Return whether a destination is to be left alone."""
        return name in self._until and self._until[name][0] > now

    def ends(self, now: float) -> list[float]:
        """Return the times at which resting destinations may be requested again."""
        return [until for until, _ in self._until.values() if until > now]


@dataclass(slots=True)
class Vacancies:
    """Destinations without a leader, and since when."""

    _since: dict[str, float] = field(default_factory=dict)

    def seen(self, name: str, now: float) -> None:
        """Record that a destination has no leader."""
        self._since.setdefault(name, now)

    def filled(self, name: str) -> None:
        """Record that a destination has a leader."""
        self._since.pop(name, None)

    def is_anybodys(self, name: str, now: float) -> bool:
        """Return whether the turn of the assigned worker is over."""
        return now - self._since.get(name, now) > OTHERS_TURN_SECONDS

    def ends(self) -> list[float]:
        """Return the times from which any worker may take each destination."""
        return [since + OTHERS_TURN_SECONDS for since in self._since.values()]


@dataclass(slots=True)
class PlannedMoves:
    """Destinations led here that should be led elsewhere, and since when."""

    delay: float
    _since: dict[str, tuple[str, float]] = field(default_factory=dict)

    def due(self, led: Iterable[str], plan: Mapping[str, str], me: str, now: float) -> list[str]:
        """Return, in order, the destinations that one other worker should have led for the whole delay."""
        before, self._since = self._since, {}
        for name in led:
            better = plan.get(name, me)
            if better != me:
                known, since = before.get(name, ("", now))
                self._since[name] = (better, since if known == better else now)
        return sorted(name for name, (_, since) in self._since.items() if now - since >= self.delay)


# The znodes of one worker in one session: that it is alive, and which destinations it could lead.
#
# Invariant: all of them are ephemeral and owned by this session. A node made by hand would
# outlive every session, so it is replaced where that is safe and refused by name elsewhere.


class Membership:
    """A worker's nodes, as other workers see them."""

    def __init__(self, session: Session, nodes: Nodes, identity: Identity) -> None:
        self._session, self._nodes, self._identity = session, nodes, identity

    async def join(self, prefix: str) -> None:
        """Claim the root for this installation and register the worker.

        Raise NodeUnfit if the root belongs to another installation, WorkerIdTaken if the id is in use.
        """
        await self._claim_root(prefix.encode())
        await self._own(self._nodes.worker(self._identity.worker), self._identity.data())

    async def confirm(self) -> None:
        """Register the worker again if its znode is gone; raise WorkerIdTaken if another session has it."""
        path = self._nodes.worker(self._identity.worker)
        node = await self._session.read(path)
        if node is None or node.owner != self._session.id:
            await self._own(path, self._identity.data())

    async def update(self, name: str, view: View, *, wanted: bool, ready: bool) -> View:
        """Add, update or remove this worker as a destination's candidate; return the view with that change."""
        me, path = self._identity.worker, self._nodes.candidate(name, self._identity.worker)
        is_candidate, shown_ready = me in view.candidates, me in view.ready
        if wanted and (not is_candidate or shown_ready != ready):
            node = await self._session.read(path)
            if node is not None and node.owner == 0:
                await self._session.delete(path)
            await self._own(path, self._identity.offer(ready=ready))
            return view.with_candidate(me, ready=ready)
        if not wanted and is_candidate:
            await self._session.delete(path)
            return view.without_candidate(me)
        return view

    async def withdraw(self, names: Iterable[str]) -> None:
        """Remove this worker from the candidates, as far as ZooKeeper allows it."""
        await asyncio.gather(
            *(
                self._session.delete(self._nodes.candidate(name, self._identity.worker))
                for name in names
            ),
            return_exceptions=True,
        )

    async def _claim_root(self, prefix: bytes) -> None:
        root = self._nodes.root
        try:
            await self._session.create(root, prefix, ephemeral=False)
        except NodeTaken:
            node = await self._session.read(root)
            if node is not None and not node.data:
                await self._session.write(root, prefix)
            elif node is not None and node.data != prefix:
                raise NodeUnfit(
                    f"{root} is of prefix {node.data.decode(errors='replace')!r}",
                    remedy="Give each installation a zookeeper.root of its own.",
                ) from None

    async def _own(self, path: str, data: bytes) -> None:
        """Create or update a node of this session; raise WorkerIdTaken or NodeUnfit if it has another owner."""
        try:
            await self._session.create(path, data, ephemeral=True)
        except NodeTaken:
            node = await self._session.read(path)
            if node is not None and node.owner == 0:
                raise NodeUnfit(f"{path} does not end with a session") from None
            if node is not None and node.owner != self._session.id:
                raise WorkerIdTaken(f"{self._identity.worker!r} has {path}") from None
            if node is not None and node.data != data:
                await self._session.write(path, data)


def candidacies(views: dict[str, View], worker: str) -> Collection[str]:
    """The destinations that a worker is a candidate for."""
    return [name for name, view in views.items() if worker in view.candidates]


# Coordination on the status page: the session, and who leads a destination or why this worker
# does not.


def session_report(
    session: Session | None, views: Mapping[str, View], error: str | None
) -> dict[str, Any]:
    """The session and the workers that it sees."""
    workers = {worker for view in views.values() for worker in view.candidates}
    return {
        "state": "none" if session is None else session.state.value,
        "session": None if session is None else f"0x{session.id:x}",
        "timeout_seconds": None if session is None else session.timeout,
        "workers": sorted(workers),
        "error": error,
    }


def leader_report(view: View | None, *, here: bool) -> dict[str, Any]:
    """Return the leader and the candidates of a destination."""
    return {
        "here": here,
        "vacant": view is not None and not view.exists and not here,
        "worker": view.leader if view else None,
        "address": view.address if view else None,
        "candidates": sorted(view.candidates) if view else [],
    }


def reason_not_led(view: View, path: str, *, is_wanted: bool) -> str:
    """Why this worker does not lead a destination whose znode is at ``path``."""
    if view.exists and view.owner == 0:
        unfit = NodeUnfit(f"{path} does not end with a session")
        return f"{unfit.name}: {unfit}"
    if view.exists:
        return f"{view.leader} leads it"
    if not is_wanted:
        return "it was lost here a moment ago, or is not requested"
    return "it is about to be taken"
