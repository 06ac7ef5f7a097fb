"""The right to lead one destination for a time.

Invariant: the holder checks the lease before each externally visible step. A lease that is over stays
over; leading again takes a new lease. Leases prevent two leaders at once most of the time. Only Kafka
excludes the older leader with certainty, by fencing its producer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import Protocol

from app.worker.coordination.cluster_view import Identity
from connectors.errors import AqueductError, CoordinationLost, CoordinationRefused, LeadershipLost
from connectors.zookeeper.protocol import Node, Session, SessionState, now

log = logging.getLogger(__name__)

GIVEN_UP_AFTER = 2 / 3
"""The owner gives up after this share of the session time-out without an answer; the servers wait for all
of it."""
_GLANCE_SECONDS = 0.05


class Lease(Protocol):
    """See the module."""

    term: int
    """Greater than the terms of all earlier leaders; 0 if no other worker can lead."""
    shared: bool
    """Whether another worker may lead instead."""
    ended: asyncio.Event
    """Set once the lease is over."""

    def check(self) -> None:
        """Raise LeadershipLost if the lease is over."""
        ...

    async def hold(self) -> None:
        """Wait while the lease is in doubt; raise LeadershipLost if it is over."""
        ...

    async def confirm(self) -> None:
        """Ask the servers whether the lease is still ours; raise LeadershipLost if not."""
        ...

    async def announce(self, epoch: int) -> None:
        """Publish the epoch that was claimed under this lease."""
        ...

    async def hand_over(self) -> None:
        """End the lease voluntarily: this worker writes nothing more, and the next leader need not wait."""
        ...


@dataclass(slots=True)
class PermanentLease:
    """The lease of a single worker: never over."""

    term: int = 0
    shared: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def check(self) -> None:
        """See Lease."""

    async def hold(self) -> None:
        """See Lease."""

    async def confirm(self) -> None:
        """See Lease."""

    async def announce(self, epoch: int) -> None:
        """See Lease."""

    async def hand_over(self) -> None:
        """See Lease."""


class ZNodeLease:
    """Valid while our ephemeral node ``running`` exists."""

    shared = True

    def __init__(self, session: Session, path: str, node: Node, identity: Identity) -> None:
        self.term = node.czxid
        self.ended = asyncio.Event()
        self.why = ""
        self._session, self._path, self._identity = session, path, identity
        self._is_leftover_logged = False

    @property
    def time_left(self) -> float:
        """Return the seconds until the lease is given up if the servers stay silent."""
        return self._session.answered + GIVEN_UP_AFTER * self._session.timeout - now()

    def end(self, why: str) -> None:
        """End the lease for good."""
        if not self.ended.is_set():
            self.why = why
            self.ended.set()

    def check(self) -> None:
        if self._session.state is SessionState.OVER:
            self.end("the session with ZooKeeper is over")
        elif self.time_left <= 0:
            limit = GIVEN_UP_AFTER * self._session.timeout
            self.end(f"ZooKeeper has not answered for {limit:.1f} s")
        if self.ended.is_set():
            raise LeadershipLost(self.why)

    async def hold(self) -> None:
        self.check()
        while self._session.state is not SessionState.CONNECTED:
            await asyncio.sleep(_GLANCE_SECONDS)
            self.check()

    async def confirm(self) -> None:
        while True:
            await self.hold()
            try:
                node = await self._session.read(self._path)
                break
            except CoordinationLost:
                await asyncio.sleep(_GLANCE_SECONDS)
        self.believe(node)
        self.check()

    async def announce(self, epoch: int) -> None:
        if self.ended.is_set():
            # The node may be another worker's by now.
            return
        with contextlib.suppress(CoordinationLost, CoordinationRefused):
            await self._session.write(self._path, self._identity.data(epoch))

    async def hand_over(self) -> None:
        self.end("it is handed over")
        if await self.release():
            log.info("%s is handed over", self._path)

    async def release(self) -> bool:
        """Remove the node if it is still ours, so that the next leader need not wait for the session's end.

        Return whether another worker may lead at once; if not, log the reason.
        """
        if self._session.state is not SessionState.CONNECTED:
            return self._log_leftover(f"the session is {self._session.state.value}")
        try:
            node = await self._session.read(self._path)
            if node is not None and node.czxid == self.term and node.owner == self._session.id:
                await self._session.delete(self._path)
        except AqueductError as error:
            return self._log_leftover(error.detail)
        return True

    def _log_leftover(self, why: str) -> bool:
        """Log once that the node could not be removed; return False."""
        if not self._is_leftover_logged:
            self._is_leftover_logged = True
            log.info("%s is left to the session's end: %s", self._path, why)
        return False

    def believe(self, node: Node | None) -> None:
        """End the lease if the node, as it was read, is gone or belongs to another session."""
        if node is None:
            self.end(f"{self._path} was removed")
        elif node.czxid != self.term or node.owner != self._session.id:
            self.end(f"{self._path} is another's")
