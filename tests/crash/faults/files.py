"""Faults of the source's binlog files, its accounts and its disk."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pymysql

from tests.crash.scenario import Skipped, fault
from tests.crash.scene import Scene

_STORM = 6.0


@fault("binlog.rotation-storm", "FLUSH LOGS in a loop under load, with a kill -9 during it")
def storm(at: Scene) -> str:
    at.begin()
    files = 0
    with at.servers.connect() as connection, connection.cursor() as cursor:
        until = time.monotonic() + _STORM
        while time.monotonic() < until:
            cursor.execute("FLUSH BINARY LOGS")
            files += 1
            time.sleep(0.02)
            if files == 60:
                at.worker.kill()
    return f"{files} files; recovered in {at.wait_recovered():.1f} s"


@fault("binlog.purged", "binlog files are purged before they are read", error="PositionPurged")
def purged(at: Scene) -> str:
    _down_after(at)
    at.earlier = at.binlog()
    name = at.servers.run("SHOW BINARY LOGS")[-1][0]
    at.servers.run(f"PURGE BINARY LOGS TO '{name}'")
    return _stopped(at, "PositionPurged")


@fault(
    "binlog.reset",
    "RESET BINARY LOGS AND GTIDS while the worker is stopped",
    error="PositionPastEnd",
)
def reset(at: Scene) -> str:
    _down_after(at)
    at.earlier, at.is_another = at.binlog(), True
    at.servers.run("RESET BINARY LOGS AND GTIDS")
    at.servers.run("INSERT INTO shop.moves VALUES (90000000, 1, 'after')")
    return _stopped(at, "PositionPastEnd")


@fault(
    "binlog.reset-idle",
    "RESET BINARY LOGS AND GTIDS while the worker is idle, followed by one change",
    error="PositionPastEnd",
)
def reset_idle(at: Scene) -> str:
    at.begin()
    at.pause(0.5, 1.5)
    at.settle()
    at.earlier, at.is_another = at.binlog(), True
    before = at.topics().cursors[-1]
    at.servers.run("RESET BINARY LOGS AND GTIDS")
    at.servers.run("INSERT INTO shop.moves VALUES (90000000, 1, 'after')")
    error = at.wait_state("FAILED")
    assert error == "PositionPastEnd", f"it stopped with {error}"
    after = at.topics().cursors[-1]
    assert after["gtid_set"] == before["gtid_set"], "its cursor has moved"
    return f"stopped: {error}; the cursor is kept"


@fault(
    "binlog.unlisted",
    "a binlog file that is still needed is missing from the index",
    error="BinlogFileMissing",
)
def unlisted(at: Scene) -> str:
    names = _left_with_three_files(at)
    at.servers.mysql.stop()
    index = at.servers.mysql.data / "binlog.index"
    listed = index.read_text()
    index.write_text("".join(f"./{name}\n" for name in names if name != names[-3]))
    at.servers.mysql.start()
    try:
        return _stopped_at(at, names[-3])
    finally:
        at.servers.mysql.stop()
        index.write_text(listed)
        at.servers.mysql.start()


@fault(
    "binlog.missing",
    "a binlog file that is still needed is deleted but listed in the index",
    error="BinlogFileMissing",
)
def missing(at: Scene) -> str:
    names = _left_with_three_files(at)
    file = at.servers.mysql.data / names[-3]
    away = file.with_name(f"away-{file.name}")
    file.rename(away)
    try:
        return _stopped_at(at, names[-3])
    finally:
        away.rename(file)


@fault("binlog.moved", "MySQL's binlog is moved to another folder, then back")
def moved(at: Scene) -> str:
    at.begin()
    at.pause(0.5, 1.5)
    folder = at.folder / "moved"
    folder.mkdir()
    try:
        _move_binlogs(at, folder)
        took = at.wait_recovered()
        at.pause(0.5, 1.5)
    finally:
        _move_binlogs(at, at.servers.mysql.data)
        at.servers.mysql._options["log_bin"] = "binlog"
    return f"recovered in {took:.1f} s, then in {at.wait_recovered():.1f} s"


@fault("binlog.renamed", "all binlog files and the index are renamed while the worker is stopped")
def renamed(at: Scene) -> str:
    at.begin()
    at.pause(0.5, 1.5)
    at.worker.signal(signal.SIGSTOP)
    at.pause(0.5, 1)
    try:
        _rename_binlogs(at, "renamed")
        at.worker.signal(signal.SIGCONT)
        took = at.wait_recovered()
        at.settle()
        worker, at.workers = at.workers, []
        for one in worker:
            one.stop()
    finally:
        _rename_binlogs(at, "binlog")
    at.start()
    return f"recovered in {took:.1f} s; by the old names in {at.wait_recovered():.1f} s"


def _rename_binlogs(at: Scene, name: str) -> None:
    mysql = at.servers.mysql
    mysql.stop()
    old = Path(str(mysql._options["log_bin"])).name
    for file in sorted(mysql.data.glob(f"{old}.[0-9]*")):
        file.rename(mysql.data / f"{name}{file.suffix}")
    index = mysql.data / f"{old}.index"
    (mysql.data / f"{name}.index").write_text(index.read_text().replace(f"{old}.", f"{name}."))
    index.unlink()
    mysql._options["log_bin"] = name
    mysql.start()


def _left_with_three_files(at: Scene) -> list[str]:
    """The worker is away; the file of its cursor stays, and three more have what it has not read."""
    at.begin()
    at.pause(0.5, 1.5)
    at.worker.again = False
    at.worker.kill()
    at.wait(lambda: bool(at.worker.exits), "does not end")
    at.load.stop()
    for n in range(3):
        at.servers.run("FLUSH BINARY LOGS", f"UPDATE shop.goods SET n = {1000 + n} WHERE id = 1")
    at.earlier = at.binlog()
    return [str(row[0]) for row in at.servers.run("SHOW BINARY LOGS")]


@fault(
    "account.password",
    "the account's password is changed while the worker is running, then restored",
)
def password(at: Scene) -> str:
    at.begin()
    at.servers.run("ALTER USER 'aqueduct'@'%' IDENTIFIED BY 'another'")
    at.mysql.reset()
    error = at.wait_state("RETRYING")
    at.pause(1, 3)
    at.servers.run("ALTER USER 'aqueduct'@'%' IDENTIFIED BY 'aqueduct'")
    return f"{error} meanwhile; recovered in {at.wait_recovered():.1f} s"


@fault(
    "account.grant", "REPLICATION SLAVE is revoked while the worker is running, then granted again"
)
def grant(at: Scene) -> str:
    at.begin()
    at.servers.run("REVOKE REPLICATION SLAVE ON *.* FROM 'aqueduct'@'%'")
    at.mysql.reset()
    at.wait(lambda: at.state() in ("RETRYING", "FAILED"), "does not show it")
    error = str(at.status().get("error", "")).partition(":")[0]
    at.pause(1, 3)
    at.servers.run("GRANT REPLICATION SLAVE ON *.* TO 'aqueduct'@'%'")
    if at.state() == "FAILED":
        at.worker.kill()
        return f"{error}; after a restart recovered in {at.wait_recovered():.1f} s"
    return f"{error} meanwhile; recovered in {at.wait_recovered():.1f} s"


@fault("account.connections", "all of MySQL's connections are in use for some seconds")
def connections(at: Scene) -> str:
    at.begin()
    held: list[pymysql.connections.Connection] = []
    try:
        with contextlib.suppress(pymysql.OperationalError):
            while len(held) < 200:
                held.append(_as_worker(at))
        at.mysql.reset()
        at.pause(3, 5)
    finally:
        for one in held:
            one.close()
    return f"{len(held)} held; recovered in {at.wait_recovered():.1f} s"


@fault("source.read-only", "the source is read-only for some seconds")
def read_only(at: Scene) -> str:
    at.begin()
    at.servers.run("SET GLOBAL read_only = ON")
    at.mysql.reset()
    at.pause(1, 2)
    at.servers.run("SET GLOBAL read_only = OFF")
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("source.disk-full", "MySQL's disk is full for some seconds")
def disk_full(at: Scene) -> str:
    with _small_disk(at) as room:
        at.begin()
        ballast = room / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb") as file:
            while True:
                file.write(b"\0" * 65536)
                file.flush()
        threading.Timer(5.0, ballast.unlink).start()
        at.pause(6, 7)
        took = at.wait_recovered()
        at.settle()
        _move_binlogs(at, at.servers.mysql.data)
    return f"recovered in {took:.1f} s"


@contextlib.contextmanager
def _small_disk(at: Scene) -> Iterator[Path]:
    """A small disk for the binlogs only: MySQL waits there until there is space again."""
    room = at.folder / "disk"
    room.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(room)]
    made = subprocess.run(mount, capture_output=True, check=False)
    if made.returncode:
        raise Skipped("no file system of its own can be mounted here")
    try:
        _move_binlogs(at, room)
        yield room
    finally:
        if at.servers.mysql.child is not None:
            at.servers.mysql.kill()
        at.servers.mysql._options["log_bin"] = "binlog"
        at.servers.mysql.start()
        subprocess.run(["umount", "-l", str(room)], capture_output=True, check=False)


def _move_binlogs(at: Scene, folder: Path) -> None:
    """Move MySQL's binlogs to another folder."""
    mysql = at.servers.mysql
    before = Path(str(mysql._options["log_bin"]))
    mysql.stop()
    old = mysql.data / before
    for file in sorted(old.parent.glob(f"{old.name}.[0-9]*")):
        (folder / file.name).write_bytes(file.read_bytes())
        file.unlink()
    index = old.parent / f"{old.name}.index"
    names = [line.rpartition("/")[2] for line in index.read_text().splitlines()]
    index.unlink()
    (folder / "binlog.index").write_text("".join(f"{folder}/{name}\n" for name in names))
    mysql._options["log_bin"] = str(folder / "binlog")
    mysql.start()


def _down_after(at: Scene) -> None:
    """Stop the worker while the source writes several files."""
    at.begin()
    at.pause(0.5, 1.5)
    at.worker.again = False
    at.worker.kill()
    at.wait(lambda: bool(at.worker.exits), "does not end")
    for _ in range(3):
        at.pause(0.3, 0.6)
        at.servers.run("FLUSH BINARY LOGS")
    at.load.stop()


def _stopped(at: Scene, expected: str) -> str:
    """The next worker stops by name, and the cursor stays."""
    before = at.topics().cursors[-1]
    second = at.start()
    error = at.wait_state("FAILED", worker=second)
    assert error == expected, f"it stopped with {error}"
    after = at.topics().cursors[-1]
    assert after["gtid_set"] == before["gtid_set"], "its cursor has moved"
    return f"stopped: {error}; the cursor is kept"


def _stopped_at(at: Scene, missing: str) -> str:
    """The next worker reads up to the file that is missing, and stops by name."""
    second = at.start()
    error = at.wait_state("FAILED", worker=second)
    assert error == "BinlogFileMissing", f"it stopped with {error}"
    file = at.topics().cursors[-1]["file"]
    assert file < missing, f"its cursor is in {file}, and {missing} is missing"
    return f"stopped: {error}; the cursor is before it"


def _as_worker(at: Scene) -> pymysql.connections.Connection:
    return pymysql.connect(
        host=at.servers.mysql.host,
        port=at.servers.mysql.port,
        user="aqueduct",
        password="aqueduct",
        connect_timeout=5,
    )
