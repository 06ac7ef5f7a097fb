"""A worker in a separate process, as an operator runs it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.failpoints import VARIABLE
from devstack import Stack
from devstack.mysql import Mysql
from devstack.ports import free_port
from devstack.programs import WORKER
from tests.harness.forked import Forked
from tests.harness.wait import TIMEOUT, until

Process = subprocess.Popen[bytes] | Forked


@dataclass(slots=True)
class Worker:
    """One run of the worker; ``log`` is its output."""

    process: Process
    port: int
    log_file: Path

    @property
    def log(self) -> str:
        """Its output so far."""
        return self.log_file.read_text(errors="replace")

    def get(self, path: str) -> str:
        """The body of a page; empty while the worker does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=3) as answer:
                body: bytes = answer.read()
                return body.decode()
        except (OSError, urllib.error.URLError):
            return ""

    def destination(self) -> dict[str, Any]:
        """The /status of the destination ``shop``; empty while the worker does not answer."""
        body = self.get("/status")
        found: dict[str, Any] = json.loads(body)["destinations"]["shop"] if body else {}
        return found

    def wait(
        self, reached: Callable[[dict[str, Any]], bool], *, seconds: float = TIMEOUT
    ) -> dict[str, Any]:
        """Wait for a state of the destination; fail with the end of the log on timeout."""

        def look() -> dict[str, Any] | None:
            status = self.destination()
            return status if status and reached(status) else None

        return until(
            look, seconds=seconds, late=lambda: f"{self.destination()}\n{self.log[-2000:]}"
        )

    def stop(self) -> int:
        """Stop it, and wait; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT)


def settings(stack: Stack, mysql: Mysql, folder: Path, **more: Any) -> dict[str, Any]:
    """Settings for one destination, ``shop``."""
    destination = {
        "source": {
            "host": mysql.host,
            "port": mysql.port,
            "user": "aqueduct",
            "password": "aqueduct",
        },
        "server_id": 6101,
        "filter": {"include": r"shop\..*"},
        "start": "earliest",
        # Servers shared by tests have earlier binlogs.
        "accept": ["incomplete_start"],
        **more,
    }
    return {
        "prefix": folder.name.replace("_", "-"),
        "http": {"port": free_port()},
        "kafka": {"bootstrap_servers": stack.kafka},
        "topics": {"partitions": 2, "replication_factor": 1},
        "data_dir": str(folder / "data"),
        "destinations": {"shop": destination},
    }


@contextlib.contextmanager
def running(
    wanted: dict[str, Any], folder: Path, *, command: Sequence[str] | None = None
) -> Iterator[Worker]:
    """A worker with these settings; killed at the block's end if it still runs."""
    config, log_file = folder / "aqueduct.yaml", folder / "worker.log"
    config.write_text(yaml.safe_dump(wanted))
    process = started(log_file, command=command, AQUEDUCT_CONFIG=str(config))
    try:
        yield Worker(process, wanted.get("http", {}).get("port", 0), log_file)
    finally:
        process.kill()
        process.wait()


def started(
    log_file: Path,
    *,
    command: Sequence[str] | None = None,
    cwd: Path | None = None,
    **variables: str,
) -> Process:
    """A worker's process in its own session, with these variables; its output goes to the log.

    With a ``command``, such as an operator's own, it is a program; else it is forked, which is faster.
    """
    environment = {**os.environ, **variables}
    if command is None and VARIABLE in environment:
        command = WORKER  # failpoints are read when the app is imported
    with log_file.open("wb") as log:
        if command is None:
            return Forked(None, out=log, err=log, environment=environment, folder=cwd)
        return subprocess.Popen(
            command,
            cwd=cwd,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
