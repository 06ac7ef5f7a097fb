"""A wire between a reader and a server that can stop carrying without being cut."""

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Wire:
    """Forwards bytes both ways until stopped; then both ends stay open without data."""

    target: tuple[str, int]
    listener: socket.socket
    stopped: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        """Its port, on the target's host."""
        return int(self.listener.getsockname()[1])

    def carry(self) -> None:
        """Serve one connection after the other, until the end."""
        while not self.ended.is_set():
            if not select.select([self.listener], [], [], 0.05)[0]:
                continue
            client, _ = self.listener.accept()
            with client, socket.create_connection(self.target) as server:
                self._between({client: server, server: client})

    def _between(self, ways: dict[socket.socket, socket.socket]) -> None:
        while not self.ended.is_set():
            for one in select.select(list(ways), [], [], 0.05)[0]:
                if self.stopped.is_set():
                    self.ended.wait()
                    return
                data = one.recv(65536)
                if not data:
                    return
                ways[one].sendall(data)


@contextlib.contextmanager
def wire_to(host: str, port: int) -> Iterator[Wire]:
    """A wire to a server, which ends with the block."""
    with socket.create_server((host, 0)) as listener:
        wire = Wire((host, port), listener)
        thread = threading.Thread(target=wire.carry)
        thread.start()
        try:
            yield wire
        finally:
            wire.ended.set()
            thread.join()
