"""Servers that run on after the command that started them, until they are told to end.

Their pids, start times and addresses are lines of `.run/<name>/servers`.
"""

import threading
from dataclasses import dataclass
from pathlib import Path

from devstack.processes import ProcessIdentity, end
from devstack.stack import SERVICES, Stack

_GRACE_SECONDS = 20


@dataclass(frozen=True, slots=True)
class RunningServer:
    """One server that was started earlier."""

    name: str
    address: str
    identity: ProcessIdentity

    def __str__(self) -> str:
        state = f"pid {self.identity.pid}" if self.identity.alive() else "not running"
        return f"{self.name:<10} {self.address:<18} {state}"


def read(folder: Path) -> list[RunningServer]:
    """Return the servers that were started in a run folder, running or not."""
    record = _record(folder)
    lines = record.read_text().splitlines() if record.exists() else []
    return [parse(line) for line in lines]


def parse(line: str) -> RunningServer:
    """Read `PID START-TICK NAME ADDRESS`."""
    pid, started, name, address = line.split()
    return RunningServer(name, address, ProcessIdentity(int(pid), int(started)))


def up(folder: Path) -> list[RunningServer]:
    """Start the servers, unless all are running already."""
    servers = read(folder)
    if {server.name for server in servers if server.identity.alive()} != set(SERVICES):
        down(folder)
        folder.mkdir(parents=True, exist_ok=True)
        Stack(folder, record=_record(folder)).start()
    return read(folder)


def down(folder: Path) -> list[RunningServer]:
    """End the servers, all at the same time, and return those that were running."""
    running = [server for server in read(folder) if server.identity.alive()]
    threads = [
        threading.Thread(target=end, args=[server.identity], kwargs={"grace": _GRACE_SECONDS})
        for server in running
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _record(folder).unlink(missing_ok=True)
    return running


def _record(folder: Path) -> Path:
    return folder / "servers"
