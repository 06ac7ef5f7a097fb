"""A TCP proxy that injects network faults into connections: ``python -m tests.crash.proxy SOCKET``.

Invariant: data is lost or changed only on request; held data is delivered later, as TCP would. Requests come
over a local socket, one JSON object per line in each direction. The proxy ends with its standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
_PIECE = 64 * 1024
_LINGER_NOT = struct.pack("ii", 1, 0)
_HALF_OPEN_BACKLOG = 256


@dataclass(slots=True)
class Way:
    """One direction of a link, with its faults."""

    latency: float = 0.0
    """Seconds before each piece."""
    bandwidth: float = 0.0
    """Bytes a second; 0 for as fast as it goes."""
    slice: int = 0
    """At most so many bytes in a piece; 0 for as they come."""
    cut_after: int | None = None
    """The connection is reset after this many more bytes."""
    flip_at: int | None = None
    """The byte, counted from now, of which one bit is turned over."""
    passed: int = 0
    """Bytes that went this way."""
    open: asyncio.Event = field(default_factory=asyncio.Event)
    """Not set: what comes is held."""

    def __post_init__(self) -> None:
        self.open.set()

    def change(self, *, held: bool | None = None, **values: Any) -> None:
        """Set what is done from now on."""
        for name, value in values.items():
            if name not in ("latency", "bandwidth", "slice", "cut_after", "flip_at"):
                raise ValueError(f"a way has no {name}")
            setattr(self, name, value)
        if held is not None:
            (self.open.clear if held else self.open.set)()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The received bytes, as they are to be forwarded."""
        size = self.slice or len(data)
        for start in range(0, len(data), size):
            yield data[start : start + size]

    async def delay(self, piece: bytes) -> None:
        """Wait for this piece's delay."""
        if self.latency:
            await asyncio.sleep(self.latency)
        if self.bandwidth:
            await asyncio.sleep(len(piece) / self.bandwidth)
        await self.open.wait()

    def spoilt(self, piece: bytes) -> bytes:
        """A piece, with a bit flipped if its byte is there."""
        if self.flip_at is None:
            return piece
        at, self.flip_at = self.flip_at, self.flip_at - len(piece)
        if at >= len(piece):
            return piece
        self.flip_at = None
        return piece[:at] + bytes([piece[at] ^ 1]) + piece[at + 1 :]

    def until_cut(self, piece: bytes) -> tuple[bytes, bool]:
        """The part of a piece that still passes, and whether the cut follows it."""
        if self.cut_after is None:
            return piece, False
        passes, self.cut_after = piece[: self.cut_after], self.cut_after - len(piece)
        if self.cut_after > 0:
            return piece, False
        self.cut_after = None
        return passes, True


class Requests:
    """Kafka's requests, whole, out of what a client sends: a length in four bytes, then its kind in two."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Each request that is whole, with its kind."""
        self._rest += data
        while len(self._rest) >= 6:
            size, kind = struct.unpack_from(">ih", self._rest)
            if len(self._rest) < 4 + size:
                return
            request, self._rest = self._rest[: 4 + size], self._rest[4 + size :]
            yield kind, request


@dataclass(slots=True)
class Trap:
    """The action on a Kafka request of a kind."""

    kind: int
    act: str = "cut"
    """``cut``; ``hold`` it and all after it until the link is restored; or ``flip`` a byte near its end."""
    nth: int = 1
    answered: bool = False
    """False: the request is lost; True: it gets through, and its answer is lost."""
    shut: float = 0.0
    """Seconds for which no connection is accepted afterwards."""
    sprung: int = 0


class Pair:
    """A client's connection and the one to the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter | None) -> None:
        self.client, self.server = client, server
        self.swallow = False
        """The next answer is not passed on; it cuts the connection."""

    def reset(self) -> None:
        """End both with RST, so that neither side takes it for an orderly end."""
        for writer in (self.client, self.server):
            if writer is None:
                continue
            with contextlib.suppress(OSError):
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            writer.transport.abort()


def _flipped(request: bytes) -> bytes:
    """A request with a bit of its last record turned over: within what that batch's checksum covers."""
    at = len(request) - 24
    return request[:at] + bytes([request[at] ^ 1]) + request[at + 1 :]


@dataclass(slots=True)
class Link:
    """A proxy port in front of a server's port."""

    name: str
    backend: tuple[str, int]
    kafka: bool = False
    door: str = "open"
    """``open``, ``refuse`` (reset at once) or ``half_open`` (accepted, never answered)."""
    up: Way = field(default_factory=Way)
    down: Way = field(default_factory=Way)
    trap: Trap | None = None
    pairs: set[Pair] = field(default_factory=set)
    accepted: int = 0
    server: asyncio.Server | None = None
    never: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self) -> int:
        """Open the port and return its number."""
        self.server = await asyncio.start_server(
            self._serve, HOST, 0, limit=_PIECE, backlog=_HALF_OPEN_BACKLOG
        )
        return int(self.server.sockets[0].getsockname()[1])

    def reset(self) -> None:
        """Cut all connections."""
        for pair in list(self.pairs):
            pair.reset()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        pair = Pair(writer, None)
        self.pairs.add(pair)
        try:
            if self.door == "refuse":
                return
            if self.door == "half_open":
                await self.never.wait()
            with contextlib.suppress(OSError):
                answers, pair.server = await asyncio.open_connection(*self.backend, limit=_PIECE)
                await self._both(pair, reader, answers)
        finally:
            pair.reset()
            self.pairs.discard(pair)

    async def _both(
        self, pair: Pair, requests: asyncio.StreamReader, answers: asyncio.StreamReader
    ) -> None:
        assert pair.server is not None
        up = self._asked if self.kafka else self._carried
        async with asyncio.TaskGroup() as group:
            group.create_task(self._way(up, requests, pair.server, pair, self.up))
            group.create_task(self._way(self._carried, answers, pair.client, pair, self.down))

    async def _way(self, carry: Any, source: Any, sink: Any, pair: Pair, way: Way) -> None:
        """Forward until an end; the end of one direction is passed to the other side, an error to both."""
        with contextlib.suppress(ConnectionError, OSError, RuntimeError):
            if await carry(source, sink, pair, way) and sink.can_write_eof():
                sink.write_eof()
                return
        pair.reset()

    async def _carried(self, source: Any, sink: Any, pair: Pair, way: Way) -> bool:
        """Forwards bytes; returns whether the connection was closed in order."""
        while data := await source.read(_PIECE):
            if pair.swallow and way is self.down:
                self._shut_for_a_while()
                return False
            if not await self._pass(data, sink, way):
                return False
        return True

    async def _asked(self, source: Any, sink: Any, pair: Pair, way: Way) -> bool:
        requests = Requests()
        while data := await source.read(_PIECE):
            for kind, request in requests.take(data):
                act = self._sprung(kind)
                if act == "lose":
                    self._shut_for_a_while()
                    return False
                pair.swallow = pair.swallow or act == "swallow"
                if not await self._pass(_flipped(request) if act == "flip" else request, sink, way):
                    return False
        return True

    async def _pass(self, data: bytes, sink: Any, way: Way) -> bool:
        """Forward it under the active fault; False after a cut."""
        for piece in way.pieces(data):
            await way.delay(piece)
            passes, cut = way.until_cut(way.spoilt(piece))
            way.passed += len(passes)
            sink.write(passes)
            await sink.drain()
            if cut:
                return False
        return True

    def _sprung(self, kind: int) -> str:
        """The action on a request: none, or ``lose``, ``swallow``, ``flip``."""
        trap = self.trap
        if trap is None or trap.kind != kind or trap.sprung:
            return ""
        trap.nth -= 1
        if trap.nth > 0:
            return ""
        trap.sprung += 1
        if trap.act == "hold":
            self.up.change(held=True)
            return ""
        if trap.act == "flip":
            return "flip"
        return "swallow" if trap.answered else "lose"

    def _shut_for_a_while(self) -> None:
        if self.trap is not None and self.trap.shut:
            self.door = "refuse"
            asyncio.get_running_loop().call_later(self.trap.shut, setattr, self, "door", "open")
            self.reset()


class Control:
    """Serves requests over the local socket."""

    def __init__(self) -> None:
        self.links: dict[str, Link] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one line after the other."""
        while line := await reader.readline():
            try:
                answer: dict[str, Any] = {"done": await self.do(**json.loads(line))}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def do(self, what: str, name: str, **values: Any) -> Any:
        """Do one thing to a link."""
        if what == "link":
            link = Link(name, (values["host"], values["port"]), kafka=values.get("kafka", False))
            self.links[name] = link
            return await link.listen()
        link = self.links[name]
        if what == "way":
            way: Way = getattr(link, values.pop("way"))
            return way.change(**values)
        if what == "door":
            link.door = values["door"]
        elif what == "backend":
            link.backend = (values["host"], values["port"])
        elif what == "trap":
            link.trap = Trap(**values)
        elif what == "heal":
            link.door, link.trap = "open", None
            for way in (link.up, link.down):
                way.change(
                    held=False, latency=0, bandwidth=0, slice=0, cut_after=None, flip_at=None
                )
        elif what == "reset":
            link.reset()
        elif what != "seen":
            raise ValueError(f"nobody can {what}")
        return {
            "accepted": link.accepted,
            "open": len(link.pairs),
            "up": link.up.passed,
            "down": link.down.passed,
            "sprung": link.trap.sprung if link.trap else 0,
        }


async def main(path: Path) -> None:
    """Serve until standard input ends."""
    server = await asyncio.start_unix_server(Control().serve, path)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
