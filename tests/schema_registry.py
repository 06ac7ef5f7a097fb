"""A small schema registry over HTTP on loopback, which speaks what a worker and consumers need of the protocol.

It gives ids as a real one: one for each text of a schema, whatever its subject. Real ones compare schemas for
compatibility; this one refuses what a test names.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import unquote

from connectors.store.registry import MemoryRegistry

_TYPE = "application/vnd.schemaregistry.v1+json"


@dataclass(slots=True)
class RegistryServer:
    """A running registry."""

    port: int = 0
    account: tuple[str, str] | None = None
    """The account that requests need."""
    refused: frozenset[str] = frozenset()
    """Words in a subject for which schemas are incompatible."""
    failing: int = 0
    """Requests that are answered by a fault of its own."""
    closing: bool = False
    """Whether each connection ends with its first answer."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of each request."""
    connections: int = 0
    """The number of connections so far."""
    held: MemoryRegistry = field(default_factory=MemoryRegistry)
    lock: Lock = field(default_factory=Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, method: str, path: str, body: bytes, login: str) -> tuple[int, dict[str, Any]]:
        """The status and content of an answer."""
        with self.lock:
            self.requests.append((method, path))
            if self.failing:
                self.failing -= 1
                return 500, {"error_code": 50001, "message": "store error"}
            if self.account is not None:
                pair = base64.b64encode(":".join(self.account).encode()).decode()
                if login != f"Basic {pair}":
                    return 401, {"error_code": 401, "message": "Unauthorized"}
            if method == "GET":
                schema = self.held.schemas.get(int(path.rpartition("/")[2]))
                found = (
                    {"schema": schema}
                    if schema
                    else {"error_code": 40403, "message": "Schema not found"}
                )
                return (200 if schema else 404), found
            subject = unquote(path.split("/")[2])
            if any(one in subject for one in self.refused):
                return 409, {
                    "error_code": 409,
                    "message": "Schema is incompatible with an earlier schema",
                }
            return 200, {"id": self.held.register(subject, json.loads(body)["schema"])}


@contextmanager
def schema_registry(**more: Any) -> Iterator[RegistryServer]:
    """Run one."""
    server = RegistryServer(**more)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keeps connections open

        def setup(self) -> None:
            super().setup()
            if server.closing:
                self.protocol_version = "HTTP/1.0"
            with server.lock:
                server.connections += 1

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            login = self.headers.get("Authorization") or ""
            status, content = server.answer(self.command, self.path, body, login)
            raw = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = _answer  # noqa: N815 - names of the library

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", server.port), Handler)
    server.port = http.server_port
    thread = Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
