"""``python -m bench.new_tables``: delay of rows of new tables, and of others beside them.

Invariant: a row counts as published when a reader of committed records receives it; each new
table's topic must hold exactly its row in the end.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition

from bench import report, session
from bench.errors import BenchError, RunFailed
from bench.large import Worker, connected
from devstack import Stack, topics
from devstack.mysql import Mysql
from devstack.ports import free_port
from tables.rules.routes.routes import Routes

FOLDER = session.FOLDER / "new_tables"
TABLES = (1, 1_000, 3_000)
_PAUSE = 0.05
"""Seconds between two rows of the other table."""
_CALM_ROWS = 100
_ROWS_AFTER = 40
_TIMEOUT = 600.0


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The measurements for one number of tables."""

    tables: int
    made_seconds: float = 0.0
    """The time that MySQL took to create the tables."""
    seconds: float = 0.0
    """Time from the commit of their rows until all are published."""
    calm: float = 0.0
    """The maximum delay of a row of the other table before the new tables' rows."""
    beside: float = 0.0
    """The same after that."""

    def line(self) -> str:
        """The outcome as a printed line."""
        return (
            f"tables={self.tables} made={self.made_seconds:.1f} published={self.seconds:.2f} "
            f"beside_before={self.calm:.2f} beside={self.beside:.2f}"
        )


@dataclass(slots=True)
class Beside:
    """Another table of the destination, written at intervals, and its consumer."""

    mysql: Mysql
    database: str
    written: list[float] = field(default_factory=list)
    read: dict[int, float] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def write(self) -> None:
        """Write until stopped."""
        with connected(self.mysql) as cursor:
            while not self.over.wait(_PAUSE):
                cursor.execute(f"INSERT INTO {self.database}.beside VALUES ({len(self.written)})")
                self.written.append(time.monotonic())

    async def follow(self, kafka: str, topic: str) -> None:
        """Read committed records, until cancelled."""
        async with AIOKafkaConsumer(
            bootstrap_servers=kafka,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=20,
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            async for record in consumer:
                self.read[orjson.loads(record.value)["after"]["id"]] = time.monotonic()

    def longest(self, first: int, last: int) -> float:
        """The maximum delay of these rows."""
        return max(self.read[row] - self.written[row] for row in range(first, last))


async def measure(stack: Stack, tables: int, folder: Path) -> Outcome:
    """Create tables under a steady load, and write a row into each in one transaction."""
    outcome, database = Outcome(tables=tables), f"many{tables}"
    mysql = stack.mysql
    await asyncio.to_thread(_run, mysql, f"CREATE DATABASE {database}")
    await asyncio.to_thread(_run, mysql, f"CREATE TABLE {database}.beside (id INT PRIMARY KEY)")
    settings = _settings(stack, database, folder)
    beside = Beside(mysql, database)
    writer = threading.Thread(target=beside.write, daemon=True)
    worker = Worker(settings, folder)
    following: asyncio.Task[None] | None = None
    try:
        writer.start()
        await _until(worker, lambda status: (status.get("rows") or 0) > 0)
        routes = Routes(prefix=settings["prefix"])
        topic = routes.topic((database, "beside"))
        following = asyncio.create_task(beside.follow(stack.kafka, topic))
        written_before = len(beside.written)
        await _until(worker, lambda _: len(beside.read) > written_before + _CALM_ROWS)
        outcome.calm = beside.longest(written_before, written_before + _CALM_ROWS)
        await _write(outcome, worker, beside, database)
        following.cancel()
        print(f"bench-new-tables: {outcome.line()}", flush=True)
        wanted = {routes.topic((database, f"t{number}")) for number in range(tables)}
        await _verify(stack.kafka, wanted)
    finally:
        beside.over.set()
        if following is not None:
            following.cancel()
        worker.kill()
        await asyncio.to_thread(writer.join)
    return outcome


async def _write(outcome: Outcome, worker: Worker, beside: Beside, database: str) -> None:
    names = [f"{database}.t{number}" for number in range(outcome.tables)]
    first, began = len(beside.written), time.monotonic()
    made = [f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in names]
    await asyncio.to_thread(_run, beside.mysql, *made)
    outcome.made_seconds = time.monotonic() - began
    rows = [f"INSERT INTO {name} VALUES (1)" for name in names]
    await asyncio.to_thread(_run, beside.mysql, "BEGIN", *rows, "COMMIT")
    committed, last = time.monotonic(), len(beside.written) + 1
    # The row after theirs is published after them.
    await _until(worker, lambda _: last in beside.read)
    outcome.seconds = beside.read[last] - committed
    await _until(worker, lambda _: last + _ROWS_AFTER in beside.read)
    outcome.beside = beside.longest(first, last + 1)


async def _until(worker: Worker, reached: Any) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while True:
        status = await asyncio.to_thread(worker.destination, "many")
        if worker.process.poll() is not None or status.get("state") == "FAILED":
            raise RunFailed(f"the worker has stopped: {status.get('error')}")
        if reached(status):
            return
        if time.monotonic() > deadline:
            raise RunFailed(f"not in time: {status}")
        await asyncio.sleep(0.05)


async def _verify(kafka: str, wanted: set[str]) -> None:
    """Check that each new table's topic holds one record and its commit marker."""
    names = wanted & await topics.names(kafka)
    ends = await topics.ends(kafka, names, request_timeout_ms=int(_TIMEOUT * 1000))
    if names != wanted or {*ends.values()} != {2}:
        raise RunFailed(
            f"{len(names)} topics of {len(wanted)}, with {sorted({*ends.values()})} records"
        )


def _run(mysql: Mysql, *statements: str) -> None:
    with connected(mysql) as cursor:
        for statement in statements:
            cursor.execute(statement)


def _settings(stack: Stack, database: str, folder: Path) -> dict[str, Any]:
    return {
        "prefix": f"new-{database}",
        "http": {"port": free_port()},
        "kafka": {"bootstrap_servers": stack.kafka},
        "topics": {"partitions": 1, "replication_factor": 1},
        "data_dir": str(folder / "data"),
        "destinations": {
            "many": {
                "source": {
                    "host": stack.mysql.host,
                    "port": stack.mysql.port,
                    "user": "aqueduct",
                    "password": "aqueduct",
                    "tls": "disabled",
                },
                "server_id": 6301,
                "filter": {"include": rf"{database}\..*"},
                "start": "earliest",
            }
        },
    }


def story() -> None:
    """Measure each number of tables on new servers, and print a line of each."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    outcomes = []
    for tables in _counts():
        folder = FOLDER / str(tables)
        folder.mkdir(parents=True)
        with Stack(folder / "stack", ("mysql", "kafka"), lasting=True) as stack:
            outcomes.append(asyncio.run(measure(stack, tables, folder)))
        shutil.rmtree(folder)
    found = {
        str(one.tables): {name: getattr(one, name) for name in Outcome.__slots__}
        for one in outcomes
    }
    print(f"all figures: {report.keep(session.RESULTS, 'new_tables', found)}")


def _counts() -> tuple[int, ...]:
    text = os.environ.get("TABLES")
    if not text:
        return TABLES
    if not all(one.isdecimal() and int(one) for one in text.split(",")):
        raise BenchError(f"TABLES is {text!r}; give numbers such as 1,1000,3000")
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("usage: [TABLES=1,1000,3000] python -m bench.new_tables")
    sys.exit(session.run("bench-new-tables", story))
