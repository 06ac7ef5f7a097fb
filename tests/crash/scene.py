"""The environment of a scenario: a source under load, one worker or two, links, and the verdict.

Invariant: everything random comes from the scene's own seed, and every wait has a time limit with a message.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import random
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pymysql.connections import Connection

from app.settings.model import TopicSettings
from demo import truth
from demo.load import Server
from demo.truth import Truth
from devstack.mysql import Mysql
from devstack.ports import HOST, free_port
from devstack.programs import WORKER
from tables.rules.routes.routes import Routes
from tables.state.journal.state import partition_of
from tests.crash import load as loads
from tests.crash.counted import counted, is_at, position_of
from tests.crash.keeper import Keeper
from tests.crash.links import Wire
from tests.crash.load import Load
from tests.crash.segments import producers
from tests.crash.servers import Servers
from tests.crash.verdict import Findings, Source, Topics, compare, read_topics
from tests.harness.wait import until

DESTINATION = "shop"
JOURNAL_PARTITION = partition_of(DESTINATION, TopicSettings().journal_partitions)
"""The destination's journal partition, with the default number of partitions."""
TIMEOUT = 150.0
SESSION = 6.0
"""With ZooKeeper, in seconds."""


class Late(AssertionError):
    """An expected event did not occur in time."""


@dataclass(slots=True, kw_only=True)
class Scene:
    """One scenario's world."""

    name: str
    seed: int
    rng: random.Random
    folder: Path
    servers: Servers
    prefix: str
    load: Load
    command: Sequence[str] = WORKER
    decoders: int = 0
    tls: str = "preferred"
    workers: list[Keeper] = field(default_factory=list)
    earlier: Truth | None = None
    """The binlog before some of its files were removed."""
    is_another: bool = False
    """Whether the binlog now has another history, of which nothing may be published."""
    forged: bool = False
    """Whether the journal was written by hand, so that those records are not checked."""
    shared: bool = False
    """Whether the workers are coordinated by ZooKeeper, each over its own links."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Settings of the destination that the scenario wants otherwise."""
    not_sunk: str = ""
    """Topics that the sink excludes, as a regular expression."""
    primary: Mysql | None = None
    """The server that is written to, where it is not the first any more."""
    most_claims: int | None = None
    """The maximum number of claimed epochs, if the scenario knows it."""
    has_gtids: bool = True
    until_end: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Resources that are closed after the verdict."""

    @property
    def routes(self) -> Routes:
        """The published tables and the topics of their rows."""
        return Routes(prefix=self.prefix, include=rf"{DESTINATION}\..*", partitions=3)

    @property
    def mysql(self) -> Wire:
        """The worker's link to the source."""
        return self.servers.to_mysql

    @property
    def kafka(self) -> Wire:
        """The workers' link to the broker."""
        return self.servers.to_kafka

    @property
    def source_server(self) -> Mysql:
        """The server that has the true data."""
        return self.primary or self.servers.mysql

    @property
    def worker(self) -> Keeper:
        """The first worker."""
        return self.workers[0]

    def proceed(self, name: str) -> None:
        """Let another scenario act on the same topics: whole links, no worker, and a chance of its own."""
        if self.name != name:
            self.name, self.rng = name, random.Random(f"{name} {self.seed}")
            self.decoders, self.tls = self.rng.choice((0, 0, 2)), "preferred"
        while self.workers:
            self.workers.pop().stop()
        self.shared, self.extra = False, {}
        self.servers.restore()

    def start(self, *faults: str, **changes: Any) -> Keeper:
        """Start a worker, with these faults in its first runs."""
        number = len(self.workers) + 1
        settings = self._settings(number)
        own = changes.pop("destination", {})
        shop = settings["destinations"][DESTINATION] | self.extra | own
        settings["destinations"][DESTINATION] = {
            name: value for name, value in shop.items() if value is not None
        }
        worker = Keeper(
            f"worker-{number}", self.folder, settings | changes, self.command, faults=list(faults)
        )
        self.workers.append(worker)
        worker.start()
        return worker

    def begin(self, *faults: str, **changes: Any) -> Keeper:
        """Start the load and a worker, and wait until it publishes."""
        self.load.start()
        worker = self.start(*faults, **changes)
        self.wait_running(worker)
        self.wait(lambda: self.status(worker).get("rows", 0) > 50, "publishes nothing")
        return worker

    def status(self, worker: Keeper | None = None) -> dict[str, Any]:
        """A worker's status of the destination; empty while it does not answer."""
        if worker is None and self.shared:
            status_found = [self.status(one) for one in self.workers]
            return max(status_found, key=_leads, default={})
        found: dict[str, Any] = self.page(worker or self.worker).get("destinations", {})
        return found.get(DESTINATION) or {}

    def page(self, worker: Keeper) -> dict[str, Any]:
        """A worker's whole status; empty while it does not answer."""
        try:
            address = f"http://{HOST}:{worker.port}/status"
            with urllib.request.urlopen(address, timeout=3) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, http.client.HTTPException, ValueError):
            return {}

    def state(self, worker: Keeper | None = None) -> str:
        """The destination's state; empty while the worker does not answer."""
        return str(self.status(worker).get("state", ""))

    def cursor(self, worker: Keeper | None = None) -> dict[str, Any]:
        """The position in a worker's status."""
        return self.status(worker).get("cursor") or {"seq": 0, "gtid_set": "", "epoch": 0}

    def wait(self, reached: Callable[[], bool], late: str, *, seconds: float = TIMEOUT) -> None:
        """Wait for something; raise Late with the worker's last words."""
        until(
            reached,
            seconds=seconds,
            glance=0.15,
            hopeless=lambda: any(os.EX_CONFIG in worker.exits for worker in self.workers),
            late=lambda: f"{self.name} (seed {self.seed}) {late}: {self._last_words()}",
            error=Late,
        )

    def _last_words(self) -> str:
        status = [self.status(worker) for worker in self.workers]
        return "\n".join([str(status), *(worker.log[-400:] for worker in self.workers)])

    def wait_state(self, *states: str, worker: Keeper | None = None) -> str:
        """Wait until the destination is in one of these states; the error it shows then."""
        self.wait(lambda: self.state(worker) in states, f"is never {' or '.join(states)}")
        return str(self.status(worker).get("error") or "").partition(":")[0]

    def wait_running(self, worker: Keeper | None = None) -> None:
        """Wait until the destination is read and published."""
        self.wait_state("RUNNING", worker=worker)

    def wait_exit(self, code: int, *, runs: int = 1, worker: Keeper | None = None) -> None:
        """Wait until a worker has ended so many times, the last time so."""
        exits = (worker or self.worker).exits
        self.wait(lambda: len(exits) >= runs, "does not end")
        assert exits[runs - 1] == code, f"it ended with {exits[runs - 1]}, not {code}"

    def wait_recovered(self, worker: Keeper | None = None, *, seconds: float = TIMEOUT) -> float:
        """Wait until something newer than now is published; in how many seconds it was."""
        began = time.monotonic()
        mark = self.executed()
        self.wait(lambda: self._holds(mark, worker), "does not continue", seconds=seconds)
        return time.monotonic() - began

    def pause(self, least: float, most: float) -> None:
        """Let some time go by."""
        time.sleep(self.rng.uniform(least, most))

    def executed(self) -> str:
        """The source's transactions as a GTID set; without GTIDs, the end of its binlog."""
        if not self.has_gtids:
            return position_of(self.source_server)
        return str(self.servers.run("SELECT @@GLOBAL.gtid_executed", to=self.primary)[0][0])

    def _holds(self, gtids: str, worker: Keeper | None = None) -> bool:
        status = self.status(worker)
        held = (status.get("cursor") or {}).get("gtid_set") or ""
        if status.get("state") != "RUNNING":
            return False
        if not self.has_gtids:
            return is_at(status, gtids)
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT GTID_SUBSET(%s, %s)", (gtids, held))
            return bool(cursor.fetchone()[0])

    def settle(self, worker: Keeper | None = None) -> None:
        """End the load, and wait until all of it is published."""
        self.load.stop()
        self.wait_recovered(worker)

    def topics(self) -> Topics:
        """The records that a consumer reads now."""
        found = asyncio.run(read_topics(self.servers.kafka, self.routes, DESTINATION))
        found.producers = producers(
            self.servers.stack.run_dir
            / "kafka"
            / "data"
            / f"{self.prefix}.__journal-{JOURNAL_PARTITION}"
        )
        found.most_claims = self.most_claims
        return found

    def connect(self, database: str | None = None) -> Connection:
        """An administrator's connection to the server that is written to."""
        return self.servers.connect(database, to=self.primary)

    def binlog(self) -> Truth:
        """The source's binlog as it is now."""
        server = Server(host=self.source_server.host, port=self.source_server.port)
        return truth.read(server, DESTINATION)

    def source(self) -> Source:
        """The source's own facts."""
        if not self.has_gtids:
            return Source(Truth(), self._rows(), "", counted(self.source_server, DESTINATION))
        result = self.binlog()
        if self.earlier is not None and self.is_another:
            result = self.earlier
        elif self.earlier is not None:
            for table, ids in self.earlier.change_ids.items():
                result.change_ids.setdefault(table, set()).update(ids)
        return Source(result, self._rows(), self.executed())

    def examine(self) -> Findings:
        """Compare the source with the topics."""
        return compare(self.source(), self.topics())

    def _rows(self) -> dict[str, dict[int, dict[str, Any]]]:
        found: dict[str, dict[int, dict[str, Any]]] = {}
        with self.connect(DESTINATION) as connection, connection.cursor() as cursor:
            for table in loads.TABLES:
                cursor.execute(f"SELECT * FROM {table}")
                names = [column[0] for column in cursor.description]
                rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
                found[table] = {row["id"]: row for row in rows}
        return found

    def _settings(self, number: int) -> dict[str, Any]:
        ways = self.servers.ways[number - 1 if self.shared else 0]
        shared: dict[str, Any] = {}
        if self.shared and ways.zookeeper is not None:
            shared["zookeeper"] = {
                "hosts": f"{HOST}:{ways.zookeeper.port}",
                "root": f"/{self.prefix}",
                "session_timeout_seconds": SESSION,
                "balance_delay_seconds": 2.0,
            }
        return shared | {
            "prefix": self.prefix,
            "worker": {"id": f"worker-{number}"},
            "http": {"bind": HOST, "port": free_port()},
            "kafka": {"bootstrap_servers": f"{HOST}:{ways.kafka.port}"},
            "topics": {"partitions": self.routes.partitions, "replication_factor": 1},
            # Small parts, so that a large transaction is published in several.
            "publish": {"max_bytes": 64 * 1024, "interval_ms": 50},
            "provide_transaction_metadata": True,
            "data_dir": str(self.folder / f"data-{number}"),
            "destinations": {
                DESTINATION: {
                    "source": {
                        "host": HOST,
                        "port": ways.mysql.port,
                        "user": "aqueduct",
                        "password": "aqueduct",
                        "tls": self.tls,
                    },
                    "server_id": 6100,
                    "filter": {"include": self.routes.include},
                    "start": "earliest",
                    # Faults before this one may have purged files.
                    "accept": ["incomplete_start"],
                    "heartbeat_seconds": 1,
                    "decoders": self.decoders,
                }
            },
        }


def _leads(status: dict[str, Any]) -> tuple[bool, int]:
    """Greatest for the worker that leads."""
    return status.get("state") == "RUNNING", (status.get("cursor") or {}).get("epoch", 0)


@contextlib.contextmanager
def scene(
    servers: Servers, folder: Path, *, name: str, seed: int, command: Sequence[str] = WORKER
) -> Iterator[Scene]:
    """A fresh source and fresh topics; no worker yet, and a load that waits."""
    rng = random.Random(f"{name} {seed}")
    servers.start_again()
    servers.run(*loads.SCHEMA)
    folder.mkdir(parents=True, exist_ok=True)
    at = Scene(
        name=name,
        seed=seed,
        rng=rng,
        folder=folder,
        servers=servers,
        prefix=f"{name}-{rng.randrange(10**6)}".replace("_", "-"),
        load=Load(lambda: at.connect(), seed=rng.randrange(10**6)),
        command=command,
        decoders=rng.choice((0, 0, 2)),
    )
    try:
        yield at
    finally:
        servers.restore()
        for worker in at.workers:
            worker.stop()
        with contextlib.suppress(Exception):
            at.load.stop()
        at.until_end.close()
