"""Programs that never outlive their owner, and are ended only by a pid known to be still theirs.

A process is identified by its pid and its start time: a pid alone may have been reused.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from devstack.errors import MissingSoftwareError, StoppedError, ToolError

_POLL_SECONDS = 0.05
_TAIL_LINES = 12
_LAUNCHER = Path(__file__).with_name("launch.py")

# The kernel's parent-death signal comes when the *thread* that started a child ends.
# This one thread lives as long as the interpreter, so callers may start servers from any.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="devstack-spawner")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A pid and the clock tick at which its process started."""

    pid: int
    started: int

    def alive(self) -> bool:
        """Return whether that very process still runs."""
        return start_tick(self.pid) == self.started

    def signal(self, number: int) -> None:
        """Send a signal to the process and its group, if it is still the same process."""
        if self.alive():
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return


def start_tick(pid: int) -> int | None:
    """Return when `pid` started, in clock ticks since boot; None without a live process."""
    try:
        state, started = parse_stat(Path(f"/proc/{pid}/stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else started


def parse_stat(stat: str) -> tuple[str, int]:
    """Read the state and the start time out of /proc/PID/stat (proc_pid_stat(5))."""
    # The name, in parentheses, may itself contain spaces and parentheses.
    state, *fields = stat.rpartition(")")[2].split()
    return state, int(fields[18])


def end(identity: ProcessIdentity, *, grace: float) -> None:
    """End a process: SIGTERM, and SIGKILL when it still runs `grace` seconds later."""
    identity.signal(signal.SIGTERM)
    if not _has_ended(identity, within=grace):
        identity.signal(signal.SIGKILL)
        _has_ended(identity, within=grace)


def _has_ended(identity: ProcessIdentity, *, within: float) -> bool:
    deadline = time.monotonic() + within
    while identity.alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def tail(log: Path, lines: int = _TAIL_LINES) -> str:
    """Return the last lines of a log, without Java's stacks, indented for an error message."""
    text = log.read_text(errors="replace") if log.exists() else ""
    shown = [line for line in text.splitlines() if not line.startswith(("\tat ", "\t... "))]
    return "\n".join(f"    {line}" for line in shown[-lines:])


@dataclass(frozen=True, slots=True)
class Child:
    """A program that this process has started."""

    identity: ProcessIdentity
    popen: subprocess.Popen[bytes]

    def alive(self) -> bool:
        """Return whether it still runs."""
        return self.popen.poll() is None

    def stop(self, *, grace: float = 20) -> None:
        """End it in order, by force after `grace` seconds, and collect its exit status."""
        end(self.identity, grace=grace)
        self.popen.wait()

    def kill(self) -> None:
        """End it as kill -9 does."""
        self.identity.signal(signal.SIGKILL)
        self.popen.wait()


class Children:
    """The programs of one owner; after `close()` none of them runs and none can be started.

    With a `record` servers outlive the owner, and are recorded in that file before they can do so.
    """

    def __init__(self, *, record: Path | None = None) -> None:
        self._record = record
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._living: list[Child] = []

    def start(
        self,
        command: Sequence[str],
        *,
        label: str,
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> Child:
        """Start a server, known as `label`, whose output goes to the end of `log`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return self._spawn(command, output=output, env=env, label=label)

    def run(
        self,
        command: Sequence[str],
        *,
        log: Path,
        name: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> str:
        """Run a tool to its end and return what it printed; errors call it by `name`.

        Raise ToolError with the tail of its output unless it succeeds.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            child = self._spawn(command, output=output, env=env, cwd=cwd)
        status = child.popen.wait()
        with self._lock:
            self._living.remove(child)
        self.check_open()
        if status:
            called = name or Path(command[0]).name
            raise ToolError(f"{called} failed with status {status}; from {log}:\n{tail(log)}")
        return log.read_text(errors="replace")

    def check_open(self) -> None:
        """Raise StoppedError when the owner has called off the start."""
        if self._closed.is_set():
            raise StoppedError

    def kill(self) -> None:
        """End every program as kill -9 does, and refuse new ones: for servers whose data nobody needs."""
        for child in self._end_of_all():
            child.kill()

    def close(self) -> None:
        """End every program, all at the same time, and refuse new ones."""
        living = self._end_of_all()
        threads = [threading.Thread(target=child.stop) for child in living]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _end_of_all(self) -> list[Child]:
        with self._lock:
            self._closed.set()
            return [child for child in self._living if child.alive()]

    def _spawn(
        self,
        command: Sequence[str],
        *,
        output: IO[bytes],
        env: Mapping[str, str] | None,
        cwd: Path | None = None,
        label: str | None = None,
    ) -> Child:
        program = shutil.which(command[0])
        if program is None:
            raise MissingSoftwareError(f"{command[0]} is not installed; install it and try again.")
        argv = [program, *command[1:]]
        record = self._record if label else None
        if record is None:
            argv = [sys.executable, "-IS", str(_LAUNCHER), str(os.getpid()), *argv]

        def spawn() -> Child:
            with self._lock:
                self.check_open()
                child = _popen(argv, output=output, env=env, cwd=cwd)
                self._living.append(child)
                if record:
                    with record.open("a") as file:
                        file.write(f"{child.identity.pid} {child.identity.started} {label}\n")
                return child

        return _SPAWNER.submit(spawn).result()


def _popen(
    argv: Sequence[str],
    *,
    output: IO[bytes],
    env: Mapping[str, str] | None,
    cwd: Path | None,
) -> Child:
    popen = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=env,
        cwd=cwd,
        start_new_session=True,  # Ctrl-C reaches us alone; we end them in order
    )
    # Not yet waited for, so the pid is still its own even if it has ended.
    stat = Path(f"/proc/{popen.pid}/stat").read_text()
    return Child(ProcessIdentity(popen.pid, parse_stat(stat)[1]), popen)
