"""Two workers coordinated by ZooKeeper, each over its own links, and access to ZooKeeper's nodes.

Invariant: both workers are asked who leads at each step; two leaders for longer than a stall can explain are a
fault, whatever the topics contain.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient

from tests.crash.keeper import Keeper
from tests.crash.scene import DESTINATION, SESSION, TIMEOUT, Scene
from tests.crash.servers import Ways

logging.getLogger("kazoo").setLevel(logging.CRITICAL)

PAST = SESSION + 3.0
"""Seconds by when the servers have ended a silent session."""
_TWICE = 5.0
_LOOK = 0.25


@dataclass(slots=True)
class Both:
    """Two workers, as they were when one of them began to lead."""

    at: Scene
    leader: Keeper
    standby: Keeper
    epoch: int

    @classmethod
    @contextlib.contextmanager
    def begun(cls, at: Scene, *faults: str, **other: Any) -> Iterator[Both]:
        """Both running under load, one leading, the other known as a standby; the leader has the faults.

        The second one's destination may have ``other`` settings. At the end no two must have led at once.
        """
        at.shared = True
        at.servers.with_zookeeper()
        at.load.start()
        first = at.start(*faults)
        at.wait_running(first)
        second = at.start(destination=other)
        with Watch(at):
            at.wait(lambda: _settled(at), "does not have a leader and a standby")
            leads = at.state(first) == "RUNNING"
            leader, standby = (first, second) if leads else (second, first)
            at.wait(lambda: at.status(leader).get("rows", 0) > 50, "publishes nothing")
            yield cls(at, leader, standby, at.cursor(leader)["epoch"])

    def ways(self, worker: Keeper) -> Ways:
        """A worker's own links."""
        return self.at.servers.ways[self.at.workers.index(worker)]

    def epoch_of(self, worker: Keeper) -> int:
        """The epoch that a worker leads in; 0 where it does not."""
        status = self.at.status(worker)
        leads = status.get("state") == "RUNNING"
        return int((status.get("cursor") or {}).get("epoch", 0)) if leads else 0

    def taken_over(self) -> float:
        """Wait until the other one leads in a later epoch, and publishes; in how many seconds."""
        began = time.monotonic()
        self.at.wait(lambda: self.epoch_of(self.standby) > self.epoch, "is not taken over")
        self.at.wait_recovered(self.standby)
        return time.monotonic() - began

    def somebody(self, *, later: bool = True) -> float:
        """Wait until one of them leads, in a later epoch, and publishes; in how many seconds."""
        began = time.monotonic()
        least = self.epoch + later
        self.at.wait(lambda: max(map(self.epoch_of, self.at.workers)) >= least, "is led by nobody")
        self.at.wait_recovered()
        return time.monotonic() - began

    def nobody(self, seconds: float = TIMEOUT) -> None:
        """Wait until neither leads."""
        self.at.wait(
            lambda: "RUNNING" not in {self.at.state(one) for one in self.at.workers},
            "is led all the same",
            seconds=seconds,
        )

    def at_rest(self) -> str:
        """Wait until one leads and the other is standby; return whether the first one leads."""
        self.at.wait(lambda: _settled(self.at), "does not have a leader and a standby in the end")
        same = self.epoch_of(self.leader) > 0
        again = "in the same epoch" if self.epoch_of(self.leader) == self.epoch else "again"
        return f"the first leads {again}" if same else "the other leads"

    @property
    def node(self) -> str:
        """The path of the node that names the leader."""
        return f"/{self.at.prefix}/destinations/{DESTINATION}/running"

    @property
    def root(self) -> str:
        """The installation's."""
        return f"/{self.at.prefix}"

    @contextlib.contextmanager
    def hand(self) -> Iterator[KazooClient]:
        """An operator's session with ZooKeeper, round the proxy."""
        client = KazooClient(self.at.servers.stack.zookeeper, timeout=SESSION)
        client.start(timeout=30)
        try:
            yield client
        finally:
            client.stop()
            client.close()


def _settled(at: Scene) -> bool:
    """Whether one leads, and the other is a known standby."""
    status_found = [at.status(one) for one in at.workers]
    if sorted(status.get("state", "") for status in status_found) != ["RUNNING", "STANDBY"]:
        return False
    return all(
        len(status["leader"].get("candidates", ())) == len(status_found) for status in status_found
    )


class Watch:
    """Polls both workers for leadership; two leaders for too long fail at the block's end."""

    def __init__(self, at: Scene) -> None:
        self._at = at
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._looked_to_the_end = False
        self.longest = 0.0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if kind is None:
            assert self._looked_to_the_end, "nobody looked whether two led at once"
            assert self.longest < _TWICE, f"two led at once for {self.longest:.1f} s"

    def _look(self) -> None:
        since: float | None = None
        while not self._over.wait(_LOOK):
            workers = list(self._at.workers)
            states = [self._at.state(one) for one in (*workers, *workers[:1])]
            now = time.monotonic()
            if len(workers) < 2 or set(states) != {"RUNNING"}:
                since = None
                continue
            since = since or now
            self.longest = max(self.longest, now - since)
        self._looked_to_the_end = True
