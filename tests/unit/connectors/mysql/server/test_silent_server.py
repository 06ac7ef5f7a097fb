"""A server that stops answering at any step of a connection attempt is abandoned after a timeout."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from connectors.errors import SourceLost
from connectors.mysql.server.connection import SourceAddress, connected

_GREETING = (
    b"\x0a8.0.0\0" + struct.pack("<I", 1) + b"12345678\0" + b"\xff\xff" + b"\x21\x02\x00"
    + b"\x0a\x00" + b"\x15" + bytes(10) + b"123456789012\0" + b"mysql_native_password\0"
)  # fmt: skip
"""A handshake of protocol 10 that offers TLS."""


@pytest.fixture(params=["before its greeting", "before TLS"])
def silent(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a server that stops answering at this step."""
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        listener.settimeout(20)
        connection, _ = listener.accept()
        with connection:
            if request.param == "before TLS":
                connection.sendall(len(_GREETING).to_bytes(3, "little") + b"\0" + _GREETING)
            over.wait(60)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        over.set()
        thread.join(20)


def test_a_server_that_falls_silent_is_lost(silent: int) -> None:
    address = SourceAddress(
        host="127.0.0.1",
        port=silent,
        user="x",
        password="",
        server_id=1,
        replica_uuid="",
        heartbeat=0.1,
    )
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            with connected(address):
                pass
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits forever"
    assert isinstance(failed[0], SourceLost)
