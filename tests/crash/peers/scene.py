"""A scene whose worker is Debezium: the same source, load, links and waits, and an operator.

Invariant: an operator's actions (start a failed task again, end a process that hangs) are performed here,
counted, and reported with their cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from demo.load import Server
from demo.truth import Truth
from devstack.ports import free_port
from tables.rules.routes.routes import Routes
from tests.crash import load as loads
from tests.crash.keeper import Keeper
from tests.crash.load import Load
from tests.crash.peers import adapter, debezium
from tests.crash.peers.debezium import Variant
from tests.crash.peers.tail import FIRST_MARK, Tail
from tests.crash.scene import DESTINATION, Late, Scene
from tests.crash.servers import Servers
from tests.crash.verdict import Topics, read_topics

_START = 180.0
_TIMEOUT = 150.0
"""The seconds that an operator lets it retry by itself while it reports no failure."""
_LOOKS = 1.0
_FAILED_FOR = 3.0


@dataclass(slots=True, kw_only=True)
class PeerScene(Scene):
    """One scenario's world, with Debezium in it."""

    variant: Variant
    tail: Tail
    places: adapter.Places = field(default_factory=adapter.Places)
    more: dict[str, str] = field(default_factory=dict)
    """Settings of the workers, where a scenario needs others."""
    helped: list[str] = field(default_factory=list)
    """The reason for each intervention of an operator."""
    went_on: float | None = None
    marks: int = 0
    stopped: str = ""
    """The error with which it stopped for good, where it is right to."""
    _failed_since: float | None = None
    _looked: float = 0.0

    def start(self, *faults: str, **_changes: Any) -> Keeper:
        """Start a worker of the group."""
        assert not faults, "its process has no points of ours"
        number, port = len(self.workers) + 1, free_port()
        settings = self.folder / f"worker-{number}.properties"
        own = debezium.worker(self.variant, self._links(), group=self._group, port=port)
        settings.write_text(debezium.properties(own | self.more))
        command = debezium.command(self.folder, settings)
        worker = Keeper(f"worker-{number}", self.folder, {"http": {"port": port}}, command)
        self.workers.append(worker)
        worker.start()
        return worker

    def begin(self, *faults: str, **changes: Any) -> Keeper:
        """Start a worker with the connector, then the load; wait until it publishes."""
        worker = self.start(*faults, **changes)
        own = debezium.connector(self.variant, self._links(), prefix=self.prefix)
        path = f"connectors/{self.prefix}/config"
        self.wait(
            lambda: debezium.ask(worker.port, path, method="PUT", body=own) is not None,
            "takes no connector",
            seconds=_START,
        )
        # Where it begins is fixed from here on, and the binlog holds no row yet.
        self.wait(lambda: "Snapshot ended" in worker.log, "does not begin", seconds=_START)
        self.servers.run(loads.SCHEMA[-1])
        self.tail.start()
        self.load.start()
        self.wait(lambda: self.tail.rows > 50, "publishes nothing", seconds=_START)
        return worker

    def status(self, worker: Keeper | None = None) -> dict[str, Any]:
        """Connect's status of the connector."""
        result = self._described(worker)
        return {
            "state": debezium.state(result),
            "error": debezium.trouble(result),
            "rows": self.tail.rows,
        }

    def wait(self, reached: Callable[[], bool], late: str, *, seconds: float = _START) -> None:
        """Wait for something, and look after the connector meanwhile."""
        deadline = time.monotonic() + seconds
        while not reached():
            if time.monotonic() > deadline:
                ends = "\n".join(worker.log[-600:] for worker in self.workers)
                raise Late(f"{self.name} (seed {self.seed}) {late}: {self.status()}\n{ends}")
            self._look_after()
            time.sleep(0.15)

    def wait_recovered(self, _worker: Keeper | None = None, *, seconds: float = _TIMEOUT) -> float:
        """Write a row and wait until it is published, by force where nothing else helps."""
        began, mark = time.monotonic(), self._mark()
        for force in (self._restart_task, self._kill_workers, None):
            try:
                self.wait(lambda: mark in self.tail.marks, "does not continue", seconds=seconds)
                break
            except Late:
                if force is None:
                    raise
                force()
        took = time.monotonic() - began
        self.went_on = took if self.went_on is None else self.went_on
        return took

    def topics(self) -> Topics:
        """The records that a consumer reads now."""
        take = partial(_take, self.places)
        return asyncio.run(
            read_topics(self.servers.kafka, Routes(prefix=self.prefix), DESTINATION, take=take)
        )

    def binlog(self) -> Truth:
        """The source's binlog as it is now."""
        server = Server(host=self.servers.mysql.host, port=self.servers.mysql.port)
        return adapter.read_binlog(server, DESTINATION, self.places)

    @property
    def _group(self) -> str:
        return f"{self.prefix}-connect"

    @property
    def transactional_id(self) -> str:
        """The transactional id of the connector's only task."""
        return f"{self._group}-{self.prefix}-0"

    def _links(self) -> debezium.Links:
        return debezium.Links(mysql=self.mysql.port, kafka=self.kafka.port, tls=self.tls)

    def _described(self, worker: Keeper | None = None) -> dict[str, Any] | None:
        for one in [worker] if worker else self.workers[::-1]:
            status_found = debezium.ask(one.port, f"connectors/{self.prefix}/status")
            if status_found is not None:
                return dict(status_found)
        return None

    def _mark(self) -> int:
        self.marks += 1
        key = FIRST_MARK + self.marks
        self.servers.run(f"INSERT INTO shop.moves (id, n, v) VALUES ({key}, 0, 'mark')")
        return key

    def _look_after(self) -> None:
        """Start a task again that has failed and stays so."""
        now = time.monotonic()
        if self.stopped or not self.workers or now - self._looked < _LOOKS:
            return
        self._looked = now
        result = self._described()
        if debezium.state(result) != "FAILED":
            self._failed_since = None
        elif self._failed_since is None:
            self._failed_since = now
        elif now - self._failed_since >= _FAILED_FOR:
            self.helped.append(debezium.trouble(result))
            self._failed_since = None
            self._restart(only_failed=True)

    def _restart(self, *, only_failed: bool) -> None:
        path = f"connectors/{self.prefix}/restart?includeTasks=true"
        path += f"&onlyFailed={str(only_failed).lower()}"
        for one in self.workers[::-1]:
            if debezium.ask(one.port, path, method="POST") is not None:
                return

    def _restart_task(self) -> None:
        self.helped.append(f"{self._state_word()} for {_TIMEOUT:.0f} s, nothing published")
        self._restart(only_failed=False)

    def _kill_workers(self) -> None:
        self.helped.append(f"{self._state_word()} after a restart of the task too")
        for worker in self.workers:
            worker.kill()

    def _state_word(self) -> str:
        return str(self.status()["state"]) or "no answer"


def _take(places: adapter.Places, found: Topics, message: Any, routes: Routes, _: str) -> None:
    if message.topic.startswith(f"{routes.prefix}.{DESTINATION}."):
        adapter.take(found, message, places)


@contextlib.contextmanager
def peer_scene(
    servers: Servers, folder: Path, *, name: str, seed: int, variant: Variant
) -> Iterator[PeerScene]:
    """A fresh source without a row, and fresh topics; no worker yet, and a load that waits."""
    rng = random.Random(f"{name} {seed}")
    servers.start_again()
    servers.run(*loads.SCHEMA[:-1])
    folder.mkdir(parents=True, exist_ok=True)
    prefix = f"dbz-{name}-{rng.randrange(10**6)}".replace("_", "-")
    at = PeerScene(
        name=name,
        seed=seed,
        rng=rng,
        folder=folder,
        servers=servers,
        prefix=prefix,
        load=Load(servers.connect, seed=rng.randrange(10**6)),
        variant=variant,
        tail=Tail(servers.kafka, prefix),
    )
    try:
        yield at
    finally:
        with contextlib.suppress(Exception):
            at.load.stop()
        at.tail.stop()
        for worker in at.workers:
            worker.stop()
