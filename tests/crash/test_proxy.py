"""The proxy's effects on a connection, observed with an echo server."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.links import END_TXN, METADATA, Wire, proxy
from tests.crash.proxy import HOST


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        try:
            while data := self.request.recv(65536):
                self.request.sendall(self.server.mark + data)  # type: ignore[attr-defined]
        except OSError:
            return


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    mark = b""


def echoing(mark: bytes = b"") -> _Server:
    server = _Server((HOST, 0), _Echo)
    server.mark = mark
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture(scope="module")
def echo() -> Iterator[_Server]:
    server = echoing()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def wire(echo: _Server, tmp_path: Path) -> Iterator[Wire]:
    with proxy(tmp_path) as running:
        yield running.link("echo", HOST, echo.server_address[1], kafka=False)


def client(wire: Wire, seconds: float = 5.0) -> socket.socket:
    return socket.create_connection((HOST, wire.port), timeout=seconds)


def received(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := sock.recv(size - len(data))):
        data += piece
    return data


def until_reset(sock: socket.socket) -> bytes:
    """The bytes before the reset; fails if the connection was closed in order."""
    got = b""
    try:
        while piece := sock.recv(1):
            got += piece
    except ConnectionResetError:
        return got
    raise AssertionError("it was closed, not reset")


def test_a_link_without_orders_carries_every_byte_and_the_end(wire: Wire) -> None:
    sent = bytes(range(256)) * 4000
    with client(wire) as sock:
        threading.Thread(target=sock.sendall, args=(sent,)).start()
        assert received(sock, len(sent)) == sent
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""
    assert wire.seen()["up"] == wire.seen()["down"] == len(sent)


@pytest.mark.parametrize("way", ["up", "down"])
def test_what_is_held_comes_later_and_whole(wire: Wire, way: str) -> None:
    with client(wire, 0.3) as sock:
        wire.way(way, held=True)  # type: ignore[arg-type]
        sock.sendall(b"late")
        with pytest.raises(TimeoutError):
            sock.recv(1)
        wire.restore()
        sock.settimeout(5)
        assert received(sock, 4) == b"late"


def test_latency_and_bandwidth_take_their_time(wire: Wire) -> None:
    with client(wire) as sock:
        wire.way("up", latency=0.2)
        wire.way("down", bandwidth=1000)
        began = time.monotonic()
        sock.sendall(b"x" * 300)
        assert received(sock, 300) == b"x" * 300
        assert 0.45 < time.monotonic() - began < 3


def test_a_cut_comes_after_that_byte_and_is_a_reset(wire: Wire) -> None:
    with client(wire) as sock:
        wire.way("down", cut_after=5)
        sock.sendall(b"0123456789")
        # A reset may take with it what was not yet read.
        assert until_reset(sock) in (b"01234", b"")


def test_one_bit_is_flipped_and_no_other(wire: Wire) -> None:
    with client(wire) as sock:
        wire.way("up", flip_at=3, slice=2)
        sock.sendall(b"\0" * 8)
        assert received(sock, 8) == b"\0\0\0\1\0\0\0\0"
        sock.sendall(b"\0" * 8)
        assert received(sock, 8) == b"\0" * 8


def test_a_half_open_link_accepts_and_never_answers(wire: Wire) -> None:
    wire.door("half_open")
    with client(wire, 0.3) as sock:
        sock.sendall(b"hello")
        with pytest.raises(TimeoutError):
            sock.recv(1)


def test_a_refused_and_a_reset_connection_break(wire: Wire) -> None:
    with client(wire) as sock:
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"
        wire.reset()
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    wire.door("refuse")
    # The reset may come before the connection is seen to be made.
    with contextlib.suppress(ConnectionResetError), client(wire) as sock:
        assert until_reset(sock) == b""


def test_new_connections_go_to_the_other_server(wire: Wire) -> None:
    other = echoing(b"other:")
    with client(wire) as before:
        before.sendall(b"a")
        assert received(before, 1) == b"a"
        wire.backend(HOST, other.server_address[1])
        with client(wire) as after:
            after.sendall(b"b")
            assert received(after, 7) == b"other:b"
        before.sendall(b"c")
        assert received(before, 1) == b"c"
    other.shutdown()
    other.server_close()


def request(kind: int) -> bytes:
    body = struct.pack(">hh", kind, 0) + b"body"
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("answered", [False, True])
def test_a_trap_cuts_at_its_request_alone(echo: _Server, tmp_path: Path, answered: bool) -> None:
    with proxy(tmp_path) as running:
        wire = running.link("kafka", HOST, echo.server_address[1], kafka=True)
        wire.trap(END_TXN, answered=answered)
        other, wanted = request(METADATA), request(END_TXN)
        with client(wire) as sock:
            # In pieces, as a request may come.
            sock.sendall(other[:3])
            time.sleep(0.05)
            sock.sendall(other[3:])
            assert received(sock, len(other)) == other
            sock.sendall(wanted)
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        seen = wire.seen()
        assert seen["sprung"] == 1
        assert seen["up"] == len(other) + (len(wanted) if answered else 0)
        with client(wire) as sock:
            sock.sendall(wanted)
            assert received(sock, len(wanted)) == wanted


def test_what_nobody_can_do_is_refused(wire: Wire) -> None:
    with pytest.raises(RuntimeError, match="no colour"):
        wire.way("up", colour="red")
