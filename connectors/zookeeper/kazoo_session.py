"""A session with real ZooKeeper servers, by kazoo.

Invariant: once its session has expired, this object is over for good, although kazoo opens a new session;
its user opens another object. No request is made while the connection is lost: kazoo would queue it and
send it later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL

from connectors.errors import CoordinationLost, CoordinationRefused
from connectors.secret import FileSecret
from connectors.zookeeper.protocol import Node, NodeTaken, Opens, Session, SessionState, now

_LOST = (ConnectionLoss, ConnectionClosedError)
_REFUSED = (NoAuthError, AuthFailedError, InvalidACLError)

_quiet = logging.getLogger("kazoo")
_quiet.setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperClient:
    """The connection to ZooKeeper."""

    hosts: str
    timeout: float
    """Of a session, in seconds."""
    username: str | None = None
    password: str = ""


class KazooSession:
    """A session; open it with ``opened``.

    ``changed`` is called in the event loop whenever a watched node or the session itself has changed.
    """

    def __init__(self, address: ZooKeeperClient, changed: Callable[[], None]) -> None:
        self.id = 0
        self.timeout = address.timeout
        self.state = SessionState.SUSPENDED
        self.answered = now()
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._connected = asyncio.Event()
        self._error: Exception | None = None
        self._alive = now()
        self._watch = threading.Thread(target=self._watch_loop, name="loop-watch", daemon=True)
        auth, acl = _credentials(address)
        hosts = address.hosts.split(",")
        self._client = KazooClient(
            hosts=address.hosts,
            timeout=address.timeout,
            handler=_Handler(address.timeout / (len(hosts) + 1)),
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0),
            auth_data=auth,
            default_acl=acl,
        )
        self._client.add_listener(self._on_state)
        self._note_timeout()

    @classmethod
    async def opened(
        cls, address: ZooKeeperClient, changed: Callable[[], None], *, within: float
    ) -> KazooSession:
        """Open a session ``within`` so many seconds; else raise CoordinationLost or CoordinationRefused."""
        session = cls(address, changed)
        session._client.start_async()
        session._watch.start()
        try:
            async with asyncio.timeout(within):
                await session._connected.wait()
            if session._error is not None:
                raise session._error
            # The connection is made before the account is checked; this request checks it.
            await session.read("/")
        except TimeoutError:
            await session.close()
            raise CoordinationLost(f"no session with {address.hosts} in {within:.0f} s") from None
        except BaseException:
            await session.close()
            raise
        return session

    async def create(self, path: str, data: bytes, *, ephemeral: bool) -> Node:
        make = partial(
            self._client.create_async, path, data, ephemeral=ephemeral, include_data=True
        )
        for above in (None, path.rpartition("/")[0]):
            if above:
                with contextlib.suppress(NodeTaken):
                    await self.create(above, b"", ephemeral=False)
            try:
                _, stat = await self._ask(make)
                return Node(data=data, czxid=stat.czxid, owner=stat.ephemeralOwner)
            except NodeExistsError:
                raise NodeTaken(path) from None
            except NoNodeError:
                continue
        raise CoordinationLost(f"{path} cannot be created: its parent was removed meanwhile")

    async def read(self, path: str) -> Node | None:
        try:
            data, stat = await self._ask(partial(self._client.get_async, path))
        except NoNodeError:
            return None
        return Node(data=data, czxid=stat.czxid, owner=stat.ephemeralOwner)

    async def children(self, path: str) -> list[str]:
        ask = partial(self._client.get_children_async, path, watch=self._watched)
        try:
            return sorted(await self._ask(ask))
        except NoNodeError:
            return []

    async def delete(self, path: str) -> None:
        try:
            await self._ask(partial(self._client.delete_async, path))
        except NoNodeError:
            return
        except NotEmptyError:
            raise CoordinationLost(f"{path} has nodes below it") from None

    async def write(self, path: str, data: bytes) -> None:
        with contextlib.suppress(NoNodeError):
            await self._ask(partial(self._client.set_async, path, data))

    async def close(self) -> None:
        """End the session and its nodes."""
        self.state = SessionState.OVER
        self._client.remove_listener(self._on_state)
        await asyncio.to_thread(self._stop)

    def _watch_loop(self) -> None:
        """End the session if the event loop hangs; kazoo's threads would keep the session alive forever."""
        while self.state is not SessionState.OVER:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._live)
            time.sleep(self.timeout / 6)
            if now() - self._alive > self.timeout:
                self.state = SessionState.OVER
                self._notify_soon()
                self._stop()

    def _live(self) -> None:
        self._alive = now()

    def _stop(self) -> None:
        with contextlib.suppress(Exception):
            self._client.stop()
        with contextlib.suppress(Exception):
            self._client.close()

    async def _ask(self, request: Callable[[], Any]) -> Any:
        if self.state is not SessionState.CONNECTED:
            raise CoordinationLost(f"the session is {self.state.value}")
        sent, answer = now(), self._loop.create_future()
        loop = self._loop
        request().rawlink(lambda result: loop.call_soon_threadsafe(_resolve, answer, result))
        try:
            async with asyncio.timeout(self.timeout):
                result = await answer
        except TimeoutError:
            raise CoordinationLost(f"no answer in {self.timeout:.0f} s") from None
        except _REFUSED as error:
            raise CoordinationRefused(type(error).__name__) from error
        except (NoNodeError, NodeExistsError, NotEmptyError):
            self.answered = max(self.answered, sent)
            raise
        except KazooException as error:
            raise CoordinationLost(type(error).__name__) from error
        self.answered = max(self.answered, sent)
        return result

    def _on_state(self, state: str) -> None:
        """Record the state of the connection; called in kazoo's thread."""
        if self.state is SessionState.OVER:
            return
        if state == KazooState.CONNECTED:
            self.id = self._client.client_id[0]
            self.state = SessionState.CONNECTED
        elif state == KazooState.SUSPENDED:
            self.state = SessionState.SUSPENDED
        else:
            self.state = SessionState.OVER
            refused = self._client._state == KeeperState.AUTH_FAILED
            self._error = CoordinationRefused("AUTH_FAILED") if refused else CoordinationLost()
        self._notify_soon()

    def _notify_soon(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._notify)

    def _notify(self) -> None:
        if self.state is not SessionState.SUSPENDED:
            self._connected.set()
        self._changed()

    def _watched(self, _event: Any) -> None:
        self._notify_soon()

    def _note_timeout(self) -> None:
        """Read the granted time-out: it may differ from the requested one, and kazoo does not report it."""
        connection = self._client._connection
        invoke = connection._invoke

        def noted(timeout: float, request: Any, xid: int | None = None) -> Any:
            result = invoke(timeout, request, xid)
            granted = getattr(result[0], "time_out", 0) if isinstance(result, tuple) else 0
            if granted > 0:
                self.timeout = granted / 1000
            return result

        connection._invoke = noted


def opens(address: ZooKeeperClient) -> Opens:
    """Return the function that opens a worker's sessions."""

    @contextlib.asynccontextmanager
    async def open_one(changed: Callable[[], None]) -> AsyncIterator[Session]:
        session = await KazooSession.opened(address, changed, within=address.timeout)
        try:
            yield session
        finally:
            await session.close()

    return open_one


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Limits the wait for one server, to leave time for the others; kazoo waits a whole session time-out."""

    def __init__(self, longest: float) -> None:
        super().__init__()
        self._longest = longest

    def create_connection(self, *args: Any, **more: Any) -> Any:
        return super().create_connection(*args, **(more | {"timeout": self._longest}))


def _credentials(address: ZooKeeperClient) -> tuple[list[tuple[str, str]] | None, Any]:
    """The login, and the ACL of created nodes: only the account if there is one, else everyone."""
    if address.username is None:
        return None, None
    secret, account = address.password, f"{address.username}:"
    # kazoo encodes the login at each connection, also when a session reconnects.
    both = secret.after(account) if isinstance(secret, FileSecret) else account + secret
    return [("digest", both)], CREATOR_ALL_ACL


def _resolve(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if result.exception is not None:
        answer.set_exception(result.exception)
    else:
        answer.set_result(result.value)
