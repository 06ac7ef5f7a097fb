"""A server with enough of Kafka's protocol for a broker that has only begun to start, or that is silent.

Source: the message definitions of ApiVersions 0, Metadata 1, FindCoordinator 1 and InitProducerId 0 in Kafka's
documentation of its protocol.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

_METADATA, _FIND_COORDINATOR, _API_VERSIONS, _INIT_PRODUCER_ID = 3, 10, 18, 22
_VERSIONS = {_METADATA: 1, _FIND_COORDINATOR: 1, _API_VERSIONS: 0, _INIT_PRODUCER_ID: 0}


@dataclass
class KafkaServer:
    """The state of one server."""

    is_silent: bool = False
    """Whether it accepts connections and never answers."""
    nameless: int = 1_000_000
    """How many answers to Metadata name no broker; the later ones name this server."""
    port: int = 0
    asked: list[int] = field(default_factory=list)
    """The kinds of requests that arrived."""
    connections: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def options(self) -> dict[str, str]:
        """Keyword arguments of aiokafka's clients."""
        return {"bootstrap_servers": f"127.0.0.1:{self.port}"}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                kind, _version, number = struct.unpack_from(">hhi", await reader.readexactly(size))
                self.asked.append(kind)
                if self.is_silent:
                    continue
                answer = struct.pack(">i", number) + self._answer(kind)
                writer.write(struct.pack(">i", len(answer)) + answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, kind: int) -> bytes:
        host = b"127.0.0.1"
        here = struct.pack(f">ih{len(host)}si", 0, len(host), host, self.port)
        if kind == _API_VERSIONS:
            versions = b"".join(
                struct.pack(">hhh", one, 0, most) for one, most in _VERSIONS.items()
            )
            return struct.pack(">hi", 0, len(_VERSIONS)) + versions
        if kind == _METADATA:
            self.nameless -= 1
            brokers = [] if self.nameless >= 0 else [here + struct.pack(">h", -1)]
            return struct.pack(">i", len(brokers)) + b"".join(brokers) + struct.pack(">ii", 0, 0)
        if kind == _FIND_COORDINATOR:
            return struct.pack(">ihh", 0, 0, -1) + here
        assert kind == _INIT_PRODUCER_ID
        return struct.pack(">ihqh", 0, 0, 1, 0)


@asynccontextmanager
async def kafka_server(server: KafkaServer) -> AsyncIterator[KafkaServer]:
    """Serve on a free port until the block's end."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for writer in server.connections:
            writer.close()
        for writer in server.connections:
            with suppress(ConnectionError):
                await writer.wait_closed()
