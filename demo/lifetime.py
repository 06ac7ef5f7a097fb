"""The lifetime of a demo: until it finishes, Ctrl-C, or, if kept running, until it is stopped.

One demo runs at a time; a lock held by the kernel shows whether one does, and which.
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from demo.errors import DemoError, Interrupted
from devstack.processes import ProcessIdentity, start_tick

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SECONDS_TO_STOP = 60
_PR_SET_PDEATHSIG = 1


class AlreadyRunning(DemoError):
    """A demo is running already."""


@contextlib.contextmanager
def only_demo(lock: Path) -> Iterator[None]:
    """Hold the lock; raise AlreadyRunning when another demo does."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(
                f"a demo is running already, process {_owner(lock)}; `make demo-stop` ends it"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def stop(lock: Path) -> str:
    """End the running demo, if any; return a sentence that states what was done."""
    with contextlib.suppress(AlreadyRunning), only_demo(lock):
        return "no demo is running"
    pid = _owner(lock)
    identity = ProcessIdentity(pid, start_tick(pid) or 0)
    os.kill(pid, signal.SIGTERM)
    if not _ended(identity, within=_SECONDS_TO_STOP):
        os.kill(pid, signal.SIGKILL)  # the kernel then ends what it started
        _ended(identity, within=_SECONDS_TO_STOP)
    return f"the demo, process {pid}, has ended with all that it started"


class Signals:
    """Turns the first request to end into Interrupted, and ignores later ones."""

    def __init__(self) -> None:
        self._heeded = True

    def __enter__(self) -> "Signals":
        for number in _SIGNALS:
            signal.signal(number, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        self.ignore()

    def ignore(self) -> None:
        """Ignore all requests from now on: the parts are being ended."""
        self._heeded = False

    def _received(self, *_: object) -> None:
        if self._heeded:
            self.ignore()
            sys.stderr.write("demo: interrupted; ending all that it started\n")
            raise Interrupted


class Keeper:
    """Runs the demo in a process that can remain when the foreground has ended."""

    def __init__(self) -> None:
        self._verdict: int | None = None

    def split(self) -> int | None:
        """Fork; the foreground gets the demo's exit code, the remaining process gets None."""
        reading, writing = os.pipe()
        foreground = os.getpid()
        if pid := os.fork():
            os.close(writing)
            return _relay(pid, reading)
        os.close(reading)
        os.setsid()  # Ctrl-C reaches the foreground, which passes it on
        _end_with_parent(signal.SIGTERM)
        if os.getppid() != foreground:
            os._exit(1)
        self._verdict = writing
        return None

    def stay(self, code: int, log: Path) -> None:
        """Let the foreground end with this code, and wait until this process is stopped."""
        if self._verdict is None:
            return
        _end_with_parent(0)
        with log.open("ab") as output:  # readers of the foreground's output see its end
            for stream in (1, 2):
                os.dup2(output.fileno(), stream)
        os.write(self._verdict, bytes([code]))
        os.close(self._verdict)
        while True:
            signal.pause()


def _relay(pid: int, reading: int) -> int:
    """Wait for the verdict and pass on requests to end; return the exit code."""
    for number in _SIGNALS:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    if verdict := os.read(reading, 1):
        return verdict[0]
    _, status = os.waitpid(pid, 0)  # it ended before its verdict
    return abs(os.waitstatus_to_exitcode(status))


def _end_with_parent(number: int) -> None:
    """Have the kernel send this signal when the parent ends; 0: cancel that."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def _owner(lock: Path) -> int:
    return int(lock.read_text() or 0)


def _ended(identity: ProcessIdentity, *, within: float) -> bool:
    deadline = time.monotonic() + within
    while identity.alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
