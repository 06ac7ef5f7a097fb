"""Supervisor of the demo's programs: it restarts one that dies, as systemd would.

No program outlives the demo: `devstack.processes` ties each to it. Remaining processes of a dead
program's group are killed before its successor starts.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from demo.errors import PartFailed
from devstack.errors import DevstackError
from devstack.processes import Child, Children


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command, and the advice for when it fails."""

    name: str
    command: Sequence[str]
    log: Path
    env: Mapping[str, str]
    advice: str

    def failed(self, how: str) -> PartFailed:
        """The error of its failure, with the end of the log."""
        return PartFailed(f"{self.name} {how}", log=self.log, advice=self.advice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarting:
    """A dead program is started again `limit` times at most, after a delay that doubles."""

    limit: int = 5
    first_delay: float = 0.3
    longest_delay: float = 5.0

    def delay(self, restarts: int) -> float:
        """Seconds to wait when there were so many restarts before."""
        return float(min(self.longest_delay, self.first_delay * 2**restarts))


NEVER = Restarting(limit=0)


class Supervisor:
    """Keeps one program running; `restarts` counts how often it was restarted."""

    def __init__(self, program: Program, restarting: Restarting) -> None:
        self.program = program
        self.restarts = 0
        self._restarting = restarting
        self._children = Children()
        self._child: Child | None = None
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=program.name, daemon=True)

    def start(self) -> None:
        """Start the program and watch it from now on."""
        self._start_once()
        self._thread.start()

    @property
    def down(self) -> bool:
        """Whether the program has ended and is not started again."""
        return self._failure is not None

    def check(self) -> None:
        """Raise PartFailed when the program is down for good."""
        if self._failure is not None:
            raise self.program.failed(self._failure)

    def kill(self) -> None:
        """Kill the program as `kill -9` does; it is started again."""
        if self._child is not None:
            self._child.popen.kill()

    def stop(self) -> None:
        """End the program at once, with all that belongs to it, and watch it no more.

        The programs run here must survive a kill at any moment, so none is ended in order.
        """
        self._stopping.set()
        self._kill_all()
        self._children.close()
        if self._thread.is_alive():
            self._thread.join()
        self._kill_all()

    def _start_once(self) -> None:
        program = self.program
        self._child = self._children.start(
            program.command, label=program.name, log=program.log, env=program.env
        )

    def _watch(self) -> None:
        while self._child is not None:
            ending = _ending(self._child.popen.wait())
            if self._stopping.is_set():
                return
            self._kill_all()
            if self.restarts >= self._restarting.limit:
                self._failure = f"{ending} and is not started again"
                return
            if self._stopping.wait(self._restarting.delay(self.restarts)):
                return
            self._start_again(ending)

    def _start_again(self, ending: str) -> None:
        self.restarts += 1
        note = f"--- {time.strftime('%H:%M:%S')} {self.program.name} {ending}; started again\n"
        with self.program.log.open("a", encoding="utf-8") as log:
            log.write(note)
        with contextlib.suppress(DevstackError):  # called off: the demo ends
            self._start_once()

    def _kill_all(self) -> None:
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.identity.pid, signal.SIGKILL)


def _ending(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with code {code}"
