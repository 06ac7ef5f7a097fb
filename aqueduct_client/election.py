"""One active client of a group, with standbys: an election by ZooKeeper, as Canal's clients have it.

Invariant: the active client owns an ephemeral node and watches it. An event of the node or a loss of the
connection ends the ownership until the client has seen its own node again: kazoo drops all watches with a
connection, and the session may have changed afterwards. Safety does not depend on the election: if two clients
hold a batch, the group refuses the ack of one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from aqueduct_client.errors import InvalidSubscription, MissingLibrary

_ASK_AGAIN_SECONDS = 5.0
"""The interval at which a standby asks again, besides the watch that fires when the node is gone."""


@dataclass(slots=True, kw_only=True)
class ZooKeeperTurn:
    """The election of a group; give it to ``subscribe`` as ``turn``."""

    hosts: str
    """``host:port``, separated by commas."""
    group: str
    root: str = "/aqueduct-subscribers"
    session_seconds: float = 6.0
    """Seconds after which a client that is gone is replaced."""
    auth: tuple[str, str] | None = None
    """A scheme and credentials, such as ``("digest", "user:password")``."""
    _client: Any = None
    _loop: asyncio.AbstractEventLoop | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _events: int = 0
    """The count of changes of the node and of losses of the connection."""
    _owned_at: int | None = None
    """The value of ``_events`` at which the node was seen to be this client's."""
    _asked: float = 0.0

    @property
    def node(self) -> str:
        """The path of the node that the active client owns."""
        return f"{self.root}/{self.group}/running"

    @property
    def is_mine(self) -> bool:
        return self._owned_at == self._events

    async def mine(self, seconds: float) -> bool:
        if self._client is None:
            await self._connect()
        if not self.is_mine and self._is_due():
            await self._ask()
        if not self.is_mine:
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                return False
            await self._ask()
        return self.is_mine

    async def close(self) -> None:
        """Give the node up."""
        self._owned_at = None
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
        """Take the node if it is free, and watch it."""
        self._asked = time.monotonic()
        self._changed.clear()
        events = self._events
        is_taken = await asyncio.to_thread(self._take)
        # An event meanwhile may have ended the ownership: a lost connection, a deleted node.
        self._owned_at = events if is_taken else None

    def _take(self) -> bool:
        from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError, NodeExistsError
        from kazoo.handlers.threading import KazooTimeoutError

        client = self._client
        if not client.connected and client.client_state != "AUTH_FAILED":
            return False
        name = f"{socket.gethostname()}:{os.getpid()}".encode()
        try:
            with contextlib.suppress(
                NodeExistsError
            ):  # the node may be this client's, from before a reconnection
                self._got(client.create_async(self.node, name, ephemeral=True, makepath=True))
            stat = self._got(client.exists_async(self.node, watch=self._on_node))
        except (AuthFailedError, NoAuthError) as error:
            raise InvalidSubscription(
                f"ZooKeeper refused the account of the election, or its ACL: {type(error).__name__}",
                hosts=self.hosts,
                node=self.node,
            ) from error
        except (KazooException, KazooTimeoutError, OSError):
            return False
        if stat is None:
            self._notify()  # it was deleted meanwhile
            return False
        session = client.client_id
        return session is not None and stat.ephemeralOwner == session[0]

    def _got(self, asked: Any) -> Any:
        """Wait for an answer; kazoo keeps requests while it reconnects."""
        return asked.get(timeout=self.session_seconds)

    def _on_state(self, state: str) -> None:
        """Called in a thread of kazoo's."""
        if state != "CONNECTED":
            self._events += 1
        self._notify()

    def _on_node(self, _event: object) -> None:
        """Called in a thread of kazoo's, once after each request, if the node changed or the watch was lost."""
        self._events += 1
        self._notify()

    def _notify(self, _event: object = None) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)
