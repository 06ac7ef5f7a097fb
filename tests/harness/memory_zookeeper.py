"""The in-memory twin of ZooKeeper, with sessions that can be disconnected, suspended and ended at will."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from connectors.errors import CoordinationLost
from connectors.zookeeper.protocol import Node, NodeTaken, Session, SessionState, now


class MemoryServer:
    """All nodes, and the sessions that see them."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.zxid = 0
        self._sessions: dict[int, MemorySession] = {}
        self._watches: dict[str, set[MemorySession]] = {}
        self._count = 0

    def session(self, changed: Callable[[], None], *, timeout: float = 6.0) -> MemorySession:
        """Open a new session."""
        self._count += 1
        session = MemorySession(self, self._count, changed, timeout)
        self._sessions[self._count] = session
        return session

    @asynccontextmanager
    async def opens(self, changed: Callable[[], None]) -> AsyncIterator[Session]:
        """See Opens."""
        session = self.session(changed)
        try:
            yield session
        finally:
            await session.close()

    def put(self, path: str, data: bytes, owner: int) -> Node:
        """Make a node and its parents."""
        above = path.rpartition("/")[0]
        if above and above not in self.nodes:
            self.put(above, b"", 0)
        if path in self.nodes:
            raise NodeTaken(path)
        self.zxid += 1
        self.nodes[path] = Node(data=data, czxid=self.zxid, owner=owner)
        self._notify(above)
        return self.nodes[path]

    def remove(self, path: str) -> None:
        """Remove a node and everything below it, as an operator may do."""
        for each in [each for each in self.nodes if each == path or each.startswith(f"{path}/")]:
            self.zxid += 1
            del self.nodes[each]
            self._notify(each.rpartition("/")[0])

    def watch(self, path: str, session: MemorySession) -> None:
        """Notify a session once of the next change below a node."""
        self._watches.setdefault(path, set()).add(session)

    def expire(self, session: MemorySession) -> None:
        """End a session as the servers do on time-out: its own side may not know."""
        self._sessions.pop(session.id, None)
        for path in [path for path, node in self.nodes.items() if node.owner == session.id]:
            self.remove(path)

    def is_alive(self, session: MemorySession) -> bool:
        """Whether the servers still have it."""
        return session.id in self._sessions

    def _notify(self, path: str) -> None:
        for session in self._watches.pop(path, ()):
            if session.state is SessionState.CONNECTED:
                session.changed()


class MemorySession:
    """A session with the twin."""

    def __init__(
        self, server: MemoryServer, number: int, changed: Callable[[], None], timeout: float
    ) -> None:
        self.id, self.timeout = number, timeout
        self.state, self.answered = SessionState.CONNECTED, now()
        self.changed = changed
        self._server = server

    async def create(self, path: str, data: bytes, *, ephemeral: bool) -> Node:
        await self._ask()
        return self._server.put(path, data, self.id if ephemeral else 0)

    async def read(self, path: str) -> Node | None:
        await self._ask()
        return self._server.nodes.get(path)

    async def children(self, path: str) -> list[str]:
        await self._ask()
        self._server.watch(path, self)
        below = (each for each in self._server.nodes if each.rpartition("/")[0] == path)
        return sorted(each.rpartition("/")[2] for each in below)

    async def delete(self, path: str) -> None:
        await self._ask()
        if path in self._server.nodes:
            self._server.remove(path)

    async def write(self, path: str, data: bytes) -> None:
        await self._ask()
        if path in self._server.nodes:
            self._server.nodes[path] = replace(self._server.nodes[path], data=data)

    async def close(self) -> None:
        """End the session and its nodes."""
        self.become(SessionState.OVER)
        self._server.expire(self)

    def become(self, state: SessionState) -> None:
        """Set this side's state: its connection lost, back, or its session over."""
        if self.state is not state:
            self.state = state
            self.changed()

    async def _ask(self) -> None:
        sent = now()
        await asyncio.sleep(0)
        if self.state is SessionState.CONNECTED and not self._server.is_alive(self):
            self.become(SessionState.OVER)
        if self.state is not SessionState.CONNECTED:
            raise CoordinationLost(f"the session is {self.state.value}")
        self.answered = sent
