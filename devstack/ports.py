"""Find free loopback ports, and wait for a server to answer on its own."""

import random
import socket
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from devstack.errors import ServerError
from devstack.processes import Child, Children, tail

HOST = "127.0.0.1"
_LOWEST = 15_000
_READ_SECONDS = 2.0
_POLL_SECONDS = 0.04
_REMEMBERED = 100
_chosen: deque[socket.socket] = deque()
"""The last ports that were chosen here: a server may not listen yet when the next one is chosen."""


def free_port(wanted: int | None = None) -> int:
    """Return the wanted port if nothing listens there, else a free one.

    It is below the range from which the kernel assigns ports to clients.
    """
    if wanted is not None and _is_free(wanted):
        _choose(wanted)
        return wanted
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    highest = max(int(limits[0]), _LOWEST + 10_000)
    for port in random.sample(range(_LOWEST, highest), 200):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        if _choose(port):
            return port
    raise ServerError(f"no free port between {_LOWEST} and {highest} on {HOST}.")


def _choose(port: int) -> bool:
    """Whether no process of this machine has chosen the port lately; if none has, this one does.

    The mark is a name among the kernel's sockets, which ends with the process.
    """
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0aqueduct-port-{port}")
    except OSError:
        mark.close()
        return False
    _chosen.append(mark)
    if len(_chosen) > _REMEMBERED:
        _chosen.popleft().close()
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Connections of its former server may still be closing.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def exchange(port: int, request: bytes, size: int) -> bytes:
    """Send a request and return the first `size` bytes of the answer, or fewer at its end."""
    with socket.create_connection((HOST, port), timeout=_READ_SECONDS) as connection:
        connection.sendall(request)
        answer = b""
        while len(answer) < size and (piece := connection.recv(size - len(answer))):
            answer += piece
        return answer


def wait_until_ready(
    name: str,
    child: Child,
    ready: Callable[[], bool],
    *,
    owner: Children,
    log: Path,
    seconds: float,
) -> None:
    """Return when the server answers; raise ServerError when it ends or is too late."""
    deadline = time.monotonic() + seconds
    while True:
        owner.check_open()
        if not child.alive():
            problem = f"ended with status {child.popen.returncode} while starting"
            raise ServerError(f"{name} {problem}; from {log}:\n{tail(log)}")
        try:
            if ready():
                return
        except OSError:
            pass  # not listening yet
        if time.monotonic() > deadline:
            raise ServerError(f"{name} gave no answer in {seconds:g} s; from {log}:\n{tail(log)}")
        time.sleep(_POLL_SECONDS)
