"""Two workers with the same settings, as on two machines."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from devstack import Stack
from devstack.mysql import Mysql
from devstack.ports import free_port
from tests.harness.wait import TIMEOUT, until
from tests.harness.worker import Worker, settings, started

SESSION = 6.0


def pair_settings(
    stack: Stack,
    mysql: Mysql,
    folder: Path,
    *,
    names: tuple[str, ...] = ("shop",),
    zookeeper: str | None = None,
    database: str = "shop",
    **more: Any,
) -> dict[str, Any]:
    """Settings with ZooKeeper for destinations of one server, each with a table of its name."""
    wanted = settings(stack, mysql, folder)
    shop = wanted["destinations"]["shop"] | {"decoders": 1}
    wanted["destinations"] = {
        name: shop | {"server_id": 7100 + number, "filter": {"include": rf"{database}\.{name}"}}
        for number, name in enumerate(names)
    }
    wanted["zookeeper"] = {
        "hosts": zookeeper or stack.zookeeper,
        "root": f"/{wanted['prefix']}",
        "session_timeout_seconds": SESSION,
        "balance_delay_seconds": 2.0,
        **more,
    }
    return wanted


class Pair:
    """Workers by name; all running ones are killed at the block's end."""

    def __init__(
        self, wanted: dict[str, Any], folder: Path, *, command: Sequence[str] | None = None
    ) -> None:
        self.wanted, self.folder = wanted, folder
        self._command = command
        self.workers: dict[str, Worker] = {}
        self._ports: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            with contextlib.suppress(ProcessLookupError):
                worker.process.send_signal(signal.SIGCONT)
            worker.process.kill()
            worker.process.wait()

    def config(self, name: str) -> Path:
        """The settings file of a worker."""
        return self.folder / f"{name}.yaml"

    def write(self, name: str) -> None:
        """Write a worker's present settings."""
        port = self._ports.setdefault(name, free_port())
        own = {
            "http": {"port": port},
            "worker": {"id": name, "advertised_address": f"127.0.0.1:{port}"},
            "data_dir": str(self.folder / f"data-{name}"),
        }
        self.config(name).write_text(yaml.safe_dump(self.wanted | own))

    def start(self, name: str) -> Worker:
        """Start a worker."""
        self.write(name)
        log_file = self.folder / f"{name}-{time.monotonic_ns()}.log"
        process = started(log_file, command=self._command, AQUEDUCT_CONFIG=str(self.config(name)))
        self.workers[name] = Worker(process, self._ports[name], log_file)
        return self.workers[name]

    def end(self, name: str, number: signal.Signals) -> None:
        """Send a worker a signal; wait for its end unless the signal is SIGKILL."""
        worker = self.workers[name]
        worker.process.send_signal(number)
        if number is signal.SIGKILL:
            worker.process.wait()
        else:
            worker.process.wait(TIMEOUT)

    def status(self, name: str) -> dict[str, Any]:
        """The /status of a worker; empty while it does not answer."""
        body = self.workers[name].get("/status")
        found: dict[str, Any] = json.loads(body) if body else {}
        return found

    def states(self, destination: str) -> dict[str, str]:
        """The state of a destination on each worker."""
        return {
            name: self.status(name).get("destinations", {}).get(destination, {}).get("state", "-")
            for name in self.workers
        }

    def leader(self, destination: str) -> str:
        """The worker that runs a destination, once exactly one does."""
        name: str = self.until(lambda: self._runs(destination))
        return name

    def _runs(self, destination: str) -> str | None:
        running = [name for name, state in self.states(destination).items() if state == "RUNNING"]
        return running[0] if len(running) == 1 else None

    def settled(self) -> None:
        """Wait until each worker sees all workers as candidates of each destination."""
        alive = sorted(
            name for name, worker in self.workers.items() if worker.process.poll() is None
        )

        def all_see() -> bool:
            for name in alive:
                found = self.status(name).get("destinations", {})
                if not found or any(
                    one["leader"].get("candidates") != alive for one in found.values()
                ):
                    return False
            return True

        self.until(all_see)

    def until(self, reached: Callable[[], Any], seconds: float = TIMEOUT) -> Any:
        """The first true value of ``reached``; fail with the ends of the logs on timeout.

        A member that a status lacks may come: a busy worker may not answer for a moment,
        and one that takes over has only some of the members.
        """
        lacking: list[KeyError] = []

        def reached_by_now() -> Any:
            lacking.clear()
            try:
                return reached()
            except KeyError as e:
                lacking.append(e)
                return None

        def late() -> str:
            return "\n".join([*(f"no member {one}" for one in lacking), self._ends()])

        return until(reached_by_now, seconds=seconds, late=late)

    def _ends(self) -> str:
        return "\n".join(
            f"{name}: {self.status(name)}\n{one.log[-1500:]}" for name, one in self.workers.items()
        )
