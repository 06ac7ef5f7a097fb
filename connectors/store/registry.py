"""A client of a schema registry, and its in-memory twin.

Invariant: the registry itself decides which id a schema has; the same schema of a subject has the same id,
whichever worker registers it. A schema is registered before a record with its id is published.
Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import base64
import http.client
import json
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from connectors.errors import AqueductError, SchemaRefused, SchemaRegistryDenied, SchemaRegistryLost

# Requests to a registry over one connection, which stays open between requests.
#
# Invariant: a request ends within a limit, whatever the network does: also while a name is
# resolved, and if each address of the host drops packets. A connection is used again only after a
# complete answer.


T = TypeVar("T")

_LIMIT_SECONDS = 10.0
"""For a whole request; well below the time after which a decoder counts as stalled."""
_CONNECT_SECONDS = 4.0
"""For all addresses together."""
_ANSWER_SECONDS = 6.0


class Answer(NamedTuple):
    """A registry's answer."""

    status: int
    reason: str
    body: bytes


class Requests:
    """Requests to one registry; for one thread."""

    def __init__(self, url: str, context: Callable[[], ssl.SSLContext]) -> None:
        """``context`` makes the TLS context of an https connection."""
        self._url, self._context = url, context
        self._open: http.client.HTTPConnection | None = None

    def __del__(self) -> None:
        if self._open is not None:
            self._open.close()

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Return the answer to a request, which may be sent twice.

        Raise OSError or HTTPException, or ValueError for a URL that names no host.
        """
        return self._request("POST", path, body, headers)

    def get(self, path: str, headers: Mapping[str, str]) -> Answer:
        """Return the answer to a GET request; see ``post``."""
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
            # The registry has closed the connection since the last request.
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
    """Connect to the first address of a host that answers; raise OSError if no address does in time."""
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
    """Return the result of work done in a thread of its own.

    If it takes longer, raise TimeoutError and let the thread end by itself.
    """
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


_TYPE = "application/vnd.schemaregistry.v1+json"
_DENIED = (401, 403)
_REFUSED = (400, 409, 422)
_NO_SUCCESS, _NO_SUCH_SCHEMA = 300, 40403


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAccess:
    """The connection to a registry; without ``url`` there is no registry."""

    url: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    """Certificates of the authorities that are trusted; empty: the system's."""


class SchemaRegistry(Protocol):
    """Ids of schemas."""

    def register(self, subject: str, schema: str) -> int:
        """Return the id of a schema of a subject; a new schema is added to the subject."""

    def schema(self, number: int) -> str | None:
        """Return the schema with an id; None if there is none."""


class ConfluentRegistry:
    """A registry over HTTP; remembers the ids that it received."""

    def __init__(self, access: RegistryAccess) -> None:
        self._access = access
        self._requests = Requests(access.url, self._context)
        self._known: dict[tuple[str, str], int] = {}

    def register(self, subject: str, schema: str) -> int:
        """See SchemaRegistry; raise SchemaRegistryLost, SchemaRegistryDenied or SchemaRefused."""
        found = self._known.get((subject, schema))
        if found is None:
            found = self._known[subject, schema] = self._register(subject, schema)
        return found

    def _register(self, subject: str, schema: str) -> int:
        path = f"/subjects/{quote(subject, safe='')}/versions"
        headers = {"Content-Type": _TYPE, "Accept": _TYPE, **self._authorization()}
        try:
            answer = self._requests.post(path, json.dumps({"schema": schema}).encode(), headers)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._error(SchemaRegistryLost, str(error), subject) from error
        if answer.status >= _NO_SUCCESS:
            raise self._error(_kind(answer), _said(answer), subject)
        try:
            return int(json.loads(answer.body)["id"])
        except (ValueError, KeyError, TypeError) as error:
            what = f"its answer has no id: {error!r}"
            raise self._error(SchemaRegistryLost, what, subject) from error

    def schema(self, number: int) -> str | None:
        """See SchemaRegistry; raise SchemaRegistryLost or SchemaRegistryDenied."""
        of = f"id {number}"
        try:
            answer = self._requests.get(
                f"/schemas/ids/{number}", {"Accept": _TYPE, **self._authorization()}
            )
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._error(SchemaRegistryLost, str(error), of) from error
        if _code_in(answer) == _NO_SUCH_SCHEMA:
            return None
        if answer.status >= _NO_SUCCESS:
            raise self._error(_kind(answer), _said(answer), of)
        try:
            return str(json.loads(answer.body)["schema"])
        except (ValueError, KeyError, TypeError) as error:
            what = f"its answer has no schema: {error!r}"
            raise self._error(SchemaRegistryLost, what, of) from error

    def _authorization(self) -> dict[str, str]:
        if not self._access.username:
            return {}
        # A password in a file is read again when it is encoded.
        pair = self._access.username.encode() + b":" + self._access.password.encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}

    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._access.ca_file or None)

    def _error(self, kind: type[AqueductError], what: str, subject: str) -> AqueductError:
        return kind(what, registry=self._access.url, subject=subject)


class MemoryRegistry:
    """A registry in memory: the twin of ConfluentRegistry."""

    def __init__(self) -> None:
        self.schemas: dict[int, str] = {}
        self.subjects: dict[str, list[int]] = {}

    def register(self, subject: str, schema: str) -> int:
        known = {text: number for number, text in self.schemas.items()}
        number = known.get(schema, len(self.schemas) + 1)
        self.schemas[number] = schema
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def schema(self, number: int) -> str | None:
        return self.schemas.get(number)


def _kind(answer: Answer) -> type[AqueductError]:
    if answer.status in _DENIED:
        return SchemaRegistryDenied
    is_refused = answer.status in _REFUSED and _code_in(answer) is not None
    return SchemaRefused if is_refused else SchemaRegistryLost


def _code_in(answer: Answer) -> object:
    """The registry's own error code; None if something else has answered."""
    try:
        return json.loads(answer.body)["error_code"]
    except (ValueError, KeyError, TypeError):
        return None


def _said(answer: Answer) -> str:
    """The status, with the registry's own text."""
    try:
        text = str(json.loads(answer.body)["message"])
    except (ValueError, KeyError, TypeError):
        text = answer.reason
    return f"{answer.status}: {text}"
