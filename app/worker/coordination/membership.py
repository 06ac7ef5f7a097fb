"""The znodes of one worker in one session: that it is alive, and which destinations it could lead.

Invariant: all of them are ephemeral and owned by this session. A node made by hand would outlive
every session, so it is replaced where that is safe and refused by name elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from app.worker.coordination.cluster_view import View
from app.worker.coordination.znodes import Identity, Nodes
from connectors.errors import NodeUnfit, WorkerIdTaken
from connectors.zookeeper.protocol import NodeTaken, Session


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
            await self._offer(path, ready=ready)
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

    async def _offer(self, path: str, *, ready: bool) -> None:
        node = await self._session.read(path)
        if node is not None and node.owner == 0:
            await self._session.delete(path)
        await self._own(path, self._identity.offer(ready=ready))

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
