"""One active client of a group, with standbys: an election by ZooKeeper, as Canal's clients have it.

Invariant: the active client owns an ephemeral node. A client whose connection is lost is not the active one
until it has seen its own node again. Safety does not rest on it: of two clients that hold a batch, the group
refuses the ack of one.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from aqueduct_client.errors import MissingLibrary

_ASK_AGAIN_SECONDS = 5.0
"""A standby asks this often, beside the notice that it gets when the node is gone."""


@dataclass(slots=True, kw_only=True)
class ZooKeeperTurn:
    """The election of a group; give it to ``subscribe`` as ``turn``."""

    hosts: str
    """``host:port``, separated by commas."""
    group: str
    root: str = "/aqueduct-subscribers"
    session_seconds: float = 6.0
    """A client that is gone is replaced after so long."""
    auth: tuple[str, str] | None = None
    """A scheme and credentials, such as ``("digest", "user:password")``."""
    _client: Any = None
    _loop: asyncio.AbstractEventLoop | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _owns: bool = False
    _asked: float = 0.0

    @property
    def node(self) -> str:
        """The path of the node that the active client owns."""
        return f"{self.root}/{self.group}/running"

    @property
    def is_mine(self) -> bool:
        """See Turn."""
        return self._owns

    async def mine(self, seconds: float) -> bool:
        """See Turn."""
        if self._client is None:
            await self._connect()
        if not self._owns and self._is_due():
            await self._ask()
        if not self._owns:
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                return False
            await self._ask()
        return self._owns

    async def close(self) -> None:
        """Give the node up."""
        self._owns = False
        if self._client is not None:
            client, self._client = self._client, None
            await asyncio.to_thread(client.stop)
            await asyncio.to_thread(client.close)

    def _is_due(self) -> bool:
        return time.monotonic() - self._asked > _ASK_AGAIN_SECONDS

    async def _connect(self) -> None:
        try:
            from kazoo.client import KazooClient
        except ImportError:
            raise MissingLibrary("kazoo, for an election by ZooKeeper: pip install kazoo") from None
        self._loop = asyncio.get_running_loop()
        auth = [self.auth] if self.auth else None
        self._client = KazooClient(hosts=self.hosts, timeout=self.session_seconds, auth_data=auth)
        self._client.add_listener(self._on_state)
        self._client.start_async()

    async def _ask(self) -> None:
        """Take the node if it is free, or watch it."""
        self._asked = time.monotonic()
        self._changed.clear()
        if self._client.connected:
            self._owns = await asyncio.to_thread(self._take)

    def _take(self) -> bool:
        from kazoo.exceptions import KazooException, NodeExistsError

        name = f"{socket.gethostname()}:{os.getpid()}".encode()
        try:
            self._client.create(self.node, name, ephemeral=True, makepath=True)
        except NodeExistsError:
            stat = self._client.exists(self.node, watch=self._notify)
            return stat is not None and stat.ephemeralOwner == self._client.client_id[0]
        except (KazooException, OSError):
            return False
        # So that an operator who deletes the node ends the turn.
        self._client.exists(self.node, watch=self._on_own_node)
        return True

    def _on_state(self, state: str) -> None:
        """Called in a thread of kazoo's."""
        if state != "CONNECTED":
            self._owns = False
        self._notify()

    def _on_own_node(self, _event: object) -> None:
        self._owns = False
        self._notify()

    def _notify(self, _event: object = None) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)
