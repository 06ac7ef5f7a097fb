"""The proxy's links, as a test controls them.

Invariant: the proxy is a process of its own, so that a busy test does not slow a link, and ends with the test.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.crash.proxy import HOST

Direction = Literal["up", "down"]
"""From the client to the server, or back."""

PRODUCE, FETCH, METADATA, FIND_COORDINATOR = 0, 1, 3, 10
INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 22, 24, 26
"""Kinds of Kafka's requests (https://kafka.apache.org/protocol#protocol_api_keys)."""


@dataclass(slots=True)
class Proxy:
    """A running proxy."""

    control: socket.socket
    lock: threading.Lock

    def __post_init__(self) -> None:
        self._file = self.control.makefile("rb")

    _file: Any = None

    def ask(self, what: str, name: str, **values: Any) -> Any:
        """Have something done; raises RuntimeError with the proxy's own words."""
        with self.lock:
            line = json.dumps({"what": what, "name": name, **values}).encode()
            self.control.sendall(line + b"\n")
            answer = json.loads(self._file.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["done"]

    def link(self, name: str, host: str, port: int, *, kafka: bool = False) -> Wire:
        """A new link to a server."""
        found = self.ask("link", name, host=host, port=port, kafka=kafka)
        return Wire(self, name, int(found))


@dataclass(frozen=True, slots=True)
class Wire:
    """One link; its clients connect to ``port``."""

    proxy: Proxy
    name: str
    port: int

    def way(self, direction: Direction, **values: Any) -> None:
        """Change one direction: held, latency, bandwidth, slice, cut_after, flip_at."""
        self.proxy.ask("way", self.name, way=direction, **values)

    def door(self, state: Literal["open", "refuse", "half_open"]) -> None:
        """The treatment of new connections."""
        self.proxy.ask("door", self.name, door=state)

    def trap(self, kind: int, **how: Any) -> None:
        """Cut, hold or spoil the ``nth`` Kafka request of a kind; a cut comes before it gets through, or, where
        it is to be ``answered``, before the answer does, and is ``shut`` for so many seconds."""
        self.proxy.ask("trap", self.name, kind=kind, **how)

    def backend(self, host: str, port: int) -> None:
        """Another server for new connections."""
        self.proxy.ask("backend", self.name, host=host, port=port)

    def reset(self) -> None:
        """Cut what is open."""
        self.proxy.ask("reset", self.name)

    def restore(self) -> None:
        """End all faults; held data is delivered."""
        self.proxy.ask("heal", self.name)

    def seen(self) -> dict[str, int]:
        """Connections accepted and open, bytes each way, traps sprung."""
        found: dict[str, int] = self.proxy.ask("seen", self.name)
        return found


@contextlib.contextmanager
def proxy(folder: Path) -> Iterator[Proxy]:
    """A proxy process, which ends with the block."""
    path = folder / "proxy.sock"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.proxy", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(path))
            found = Proxy(control, threading.Lock())
            with found._file:
                yield found
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
        process.stdout.close()
        path.unlink(missing_ok=True)


__all__ = ["HOST", "Direction", "Proxy", "Wire", "proxy"]
