"""Servers that keep running after the command that started them, until they are stopped.

Their pids, start times and addresses are lines of `.run/<name>/servers`. `.run/<name>/ports` keeps
their ports, so that a server that was stopped or died is restarted on the same one.
"""

import json
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

    def line(self) -> str:
        """Its line in the record, which `parse` reads."""
        return f"{self.identity.pid} {self.identity.started} {self.name} {self.address}"

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
    """Start those of the servers that do not run, each on the port it had before."""
    running = [server for server in read(folder) if server.identity.alive()]
    missing = [name for name in SERVICES if name not in {server.name for server in running}]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        _record(folder).write_text("".join(f"{server.line()}\n" for server in running))
        ports = _ports(folder)
        Stack(folder, missing, record=_record(folder), ports=ports).start()
        found = {server.name: int(server.address.rpartition(":")[2]) for server in read(folder)}
        (folder / "ports").write_text(json.dumps(found))
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


def _ports(folder: Path) -> dict[str, int]:
    """The port that each server had last."""
    try:
        found: dict[str, int] = json.loads((folder / "ports").read_text())
    except (OSError, ValueError):
        return {}
    return found
