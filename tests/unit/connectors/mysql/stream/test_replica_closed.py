"""A stream that is closed while it is being opened: nothing is asked for any more, and no connection stays."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from connectors.errors import SourceLost
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.stream import dump_command
from connectors.mysql.stream import replica as streams
from connectors.mysql.stream.replica import BinlogStream

STEPS = ["connecting", "checksum", "settings", "registration", "registered"]
"""Of opening, each with an answer to wait for; what follows the last is the request for the binlog."""


class Connection:
    """A connection to a server that keeps who asks waiting at one step."""

    def __init__(self, slow: str) -> None:
        self._sock, self._far = socket.socketpair()
        self._sock.settimeout(30)
        self._slow = slow
        self.steps: list[str] = []
        self.reached = threading.Event()
        self.proceed = threading.Event()

    def step(self, name: str) -> None:
        self.steps.append(name)
        if name == self._slow:
            self.reached.set()
            assert self.proceed.wait(30)

    def get_server_info(self) -> str:
        return "8.0.36"

    def cursor(self) -> Connection:
        return self

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, text: str, _arguments: tuple[object, ...] = ()) -> None:
        self.step("checksum" if text.startswith("SHOW") else "settings")

    def fetchall(self) -> tuple[tuple[str, str], ...]:
        return (("binlog_checksum", "CRC32"), ("server_uuid", "u-1"))

    def _write_bytes(self, _data: bytes) -> None:
        self.step("registration")

    def _read_packet(self) -> None:
        self.step("registered")

    def _execute_command(self, _command: int, _body: bytes) -> None:
        self.step("dump")

    def _force_close(self) -> None:
        self._sock.close()
        self._far.close()


@pytest.fixture
def address() -> SourceAddress:
    return SourceAddress(
        host="h", port=3306, user="u", password="", server_id=5, replica_uuid="a-b"
    )


def opening(
    connection: Connection, address: SourceAddress, monkeypatch: pytest.MonkeyPatch
) -> tuple[BinlogStream, threading.Thread, list[BaseException]]:
    """A stream that another thread opens, and what that thread has met."""

    def connected(_address: SourceAddress, **_: object) -> Any:
        connection.step("connecting")
        return connection

    monkeypatch.setattr(streams, "connection_to", connected)
    monkeypatch.setattr(dump_command, "registration", lambda _address: b"")
    stream = BinlogStream(
        address, SourceOffset(server_uuid="", coordinates=Coordinates("b.000001", 4))
    )
    met: list[BaseException] = []

    def opened() -> None:
        try:
            stream.open()
        except BaseException as error:
            met.append(error)

    thread = threading.Thread(target=opened)
    thread.start()
    return stream, thread, met


@pytest.fixture(params=STEPS)
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    made = Connection(cast("str", request.param))
    yield made
    made.proceed.set()
    made._force_close()


def test_what_is_closed_meanwhile_asks_for_nothing_and_leaves_no_connection(
    connection: Connection, address: SourceAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, thread, met = opening(connection, address, monkeypatch)
    assert connection.reached.wait(30)
    stream.close()
    if connection._slow != "connecting":
        # Who waits for an answer there continues at once, and closes it himself.
        assert connection._sock.recv(1) == b""
    connection.proceed.set()
    thread.join(30)
    assert "dump" not in connection.steps
    assert ("registration" in connection.steps) == (connection._slow in STEPS[3:])
    (error,) = met
    assert isinstance(error, SourceLost)
    assert "the connection was closed" in str(error)
    assert connection._sock.fileno() == -1
