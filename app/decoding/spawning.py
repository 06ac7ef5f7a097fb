"""Decoders are made by copying a process that is ready, from its parent's side.

The law: a copy takes milliseconds where a new Python takes most of a second, and shares its memory; so a worker
keeps one such process as long as it lives, and the next one is started where it is lost. What became of a copy
is told once, and kept until who made it has asked.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

log = logging.getLogger(__name__)

_LONGEST_LINE = 4096
_LONGEST_ANSWER = 4096
_ROOM_FOR_NAMES = " " * 120
_NOT_FOR_CHILDREN = "AQUEDUCT_"
"""Settings, secrets among them: all that a decoder needs is in its spec."""
_START_SECONDS = 60.0
_GLANCE_SECONDS = 0.002


class _Nursery:
    """The process, once it is ready."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, _signals_left_to_us():
                self._process = _started(theirs.fileno())
        except OSError:
            ours.close()
            raise
        self._socket = ours
        self._socket.settimeout(_START_SECONDS)
        output: IO[bytes] = self._process.stdout  # type: ignore[assignment]
        self._talk = threading.Thread(
            target=heard, args=(output, "decoders"), name="decoders say", daemon=True
        )
        self._talk.start()
        try:
            self._answer()
        except OSError:
            self.end()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: str, files: tuple[int, ...] = ()) -> str:
        """Raises OSError where it is gone."""
        socket.send_fds(self._socket, [request.encode()], files)
        return self._answer()

    def _answer(self) -> str:
        answer = self._socket.recv(_LONGEST_ANSWER)
        if not answer:
            raise BrokenPipeError("the process that decoders are copies of has ended")
        return answer.decode()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._socket.close()
        self._talk.join(1.0)


class Nursery:
    """Makes decoders; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._one: _Nursery | None = None
        self._status: dict[int, int] = {}
        """Of children that have ended, until somebody asks."""

    def ready(self) -> None:
        """Have it ready, so that the next decoder is there at once; raises OSError where that cannot be."""
        with self._lock:
            self._ready()

    def born(self, name: str, files: tuple[int, int]) -> int:
        """A new decoder's process id; it has these two files, its socket and where it prints."""
        with self._lock:
            self._ready()
            try:
                answer = self._asked(f"copy {name}", files)
            except OSError:
                self._ready()
                answer = self._asked(f"copy {name}", files)
            word, _, told = answer.partition(" ")
            if word == "pid":
                # Of one that had the same number once.
                self._status.pop(int(told), None)
        if word != "pid":
            raise OSError(told)
        return int(told)

    def kill(self, pid: int) -> None:
        """End a decoder, if it is still there; one whose maker is gone ends by its socket."""
        self._status_of("kill", pid)

    def status(self, pid: int, *, within: float) -> int | None:
        """With which status a decoder has ended; None where it has not in that time, or nobody knows."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            word, _, status = self._status_of("status", pid).partition(" ")
            if word != "alive":
                return int(status) if status else None
            time.sleep(_GLANCE_SECONDS)
        return None

    def close(self) -> None:
        """End it, and let the next decoder start another."""
        with self._lock:
            if self._one is not None:
                self._one.end()
                self._one = None

    def _status_of(self, word: str, pid: int) -> str:
        with self._lock:
            if pid in self._status:
                return f"status {self._status[pid]}"
            try:
                answer = self._asked(f"{word} {pid}")
            except OSError:
                return "gone"
            kind, _, status = answer.partition(" ")
            if kind == "status":
                self._status[pid] = int(status)
            return answer

    def _ready(self) -> None:
        if self._one is None:
            self._one = _Nursery()

    def _asked(self, request: str, files: tuple[int, ...] = ()) -> str:
        if self._one is None:
            raise BrokenPipeError("there is no process that decoders are copies of")
        try:
            return self._one.ask(request, files)
        except OSError:
            log.warning("the process that decoders are copies of is gone; another is started")
            self._one.end()
            self._one = None
            raise


NURSERY = Nursery()
"""The one of this process."""
atexit.register(NURSERY.close)


def heard(output: IO[bytes], name: str) -> None:
    """What a child prints goes to our log: the interpreter's last words, or a warning of a library."""
    with output:
        while line := output.readline(_LONGEST_LINE):
            log.warning("%s: %s", name, line.decode(errors="replace").rstrip())


def _started(descriptor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own interpreter, our own module
        [
            sys.executable,
            "-P",
            "-X",
            "faulthandler",
            "-m",
            "app.decoding.nursery",
            str(descriptor),
            _ROOM_FOR_NAMES,
        ],
        pass_fds=(descriptor,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(),
    )


def _environment() -> dict[str, str]:
    """Ours without the settings; a child finds modules where we do."""
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(_NOT_FOR_CHILDREN)
    }
    return kept | {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}


@contextmanager
def _signals_left_to_us() -> Iterator[None]:
    """A child is born with these signals blocked, and keeps it so: Ctrl-C at a terminal reaches it too, and so
    does what a supervisor sends to the whole group, but when to end is ours to say."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
