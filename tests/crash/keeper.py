"""A supervised worker, started again whenever it ends, as by systemd or a container's restart policy.

Invariant: a fault planted in it lasts for one run, so that later failures are its own.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from app.failpoints import VARIABLE
from devstack.processes import Child, Children
from devstack.programs import WORKER

_PAUSE = 0.3


@dataclass(slots=True)
class Keeper:
    """One worker over all its runs; ``exits`` are their exit codes, below zero for signals."""

    name: str
    folder: Path
    settings: dict[str, Any]
    command: Sequence[str] = WORKER
    again: bool = True
    """Whether a worker that exits by itself is restarted."""
    faults: list[str] = field(default_factory=list)
    """The failpoints of the first run, the second, and so on."""
    exits: list[int] = field(default_factory=list)
    _children: Children = field(default_factory=Children)
    _child: Child | None = None
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """Of its HTTP server."""
        return int(self.settings["http"]["port"])

    @property
    def log(self) -> str:
        """The output of all its runs."""
        path = self.folder / f"{self.name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def pid(self) -> int:
        """Of its present run."""
        assert self._child is not None
        return self._child.identity.pid

    @property
    def alive(self) -> bool:
        """Whether one of its runs is still running."""
        return self._child is not None and self._child.alive()

    def start(self) -> None:
        """Start the first run, and keep it up from then on."""
        self._spawn()
        self._thread = threading.Thread(target=self._keep, name=self.name, daemon=True)
        self._thread.start()

    def signal(self, number: int) -> None:
        """Send a signal to the present run."""
        if self._child is not None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the present run as kill -9 does."""
        self.signal(signal.SIGKILL)

    def stop(self) -> None:
        """End it for good, with all that belongs to it."""
        self._ending.set()
        self._clean()
        self._children.close()
        if self._thread is not None:
            self._thread.join(timeout=10)
        self._clean()

    def _spawn(self) -> None:
        faults = self.faults.pop(0) if self.faults else ""
        config = self.folder / f"{self.name}.yaml"
        config.write_text(yaml.safe_dump(self.settings))
        own = {"AQUEDUCT_CONFIG": str(config)} | ({VARIABLE: faults} if faults else {})
        kept = {key: text for key, text in os.environ.items() if not key.startswith("AQUEDUCT_")}
        self._child = self._children.start(
            self.command,
            label=self.name,
            log=self.folder / f"{self.name}.log",
            env=kept | own,
        )

    def _keep(self) -> None:
        while self._child is not None:
            code = self._child.popen.wait()
            if self._ending.is_set():
                return
            self._clean()
            self.exits.append(code)
            if not self.again or self._ending.wait(_PAUSE):
                return
            with (self.folder / f"{self.name}.log").open("a") as log:
                log.write(f"--- {time.strftime('%H:%M:%S')} ended with {code}; started again\n")
            self._spawn()

    def _clean(self) -> None:
        """Kill the rest of a run: its decoders end by themselves, but in their own time."""
        if self._child is not None:
            try:
                os.killpg(self._child.identity.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
