"""Requests to a registry over one connection, which stays open between them.

Invariant: a request ends within a limit, whatever the network does: also while a name is resolved, and where
each address of the host drops packets. A connection that an answer has not ended well is not used again.
"""

from __future__ import annotations

import http.client
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

T = TypeVar("T")

_LIMIT_SECONDS = 10.0
"""Of a whole request, well below the time after which a decoder counts as stalled."""
_CONNECT_SECONDS = 4.0
"""Of all addresses together."""
_ANSWER_SECONDS = 6.0


class Answer(NamedTuple):
    """A registry's answer."""

    status: int
    reason: str
    body: bytes


class Requests:
    """Requests to one registry; for one thread."""

    def __init__(self, url: str, context: Callable[[], ssl.SSLContext]) -> None:
        """``context``: makes that of a connection by https."""
        self._url, self._context = url, context
        self._open: http.client.HTTPConnection | None = None

    def __del__(self) -> None:
        if self._open is not None:
            self._open.close()

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Return the answer to a request, which may be sent twice.

        Raises OSError or HTTPException, or ValueError for a URL that names no host.
        """
        return self._request("POST", path, body, headers)

    def get(self, path: str, headers: Mapping[str, str]) -> Answer:
        """Return the answer to a question; see ``post``."""
        return self._request("GET", path, None, headers)

    def _request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        url = urlsplit(self._url)
        path = url.path.rstrip("/") + path
        before, self._open = self._open, None
        connection = before or self._connection(url)

        def request() -> Answer:
            try:
                return _answer(connection, method, path, body, headers)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if before is None or isinstance(error, TimeoutError):
                    raise
            # The registry has closed it since the last request.
            return _answer(connection, method, path, body, headers)

        answer = _within(_LIMIT_SECONDS, request)
        self._open = connection
        return answer

    def _connection(self, url: SplitResult) -> http.client.HTTPConnection:
        host, port = url.hostname or "", url.port
        if url.scheme == "https":
            return _Encrypted(host, port, context=self._context())
        return _Plain(host, port)


def _answer(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None,
    headers: Mapping[str, str],
) -> Answer:
    connection.request(method, path, body, dict(headers))
    found = connection.getresponse()
    return Answer(found.status, found.reason, found.read())


class _Plain(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = _connected(self.host, self.port)


class _Encrypted(http.client.HTTPSConnection):
    def __init__(self, host: str, port: int | None, *, context: ssl.SSLContext) -> None:
        super().__init__(host, port, context=context)
        self._own_context = context

    def connect(self) -> None:
        plain = _connected(self.host, self.port)
        self.sock = self._own_context.wrap_socket(plain, server_hostname=self.host)


def _connected(host: str, port: int) -> socket.socket:
    """Connect to the first address of a host that answers; raise OSError if none does in time."""
    addresses = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    end = time.monotonic() + _CONNECT_SECONDS
    for left, (family, kind, protocol, _, address) in zip(
        range(len(addresses), 0, -1), addresses, strict=True
    ):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(max(0.001, (end - time.monotonic()) / left))
            connection.connect(address)
            connection.settimeout(_ANSWER_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            connection.close()
            if left == 1:
                raise
        else:
            return connection
    raise OSError(f"{host} has no address")


def _within(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of work in a thread of its own, which is left alone if it takes longer."""
    done: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((True, work()))
        except BaseException as error:
            done.put((False, error))

    threading.Thread(target=run, name="schema registry", daemon=True).start()
    try:
        is_done, found = done.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    if not is_done:
        raise found
    result: T = found
    return result
