"""A worker under a supervisor, a load on its own MySQL, and a checker that does not trust the worker.

The law: the truth is read from the server's own binlog by another library, and Kafka as a consumer reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import yaml

from demo import checks, observe, topics, truth
from demo.checks import Record
from demo.load import Load, Server, create_schema
from demo.supervise import Program, Restarting, Supervisor
from demo.topics import Contents, Layout
from demo.truth import Truth
from devstack import Stack
from devstack.ports import free_port

DATABASE = "shop"
TABLES = ["customers", "order_items", "orders"]
SCHEMA = Path(topics.__file__).with_name("schema.sql")
PATIENCE = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a crash test acts in."""

    server: Server
    kafka: str
    prefix: str
    http: int
    worker: Supervisor
    load: Load

    @property
    def layout(self) -> Layout:
        """The topics of the scene's destination."""
        return Layout(self.prefix, DATABASE)

    def state(self) -> str:
        """The destination's state; the empty text while the worker does not answer."""
        status = observe.worker_status(self.http, DATABASE)
        return "" if status is None else status.state

    def kill_worker(self) -> None:
        """End the worker as kill -9 does, and wait until the supervisor has started it again."""
        before = self.worker.restarts
        self.worker.kill()
        self._wait(lambda: self.worker.restarts > before, "was not started again")

    def wait_running(self) -> None:
        """Wait until the destination is read and published."""
        self._wait(lambda: self.state() == "RUNNING", "is not RUNNING")

    def wait_published(self) -> None:
        """Wait until the cursor holds all that the server has."""
        self._wait(self._holds_all, "has not published everything")

    def _holds_all(self) -> bool:
        status = observe.worker_status(self.http, DATABASE)
        if status is None:
            return False
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT GTID_SUBSET(@@GLOBAL.gtid_executed, %s)", (status.gtid_set,))
            return bool(cursor.fetchone()[0])

    def _wait(self, reached: Callable[[], bool], late: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not reached():
            self.worker.check()
            if time.monotonic() > deadline:
                raise self.worker.program.failed(late)
            time.sleep(0.1)


@contextlib.contextmanager
def scene(stack: Stack, folder: Path, *, prefix: str, rows: int, seconds: float) -> Iterator[Scene]:
    """A fresh MySQL with the shop's schema, a supervised worker, and a load that is not yet started."""
    mysql = stack.second_mysql(f"mysql-{prefix}", {"server_id": 7})
    mysql.start()
    try:
        server = Server(host=mysql.host, port=mysql.port)
        create_schema(server, [text for text in SCHEMA.read_text().split(";") if text.strip()])
        http = free_port()
        worker = Supervisor(
            _worker(folder, stack, server, prefix=prefix, http=http), Restarting(limit=99)
        )
        load = Load(server, rows=rows, seconds=seconds)
        worker.start()
        try:
            yield Scene(
                server=server, kafka=stack.kafka, prefix=prefix, http=http, worker=worker, load=load
            )
        finally:
            load.stop()
            worker.stop()
    finally:
        mysql.stop()


def _worker(folder: Path, stack: Stack, server: Server, *, prefix: str, http: int) -> Program:
    config = folder / "aqueduct.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "prefix": prefix,
                "worker": {"id": "worker-1"},
                "http": {"bind": "127.0.0.1", "port": http},
                "kafka": {"bootstrap_servers": stack.kafka},
                "topics": {"partitions": 4, "replication_factor": 1},
                # Small parts, so that a kill also falls between two parts of one transaction.
                "publish": {"max_bytes": 64 * 1024, "interval_ms": 50},
                "data_dir": str(folder / "worker"),
                "destinations": {
                    DATABASE: {
                        "source": {"host": server.host, "port": server.port, "user": "root"},
                        "server_id": 5701,
                        "filter": {"include": rf"{DATABASE}\..*"},
                        "start": "earliest",
                    }
                },
            }
        )
    )
    return Program(
        name="the worker",
        command=[str(Path(sys.executable).with_name("faust")), "-A", "app", "worker", "-l", "info"],
        log=folder / "worker.log",
        env={"AQUEDUCT_CONFIG": str(config), "PATH": "/usr/bin:/bin"},
        advice="read its log",
    )


@dataclass(frozen=True, slots=True)
class Proof:
    """What the checker found wrong, by kind; all empty is the proof."""

    lost: list[str]
    repeated: dict[str, int]
    invented: list[str]
    seq_faults: list[str]
    epochs_gone_back: list[str]
    disordered: list[str]
    changes: int

    def faults(self) -> dict[str, object]:
        """The kinds that are not empty."""
        found = {
            "lost": self.lost[:5],
            "repeated": dict(list(self.repeated.items())[:5]),
            "invented": self.invented[:5],
            "seq": self.seq_faults[:5],
            "epochs": self.epochs_gone_back[:5],
            "disordered": self.disordered[:5],
        }
        return {kind: what for kind, what in found.items() if what}


def examine(at: Scene) -> Proof:
    """Read the binlog and the topics and compare."""
    layout = at.layout
    row_topics = [layout.row_topic(table) for table in TABLES]
    told = truth.read(at.server, DATABASE)
    contents = asyncio.run(
        topics.read(at.kafka, [*row_topics, layout.ddl_topic], mark=b"\0never\0")
    )
    return prove(layout, told, contents)


def prove(layout: Layout, told: Truth, contents: Contents) -> Proof:
    """Compare what the binlog holds with what the topics hold."""
    lost: list[str] = []
    invented: list[str] = []
    repeated: dict[str, int] = {}
    for table in TABLES:
        records = contents.records[layout.row_topic(table)]
        expected = told.change_ids.get(table, set())
        lost += sorted(checks.lost(expected, records))
        invented += [str(record) for record in checks.invented(expected, records)]
        repeated |= checks.duplicated(records)
    everything = [record for held in contents.records.values() for record in held]
    return Proof(
        lost=lost,
        repeated=repeated,
        invented=invented,
        seq_faults=checks.seq_faults(everything),
        epochs_gone_back=checks.epochs_gone_back(everything),
        disordered=disordered(everything),
        changes=told.changes.total(),
    )


def disordered(records: list[Record]) -> list[str]:
    """Where a partition, and so a key, has a smaller seq behind a greater one."""
    partitions: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        partitions[record.topic, record.partition].append(record)
    return [
        f"{b} stands behind {a}"
        for held in partitions.values()
        for a, b in pairwise(sorted(held, key=lambda record: record.offset))
        if b.seq <= a.seq
    ]
