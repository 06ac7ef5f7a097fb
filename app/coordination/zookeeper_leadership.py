"""A worker among others: it joins, looks at who leads what, takes what is its own to lead, hands over, leaves.

The law: what a session holds ends with it, and a new one begins with nothing. Each worker acts for itself on
what all of them see; two that saw different things make the same node, and one of them is refused.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

from app import metrics
from app.coordination.assignment import leaders
from app.coordination.cluster_view import View, looked
from app.coordination.delays import Moves, Rests, Vacancies
from app.coordination.leadership import Troupe, ended
from app.coordination.lease import NodeLease
from app.coordination.znodes import Identity, Nodes
from connectors.errors import (
    AqueductError,
    CoordinationLost,
    LeadershipLost,
    NodeUnfit,
    WorkerIdTaken,
)
from connectors.zookeeper.protocol import NodeTaken, Opens, Session, SessionState, now

log = logging.getLogger(__name__)

_TICKS = 6
"""In a session's time; at each the servers are asked whether what is ours still is."""
_LOOK_SECONDS = 5.0
"""Between two looks when nothing is told, in case something was not."""
_SETTLE_SECONDS = 1.0
"""For others that start at the same time, before anything is taken."""
_LEAVE_SECONDS = 20.0


class Shared:
    """See the module."""

    def __init__(
        self,
        troupe: Troupe,
        opens: Opens,
        *,
        who: Identity,
        nodes: Nodes,
        prefix: str,
        delay: float,
    ) -> None:
        self._troupe, self._opens = troupe, opens
        self._who, self._nodes, self._prefix = who, nodes, prefix
        self._wake = asyncio.Event()
        self._left = asyncio.Event()
        self._is_leaving = False
        self._session: Session | None = None
        self._error: str | None = None
        self._view: dict[str, View] = {}
        self._looked = 0.0
        self._offered: tuple[set[str], bool] = (set(), False)
        """What this worker said it could lead, and whether without delay."""
        self._led: dict[str, tuple[asyncio.Task[None], NodeLease]] = {}
        self._vacant, self._moves, self._rests = Vacancies(), Moves(delay), Rests()
        self._may_take = 0.0

    async def run(self) -> None:
        """See Leadership."""
        self._may_take = now() + _SETTLE_SECONDS
        metrics.COORDINATION.set(0)
        while not self._is_leaving:
            try:
                async with self._opens(self._wake.set) as session:
                    await self._in_session(session)
            except AqueductError as error:
                self._tell(error)
            except Exception as error:
                log.exception("this worker's part among others")
                self._error = f"{type(error).__name__}: {error}"
            if not self._is_leaving:
                await asyncio.sleep(random.uniform(0.2, 1.0))  # noqa: S311 - not for a secret
        self._left.set()

    async def leave(self) -> None:
        """See Leadership."""
        self._is_leaving = True
        self.wake()
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._left.wait()
        except TimeoutError:
            log.error("this worker leaves without having ended all that it leads")

    def wake(self) -> None:
        """See Leadership."""
        self._wake.set()

    def _tell(self, error: AqueductError) -> None:
        told = f"{error.name}: {error}"
        if told != self._error:
            log.error("%s", told)
        self._error = told

    async def _in_session(self, session: Session) -> None:
        self._session, self._view, self._looked = session, {}, 0.0
        try:
            await self._join(session)
            self._error = None
            metrics.COORDINATION.set(1)
            log.info("a session with ZooKeeper, 0x%x, of %.1f s", session.id, session.timeout)
            while not self._is_leaving:
                await self._turn(session)
            await self._go(session)
        finally:
            metrics.COORDINATION.set(0)
            for _, lease in self._led.values():
                lease.end("the session with ZooKeeper is over")
            await ended(task for task, _ in self._led.values())
            self._reap()
            self._session, self._view = None, {}

    async def _join(self, session: Session) -> None:
        """Say that this worker lives, below a root that is this installation's."""
        root, mine = self._nodes.root, self._prefix.encode()
        try:
            await session.create(root, mine, ephemeral=False)
        except NodeTaken:
            node = await session.read(root)
            if node is not None and not node.data:
                await session.write(root, mine)
            elif node is not None and node.data != mine:
                raise NodeUnfit(
                    f"{root} is of prefix {node.data.decode(errors='replace')!r}",
                    remedy="Give each installation a zookeeper.root of its own.",
                ) from None
        await self._own(session, self._nodes.worker(self._who.worker), self._who.data())

    async def _own(self, session: Session, path: str, data: bytes) -> None:
        """Have a node of this worker's; raise WorkerIdTaken where it is another's."""
        try:
            await session.create(path, data, ephemeral=True)
        except NodeTaken:
            node = await session.read(path)
            if node is not None and node.owner == 0:
                raise NodeUnfit(f"{path} does not end with a session") from None
            if node is not None and node.owner != session.id:
                raise WorkerIdTaken(f"{self._who.worker!r} has {path}") from None
            if node is not None and node.data != data:
                await session.write(path, data)

    async def _offer(self, session: Session, path: str, *, ready: bool) -> None:
        """Be a candidate. One that somebody made by hand in its place is nobody's, and would stay for ever."""
        node = await session.read(path)
        if node is not None and node.owner == 0:
            await session.delete(path)
        await self._own(session, path, self._who.offer(ready=ready))

    async def _turn(self, session: Session) -> None:
        """Wait for something to do, and do it."""
        try:
            async with asyncio.timeout(self._patience(session)):
                await self._wake.wait()
        except TimeoutError:
            pass
        is_told = self._wake.is_set()
        self._wake.clear()
        silent = now() - session.answered
        if session.state is SessionState.OVER or silent > session.timeout:
            raise CoordinationLost(f"the session is over, {silent:.1f} s after the last answer")
        if _is_suspended(session):
            return
        try:
            self._reap()
            await self._confirm(session)
            is_other = self._offered != (self._may_lead(), self._troupe.is_ready())
            if is_told or is_other or now() - self._looked > _LOOK_SECONDS:
                await self._look(session)
            await self._act(session)
        except CoordinationLost as error:
            if not _is_suspended(session):
                raise
            self._tell(error)

    def _patience(self, session: Session) -> float:
        tick = session.timeout / _TICKS
        waits = [*self._vacant.ends(), *self._rests.ends(now()), self._may_take]
        return min([tick, *(at - now() + 0.01 for at in waits if at > now())])

    def _reap(self) -> None:
        """Take note of what is led no more."""
        for name, (task, lease) in list(self._led.items()):
            if not task.done():
                continue
            del self._led[name]
            metrics.show_candidates(self._troupe.wanted(), self._led)
            error = None if task.cancelled() else task.exception()
            if error is None:
                continue
            if not isinstance(error, AqueductError):
                log.error("%s: is led no more", name, exc_info=error)
            if not lease.ended.is_set() or isinstance(error, LeadershipLost):
                self._rests.begin(name, now())
            metrics.LEADERSHIP_LOST.labels(name).inc()
            log.warning("%s: led no more: %s", name, error)

    def _may_lead(self) -> set[str]:
        return {name for name in self._troupe.wanted() if not self._rests.has(name, now())}

    async def _confirm(self, session: Session) -> None:
        """Ask whether what is ours still is; this is what keeps leases going, too."""
        path = self._nodes.worker(self._who.worker)
        leases = [(name, lease) for name, (_, lease) in self._led.items()]
        here, *nodes = await asyncio.gather(
            session.read(path), *(session.read(self._nodes.running(name)) for name, _ in leases)
        )
        for (_, lease), node in zip(leases, nodes, strict=True):
            lease.believe(node)
        if here is None or here.owner != session.id:
            await self._own(session, path, self._who.data())

    async def _look(self, session: Session) -> None:
        """See who leads what, and say what could be led here."""
        self._looked = now()
        wanted, ready = self._offered = self._may_lead(), self._troupe.is_ready()
        names = {*await session.children(self._nodes.destinations), *self._troupe.wanted()}
        self._view = await looked(session, self._nodes, names)
        metrics.show_candidates(self._troupe.wanted(), self._led)
        me = self._who.worker
        for name, view in self._view.items():
            path = self._nodes.candidate(name, me)
            if name in wanted and (me not in view.candidates or (me in view.ready) != ready):
                await self._offer(session, path, ready=ready)
                self._view[name] = view.with_candidate(me, ready=ready)
            elif name not in wanted and me in view.candidates:
                await session.delete(path)
                self._view[name] = view.without_candidate(me)
            if view.owner == session.id and name not in self._led:
                # It was made after all, when nobody waited for it any more.
                await session.delete(self._nodes.running(name))

    async def _act(self, session: Session) -> None:
        """Take what is to be led here, and hand over one of what is not."""
        plan = leaders({name: view.seen() for name, view in self._view.items()})
        wanted = self._may_lead()
        for name, view in self._view.items():
            if view.exists:
                self._vacant.filled(name)
                continue
            self._vacant.seen(name, now())
            is_mine = plan.get(name) == self._who.worker
            is_due = is_mine or self._vacant.is_anybodys(name, now())
            if is_due and name in wanted and name not in self._led and now() >= self._may_take:
                await self._take(session, name)
        unwanted = self._led.keys() - set(self._troupe.wanted())
        moving = self._moves.due(self._led, plan, self._who.worker, now())
        for name in (*unwanted, *moving[:1]):
            task, lease = self._led[name]
            if not lease.ended.is_set() and not task.cancelling():
                task.cancel()

    async def _take(self, session: Session, name: str) -> None:
        """Lead a destination, unless another was quicker."""
        path = self._nodes.running(name)
        try:
            node = await session.create(path, self._who.data(), ephemeral=True)
        except NodeTaken:
            self._wake.set()
            return
        self._vacant.filled(name)
        lease = NodeLease(session, path, node, self._who)
        task = asyncio.create_task(self._lead(name, lease))
        task.add_done_callback(lambda _: self._wake.set())
        self._led[name] = (task, lease)
        metrics.LEADER.labels(name).set(1)
        metrics.TAKEOVERS.labels(name).inc()
        log.info("%s: is to be led here, term %d", name, lease.term)

    async def _lead(self, name: str, lease: NodeLease) -> None:
        try:
            await self._troupe.lead(name, lease)
        finally:
            await lease.release()

    async def _go(self, session: Session) -> None:
        """Leave: first as a candidate, so that nobody counts on this worker; then what it leads."""
        me = self._who.worker
        mine = [name for name, view in self._view.items() if me in view.candidates]
        await asyncio.gather(
            *(session.delete(self._nodes.candidate(name, me)) for name in mine),
            return_exceptions=True,
        )
        log.info("leaves the others, %d destination(s) to be handed over", len(self._led))
        await ended(task for task, _ in self._led.values())

    def to_json(self) -> dict[str, Any] | None:
        """See Leadership."""
        session = self._session
        workers = {worker for view in self._view.values() for worker in view.candidates}
        return {
            "state": "none" if session is None else session.state.value,
            "session": None if session is None else f"0x{session.id:x}",
            "timeout_seconds": None if session is None else session.timeout,
            "workers": sorted(workers),
            "error": self._error,
        }

    def why(self, name: str) -> dict[str, Any]:
        """See Leadership."""
        view, here = self._view.get(name), name in self._led
        told: dict[str, Any] = {
            "here": here,
            "vacant": view is not None and not view.exists and not here,
            "worker": view.leader if view else None,
            "address": view.address if view else None,
            "candidates": sorted(view.candidates) if view else [],
        }
        if not here:
            told["why_not"] = self._why_not(name, view)
        return told

    def _why_not(self, name: str, view: View | None) -> str | None:
        if self._session is None or view is None:
            return self._error or "ZooKeeper has not been asked yet"
        if view.exists and view.owner == 0:
            unfit = NodeUnfit(f"{self._nodes.running(name)} does not end with a session")
            return f"{unfit.name}: {unfit}"
        if view.exists:
            return f"{view.leader} leads it"
        if name not in self._may_lead():
            return "it was lost here a moment ago, or is not requested"
        return "it is about to be taken"


def _is_suspended(session: Session) -> bool:
    return session.state is SessionState.SUSPENDED
