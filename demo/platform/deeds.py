"""What is done under load: a mapping is pushed, shards are altered, a master stalls, and workers die."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.platform import shards
from demo.platform.parts import STALLED_SECONDS, Parts
from demo.platform.shards import ALTERATIONS, SHARDS
from demo.platform.workers import Workers
from demo.report import Console
from devstack.mysql import Mysql

_TIMEOUT = 180.0
_DIFFERS = 3
"""What `mapping try` exits with if records would differ."""
_MERGED = 50
"""Records of the other master that are merged while one is frozen."""


def store(parts: Parts, mapping: Path, why: str) -> None:
    """Store a version of the mapping by the operator's command."""
    parts.run("mapping", "set", str(mapping), "--why", why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deeds:
    """All that is done during the load."""

    workers: Workers
    parts: Parts
    mysql: Mapping[str, Mysql]
    console: Console

    def all(self) -> None:
        """Do one after the other, each for as long as it takes, and with a killed worker."""
        self._wait(4)
        self._push()
        self._wait(3)
        self._alter()
        self._wait(3)
        self._stall()
        self._wait(4)

    def until_published_by(self, version: int) -> None:
        """Wait until each master is published by a version of the mapping."""
        for name in SHARDS:
            self.workers.until(
                lambda: self._version(name) == version,  # noqa: B023 - called before the next turn
                f"{name} is not published by version {version}",
                _TIMEOUT,
            )

    def _version(self, name: str) -> int | None:
        found = self.workers.destination(name)
        return found["mapping"]["version"] if found else None

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self.workers.until(lambda: time.monotonic() > deadline, "", _TIMEOUT)

    def _push(self) -> None:
        file = str(self.parts.second_mapping)
        tried = self.parts.run("mapping", "try", file, "--destination", "north", exits=_DIFFERS)
        self._say(f"tried the second mapping on north's binlog; {tried.splitlines()[-1]}")
        store(self.parts, self.parts.second_mapping, "orders with a total only, items apart")
        killed = self.workers.kill_leader_of("destinations", "north")
        self._say(f"pushed the second mapping, and killed {killed}, which ran north")
        self.until_published_by(2)
        self._say("both masters are published by the second mapping")

    def _alter(self) -> None:
        half = len(ALTERATIONS) // 2
        for at, (shard, change) in enumerate(ALTERATIONS):
            name = next(one for one, numbers in SHARDS.items() if shard in numbers)
            server = self.parts.masters[name]
            shards.run(server, f"ALTER TABLE {shards.orders(shard)} {change}")
            if at == half:
                killed = self.workers.kill_leader_of("merges", shards.MERGE)
                self._say(f"killed {killed}, which merged, while shards are altered in any order")
                self._until_shards_are("converging")
            self._wait(0.3)
        self._until_shards_are("equal")
        self._say("all shards have both columns")

    def _until_shards_are(self, state: str) -> None:
        """Wait until `shards show` has the logical table of the orders in a state."""
        self.workers.until(
            lambda: self._shards_state() == state, f"the shards are not {state}", _TIMEOUT
        )

    def _shards_state(self) -> str:
        found = json.loads(self.parts.run("shards", "show", "trade.orders", "--json"))
        return str(found["state"])

    def _stall(self) -> None:
        """Freeze a master until the other one was seen to be merged without it."""
        self._until_stalled(wanted=False)
        child = self.mysql["south"].child
        assert child is not None
        os.kill(child.popen.pid, signal.SIGSTOP)
        try:
            self._say("the master south is frozen")
            self._until_stalled(wanted=True)
            killed = self.workers.kill_leader_of("destinations", "north")
            self._say(f"south is reported as stalled; killed {killed}, which ran north")
            self._until_stalled(wanted=True)
            before = self._merged("north")["records"]
            self.workers.until(
                lambda: self._merged("north").get("records", 0) > before + _MERGED,
                "north is not merged without south",
                _TIMEOUT,
            )
        finally:
            os.kill(child.popen.pid, signal.SIGCONT)
        self._say(f"north was merged without south, after {STALLED_SECONDS} s; south is back")
        self._until_stalled(wanted=False)

    def _until_stalled(self, *, wanted: bool) -> None:
        """Wait until the merge reports that south is stalled, or that it is not."""
        self.workers.until(
            lambda: self._merged("south").get("stalled") is wanted,
            "the merge does not report south as " + ("stalled" if wanted else "present"),
            _TIMEOUT,
        )

    def _merged(self, shard: str) -> dict[str, Any]:
        """What the merge reports of a shard; empty if no worker runs it."""
        found: dict[str, Any] = self.workers.merge().get("shards", {}).get(shard, {})
        return found

    def _say(self, text: str) -> None:
        self.console.print_line(text)
