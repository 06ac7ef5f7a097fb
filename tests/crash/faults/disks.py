"""Full disks under the broker and under ZooKeeper, which end of it; MySQL's, which waits, is in files.py."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from devstack.kafka import Kafka
from devstack.zookeeper import ZooKeeper
from tests.crash.both import Both
from tests.crash.scenario import Skipped, fault
from tests.crash.scene import Scene

_ROOM = 96
"""MiB for what a server writes, beside what it has."""
_DEATH = 120.0


@fault(
    "kafka.disk-full",
    "the broker's disk fills up until the broker exits; then there is space again",
)
def broker(at: Scene) -> str:
    server = at.servers.stack.kafka_server
    with small_disk(at, server, at.servers.stack.run_dir / "kafka" / "data") as disk:
        at.begin()
        ballast = broker_ended(at, disk)
        error = at.wait_state("RETRYING")
        at.pause(1, 3)
        ballast.unlink()
        server.start()
        took = at.wait_recovered()
    again = at.wait_recovered()
    return f"the broker exited; {error} meanwhile; recovered in {took:.1f} s, then in {again:.1f} s"


@fault(
    "zookeeper.disk-full",
    "ZooKeeper's disk fills up until ZooKeeper exits; then there is space again",
)
def zookeeper(at: Scene) -> str:
    at.servers.with_zookeeper()
    server = at.servers.stack.zookeeper_server
    data = at.servers.stack.run_dir / "zookeeper" / "data"
    with small_disk(at, server, data) as disk, Both.begun(at) as both:
        ballast = filled(disk)
        with both.hand() as client:
            _written(client, both.root)
        at.wait(lambda: server.child is None, "ZooKeeper lives on", seconds=_DEATH)
        both.nobody()
        ballast.unlink()
        server.start()
        took = both.somebody()
        rest = both.at_rest()
    return f"ZooKeeper exited, and no worker led; recovered in {took:.1f} s; {rest}"


def broker_ended(at: Scene, disk: Path) -> Path:
    """Fill the broker's disk, and wait until it has ended; the file to remove."""
    at.pause(0.5, 1.5)
    ballast = filled(disk)
    server = at.servers.stack.kafka_server
    at.wait(lambda: server.child is None, "the broker lives on a full disk", seconds=_DEATH)
    return ballast


@contextlib.contextmanager
def small_disk(at: Scene, server: Kafka | ZooKeeper, data: Path) -> Iterator[Path]:
    """A small disk below all that a server has; in the end it is on the large one again, with all of it."""
    held = subprocess.run(["du", "-sm", str(data)], capture_output=True, text=True, check=True)
    room = at.folder / f"disk-{at.name}"
    room.mkdir()
    size = int(held.stdout.split()[0]) + _ROOM
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(room)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        raise Skipped("no file system of its own can be mounted here")
    try:
        _moved(server, data, room / "data")
        try:
            yield room
        finally:
            server.stop()
            data.unlink()
            _copied(room / "data", data)
            server.start()
    finally:
        subprocess.run(["umount", "-l", str(room)], capture_output=True, check=False)


def _moved(server: Kafka | ZooKeeper, data: Path, to: Path) -> None:
    """Move a server's data to another folder, with a link in place of the old one."""
    server.stop()
    _copied(data, to)
    shutil.rmtree(data)
    data.symlink_to(to)
    server.start()


def _copied(data: Path, to: Path) -> None:
    # Its indexes are holes for the most part.
    subprocess.run(["cp", "-a", "--sparse=always", str(data), str(to)], check=True)


def filled(disk: Path) -> Path:
    """A file that leaves no room for anything."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 65536)
    return ballast


def _written(client: KazooClient, root: str) -> None:
    """Creates nodes until the disk is full; without a new session, ZooKeeper writes nothing by itself."""
    with contextlib.suppress(KazooException):
        for number in range(200):
            path = f"{root}-{number}"
            client.create_async(path, b"x" * 500_000).get(timeout=5)
            client.delete(path)
