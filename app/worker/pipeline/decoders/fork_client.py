"""The client of the fork server, which makes decoders by forking.

A fork takes milliseconds and shares memory, while a new Python process takes most of a second. So a worker
keeps one fork server as long as it lives, and starts another if that is lost.

Invariant: the exit status of a copy is reported once, by the fork server that made it, and stored by its owner.
Files that a copy may have received are never given to another copy.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

log = logging.getLogger(__name__)

_LONGEST_LINE = 4096
_LONGEST_ANSWER = 4096
_ROOM_FOR_NAMES = " " * 120
_NOT_FOR_CHILDREN = "AQUEDUCT_"
"""The prefix of settings, secrets among them; a decoder needs only its spec."""
_START_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
"""Timeout of a fork, which takes milliseconds; a fork server that takes longer is frozen, and replaced."""
_GLANCE_SECONDS = 0.002
_WORKER_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""SIGHUP makes the worker reload its settings."""


class _ForkServerProcess:
    """A fork server process that is ready."""

    def __init__(self) -> None:
        own_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with child_end, _worker_signals_blocked():
                self._process = _started(child_end.fileno())
        except OSError:
            own_end.close()
            raise
        self._socket = own_end
        self._socket.settimeout(_START_SECONDS)
        output: IO[bytes] = self._process.stdout  # type: ignore[assignment]
        self._talk = threading.Thread(
            target=log_output, args=(output, "decoders"), name="decoders say", daemon=True
        )
        self._talk.start()
        try:
            self.answer()
        except OSError:
            self.end()
            raise
        self._socket.settimeout(_ANSWER_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    def request(self, request: str, files: tuple[int, ...] = ()) -> None:
        """Send a request. Raise OSError if the process is gone; then it has not received the files either."""
        socket.send_fds(self._socket, [request.encode()], files)

    def answer(self) -> str:
        """Return the answer to the last request. Raise OSError if the process is gone or does not answer."""
        answer = self._socket.recv(_LONGEST_ANSWER)
        if not answer:
            raise BrokenPipeError("the process that decoders are copies of has ended")
        return answer.decode()

    def kill(self) -> None:
        """Kill the process, from any thread; a thread that waits for its answer continues."""
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._socket.close()
        self._talk.join(1.0)


class ForkServer:
    """Makes decoders; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: _ForkServerProcess | None = None

    def ready(self) -> None:
        """Start the process if needed, so that the next decoder starts at once; raise OSError on failure."""
        with self._lock:
            self._ready()

    def fork(self, name: str, files: tuple[int, int]) -> Copy:
        """Fork a decoder with these two files: its socket and its output.

        Raise OSError on failure or if the outcome is unknown; a decoder that exists ends with its socket.
        """
        with self._lock:
            maker = self._ready()
            try:
                maker.request(f"copy {name}", files)
            except OSError:
                self._lose()
                maker = self._ready()
                maker.request(f"copy {name}", files)
            kind, _, details = self._answer(maker).partition(" ")
        if kind != "pid":
            raise OSError(details)
        return Copy(self, maker, int(details))

    def ask_state(self, maker: _ForkServerProcess, request: str, *, within: float) -> str:
        """Return the state of a decoder from its fork server: ``alive``, ``status`` and its value, or ``gone``.

        Also ``alive`` if other requests keep the fork server busy all that time.
        """
        if not self._lock.acquire(timeout=max(within, 0.0)):
            return "alive"
        try:
            if self._current is not maker:
                # In another fork server the pid may be of another decoder.
                return "gone"
            maker.request(request)
            return self._answer(maker)
        except OSError:
            self._lose()
            return "gone"
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the process; the next decoder starts another."""
        if (one := self._current) is not None:
            # A thread with a request holds the lock until the answer, which may never come.
            one.kill()
        with self._lock:
            if self._current is not None:
                self._current.end()
                self._current = None

    # --- under the lock ---------------------------------------------------------------------------

    def _ready(self) -> _ForkServerProcess:
        if self._current is None:
            self._current = _ForkServerProcess()
        return self._current

    def _answer(self, maker: _ForkServerProcess) -> str:
        try:
            return maker.answer()
        except OSError:
            self._lose()
            raise

    def _lose(self) -> None:
        if self._current is not None:
            log.warning(
                "the process that decoders are copies of is gone; the next decoder starts another"
            )
            self._current.end()
            self._current = None


class Copy:
    """The handle of a decoder process; thread-safe."""

    def __init__(self, server: ForkServer, maker: _ForkServerProcess, pid: int) -> None:
        self.pid = pid
        self._server, self._maker = server, maker
        self._lock = threading.Lock()
        self._is_over = False
        self._status: int | None = None
        self._handle = _Handle(pid)
        weakref.finalize(self, self._handle.close)

    def kill(self) -> None:
        """Kill the process, whatever its state and its fork server's; ``killed`` waits for its end."""
        if not self._handle.kill():
            self._is_ended("kill", within=0.0)

    def killed(self, *, within: float) -> None:
        """Wait until the process has ended, or until the timeout."""
        self._until("kill", within)

    def status(self, *, within: float) -> int | None:
        """Return the exit status; None if the process has not ended in that time, or the status is unknown."""
        return self._until("status", within)

    def _until(self, kind: str, within: float) -> int | None:
        deadline = time.monotonic() + within
        while not self._is_ended(kind, within=deadline - time.monotonic()):
            if time.monotonic() >= deadline:
                break
            time.sleep(_GLANCE_SECONDS)
        return self._status

    def _is_ended(self, kind: str, *, within: float) -> bool:
        """Whether the process has ended; then the fork server is not asked again, since a pid may be reused."""
        if not self._lock.acquire(timeout=max(within, 0.0)):
            return False
        try:
            if not self._is_over:
                answer = self._server.ask_state(self._maker, f"{kind} {self.pid}", within=within)
                kind, _, status = answer.partition(" ")
                self._is_over = kind != "alive"
                self._status = int(status) if status else None
            if self._is_over:
                self._handle.close()
            return self._is_over
        finally:
            self._lock.release()


class _Handle:
    """A process by file descriptor, which a later process with the same pid does not share (pidfd_open(2))."""

    def __init__(self, pid: int) -> None:
        # Held only briefly, so that no thread uses a closed descriptor, which may be reused at once.
        self._lock = threading.Lock()
        try:
            self._descriptor: int | None = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self._descriptor = None

    def kill(self) -> bool:
        """Send SIGKILL; False if the system has no such descriptors, or the process has ended."""
        with self._lock:
            if self._descriptor is None:
                return False
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
            return True

    def close(self) -> None:
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


FORK_SERVER = ForkServer()
"""The fork server of this process."""
atexit.register(FORK_SERVER.close)


def log_output(output: IO[bytes], name: str) -> None:
    """Log a child's output, such as a fatal interpreter error or a library's warning."""
    with output:
        while line := output.readline(_LONGEST_LINE):
            log.warning("%s: %s", name, line.decode(errors="replace").rstrip())


def _started(descriptor: int) -> subprocess.Popen[bytes]:
    # Our environment without the settings; a child uses the same module path.
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(_NOT_FOR_CHILDREN)
    }
    return subprocess.Popen(  # noqa: S603 - our own interpreter, our own module
        [
            sys.executable,
            "-P",
            "-X",
            "faulthandler",
            "-m",
            "app.worker.pipeline.decoders.fork_server",
            str(descriptor),
            _ROOM_FOR_NAMES,
        ],
        pass_fds=(descriptor,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=kept | {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)},
    )


@contextmanager
def _worker_signals_blocked() -> Iterator[None]:
    """Block these signals for good in children that are started meanwhile.

    Signals to the whole process group (Ctrl-C, a supervisor) reach children too, but the worker decides when
    they end.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WORKER_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
