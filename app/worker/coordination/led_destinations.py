"""The destinations that this worker leads: a task and a lease each.

Invariant: a destination is listed from the creation of its znode to the end of its task, so none is led twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from app import metrics
from app.worker.coordination.leadership import DestinationRunner, ended
from app.worker.coordination.lease import ZNodeLease
from app.worker.coordination.znodes import Identity, Nodes
from connectors.errors import AqueductError, LeadershipLost
from connectors.zookeeper.protocol import NodeTaken, Session

log = logging.getLogger(__name__)


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
