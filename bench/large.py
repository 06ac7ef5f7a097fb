"""`python -m bench.large`: one transaction of ten million rows, with the worker killed within it.

Invariant: the outcome is read as by a consumer, committed records only: each row once, numbers
without a gap, and parts that together count all rows. Memory is of all the worker's processes
together.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import yaml

from bench import report, session
from bench.errors import BenchError, RunFailed
from bench.large_outcome import Outcome, verify
from bench.measure import family, pss_mib
from devstack import Stack
from devstack.mysql import Mysql
from devstack.ports import free_port
from devstack.programs import WORKER, environment

ROWS = 10_000_000
FOLDER = session.FOLDER / "large"
_LOOK_SECONDS = 0.1
_BESIDE_SECONDS = 0.1
"""The interval of rows in the other source."""
_TIMEOUT = 1800.0


class Worker:
    """The worker's process, and its status page."""

    def __init__(self, settings: dict[str, Any], folder: Path) -> None:
        config = folder / "aqueduct.yaml"
        config.write_text(yaml.safe_dump(settings))
        self._port = settings["http"]["port"]
        with (folder / "worker.log").open("ab") as log:
            self.process = subprocess.Popen(
                WORKER,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(AQUEDUCT_CONFIG=str(config)),
                start_new_session=True,
            )

    def destination(self, name: str) -> dict[str, Any]:
        """The destination's status; empty while the worker does not answer."""
        try:
            page = f"http://127.0.0.1:{self._port}/status"
            with urllib.request.urlopen(page, timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)["destinations"][name]
                return found
        except OSError:
            return {}

    def memory_mib(self) -> list[float]:
        """The memory of each of its processes, its own first."""
        return [pss_mib(pid) for pid in family(self.process.pid)]

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.process.kill()
        self.process.wait()


class Beside:
    """A second source, into which rows are written at intervals."""

    def __init__(self, mysql: Mysql) -> None:
        self._mysql = mysql
        self._over = threading.Event()
        self.written: list[float] = []
        """The commit time of each row."""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Beside:
        execute(self._mysql, "CREATE DATABASE beside", "CREATE TABLE beside.t (id int PRIMARY KEY)")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with connected(self._mysql) as cursor:
            while not self._over.wait(_BESIDE_SECONDS):
                cursor.execute("INSERT INTO beside.t VALUES (%s)", (len(self.written),))
                self.written.append(time.monotonic())


@contextlib.contextmanager
def connected(mysql: Mysql) -> Iterator[Any]:
    """A cursor of root that commits each statement."""
    connection = pymysql.connect(
        host=mysql.host, port=mysql.port, user="root", autocommit=True, read_timeout=3600
    )
    with connection, connection.cursor() as cursor:
        yield cursor


def execute(mysql: Mysql, *statements: str) -> None:
    """Run statements in one session."""
    with connected(mysql) as cursor:
        for statement in statements:
            cursor.execute(statement)


def fill(mysql: Mysql, rows: int, *, width: int = 0) -> None:
    """Write one transaction of one statement with so many rows, each with ``width`` bytes of text."""
    digits = " UNION ALL ".join(f"SELECT {n} d" for n in range(10))
    names = [f"t{n}" for n in range(len(str(rows - 1)))]
    tables = ", ".join(f"({digits}) {name}" for name in names)
    number = " + ".join(f"{name}.d * {10**n}" for n, name in enumerate(names))
    execute(
        mysql,
        "CREATE DATABASE large",
        "CREATE TABLE large.t (id int PRIMARY KEY, x int NOT NULL, note varchar(999) NOT NULL)",
        f"INSERT INTO large.t SELECT n, n, REPEAT('y', {width}) "
        f"FROM (SELECT {number} n FROM {tables}) numbers WHERE n < {rows}",
    )


def prove(
    stack: Stack,
    folder: Path,
    *,
    rows: int,
    width: int = 0,
    kill: bool = True,
    publish: dict[str, int] | None = None,
) -> Outcome:
    """Run one worker with two sources, one with the large transaction, until all is published."""
    large = stack.second_mysql(
        f"large-{folder.name}", {"server_id": 21, "binlog_expire_logs_seconds": 0}
    )
    other = stack.second_mysql(f"beside-{folder.name}", {"server_id": 22})
    large.start()
    other.start()
    try:
        fill(large, rows, width=width)
        settings = _settings(stack, large, other, folder=folder, publish=publish or {})
        outcome = Outcome(rows=rows)
        with Beside(other) as beside:
            _published(outcome, settings, beside, folder=folder, kill=kill)
        asyncio.run(verify(outcome, stack.kafka, settings["prefix"]))
        return outcome
    finally:
        large.kill()
        other.kill()


def _settings(
    stack: Stack, large: Mysql, other: Mysql, *, folder: Path, publish: dict[str, int]
) -> dict[str, Any]:
    def destination(mysql: Mysql, server_id: int, database: str) -> dict[str, Any]:
        account = {"user": "aqueduct", "password": "aqueduct", "tls": "disabled"}
        return {
            "source": {"host": mysql.host, "port": mysql.port, **account},
            "server_id": server_id,
            "filter": {"include": rf"{database}\..*"},
            "start": "earliest",
        }

    return {
        "prefix": f"large-{folder.name}".replace("_", "-"),
        "http": {"port": free_port()},
        "kafka": {"bootstrap_servers": stack.kafka},
        "topics": {"partitions": 1, "replication_factor": 1},
        "publish": publish,
        "data_dir": str(folder / "data"),
        "destinations": {
            "large": destination(large, 6201, "large"),
            "beside": destination(other, 6202, "beside"),
        },
    }


def _published(
    outcome: Outcome, settings: dict[str, Any], beside: Beside, *, folder: Path, kill: bool
) -> None:
    """Run the worker until all is published; with ``kill`` it is killed once in between."""
    began = time.monotonic()
    watch = _Watch(outcome, beside)
    # The CREATE TABLE statement has a number too.
    wanted = outcome.rows
    if kill:
        worker = Worker(settings, folder)
        try:
            outcome.killed_at = watch.until(worker, lambda seq: seq > wanted * 2 // 5)
        finally:
            worker.kill()
    worker = Worker(settings, folder)
    try:
        watch.until(worker, lambda seq: seq > wanted)
        outcome.seconds = time.monotonic() - began
    finally:
        worker.kill()


class _Watch:
    """Samples a worker's memory, and the progress of both destinations."""

    def __init__(self, outcome: Outcome, beside: Beside) -> None:
        self._outcome = outcome
        self._beside = beside
        self._seen = 0

    def until(self, worker: Worker, reached: Callable[[int], bool]) -> int:
        """Sample until the large transaction has reached a point; return its progress."""
        deadline = time.monotonic() + _TIMEOUT
        is_near = False
        while time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
            if worker.process.poll() is not None:
                raise RunFailed(f"the worker ended with status {worker.process.returncode}")
            self._outcome.look_at_memory(worker.memory_mib())
            is_near = self._look_beside(worker, is_near=is_near)
            status = worker.destination("large")
            if status.get("state") == "FAILED":
                raise RunFailed(str(status["error"]))
            seq = int(((status or {}).get("cursor") or {}).get("seq") or 0)
            if reached(seq):
                return seq
        raise RunFailed("the large transaction was not published in time")

    def _look_beside(self, worker: Worker, *, is_near: bool) -> bool:
        """Record the delay of each row, except those written before the worker ran."""
        status = worker.destination("beside")
        seq = int(((status or {}).get("cursor") or {}).get("seq") or 0)
        now, done = time.monotonic(), max(0, seq - 1)
        written = self._beside.written[self._seen : done]
        if is_near:
            self._outcome.lags += [now - at for at in written]
        self._seen = max(self._seen, done)
        return is_near or (bool(seq) and len(self._beside.written) - done < 5)


def story() -> None:
    """Run the benchmark, and print the last line."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with Stack(FOLDER / "stack", ("kafka",), lasting=True) as stack:
        outcome = prove(stack, FOLDER, rows=_rows())
    lags = sorted(outcome.lags)
    p95 = lags[len(lags) * 95 // 100] if lags else 0.0
    print(f"all figures: {report.keep(session.RESULTS, 'large', vars_of(outcome))}")
    print(
        f"bench-large: rows={outcome.rows} parts={outcome.parts} killed_at={outcome.killed_at} "
        f"peak_mib={outcome.peak_mib:.0f} seconds={outcome.seconds:.0f} "
        f"beside_rows={len(lags)} beside_p95={p95:.2f} beside_most={max(lags, default=0.0):.2f} "
        f"faults={len(outcome.faults)}",
        flush=True,
    )
    shutil.rmtree(FOLDER)
    if outcome.faults:
        raise RunFailed("; ".join(outcome.faults))


def vars_of(outcome: Outcome) -> dict[str, Any]:
    """The outcome for the file of results."""
    return {name: getattr(outcome, name) for name in Outcome.__slots__}


def _rows() -> int:
    text = os.environ.get("ROWS") or str(ROWS)
    if not text.isdecimal() or int(text) < 1000:
        raise BenchError(f"ROWS is {text!r}; give a number above 1,000")
    return int(text)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("usage: [ROWS=n] python -m bench.large")
    sys.exit(session.run("bench-large", story))
