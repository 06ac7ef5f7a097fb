"""The two workers: what they report, and the end of one that leads."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from demo.errors import DemoError
from demo.platform.shards import MERGE
from demo.supervise import Supervisor

T = TypeVar("T")
_PAUSE = 0.2


@dataclass(slots=True)
class Workers:
    """Both workers."""

    supervisors: Sequence[Supervisor]
    ports: Sequence[int]
    also: list[Callable[[], None]] = field(default_factory=list)
    """Checks of the other programs and the load, each of which raises."""
    kills: int = 0

    @property
    def restarts(self) -> int:
        """How often they were started again."""
        return sum(one.restarts for one in self.supervisors)

    def destination(self, name: str) -> dict[str, Any]:
        """The report of a destination by the worker that runs it; empty if there is none."""
        return self._running("destinations", name)[1]

    def merge(self) -> dict[str, Any]:
        """The report of the merge by the worker that runs it; empty if there is none."""
        return self._running("merges", MERGE)[1]

    def kill_leader_of(self, kind: str, name: str) -> str:
        """Kill the worker that runs a destination or the merge (``merges``); return its name."""
        number = self.until(lambda: self._running(kind, name)[0], f"no worker runs {name}", 60)
        self.supervisors[number].kill()
        self.kills += 1
        return self.supervisors[number].program.name

    def check(self) -> None:
        """Raise if a program is down for good, or the load failed."""
        for check in (*(one.check for one in self.supervisors), *self.also):
            check()

    def until(self, reached: Callable[[], T | None], late: str, seconds: float) -> T:
        """Return the first value that is neither None nor false; raise DemoError if there is none in time."""
        deadline = time.monotonic() + seconds
        while (found := reached()) is None or found is False:
            self.check()
            if time.monotonic() > deadline:
                shown = "\n  ".join(self._shown())
                raise DemoError(f"{late} after {seconds:.0f} s\n  {shown}")
            time.sleep(_PAUSE)
        return found

    def _running(self, kind: str, name: str) -> tuple[int | None, dict[str, Any]]:
        for number, port in enumerate(self.ports):
            found = _status(port).get(kind, {}).get(name, {})
            if found.get("state") == "RUNNING":
                return number, found
        return None, {}

    def _shown(self) -> list[str]:
        return [
            f"{supervisor.program.name}: {json.dumps(_status(port))}"
            for supervisor, port in zip(self.supervisors, self.ports, strict=True)
        ]


def _status(port: int) -> dict[str, Any]:
    """A worker's /status; empty while it does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3)
    try:
        connection.request("GET", "/status")
        found: dict[str, Any] = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    finally:
        connection.close()
    return found
