"""Decoders are made by copying a process that is ready, from its parent's side.

The law: a copy takes milliseconds where a new Python takes most of a second, and shares its memory; so a worker
keeps one such process as long as it lives, and the next one is started where it is lost. What became of a copy
is told once, by the process that made it, and kept by who has it. Files that a copy may have are never given to
another one.
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
"""Settings, secrets among them: all that a decoder needs is in its spec."""
_START_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
"""For a copy to be made, which takes milliseconds: one that takes longer is frozen, and is replaced."""
_GLANCE_SECONDS = 0.002
_OURS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""The last asks the worker to read its settings again."""


class _ForkServerProcess:
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
            self.answer()
        except OSError:
            self.end()
            raise
        self._socket.settimeout(_ANSWER_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: str, files: tuple[int, ...] = ()) -> None:
        """Raises OSError where it is gone, and then it has not got the files either."""
        socket.send_fds(self._socket, [request.encode()], files)

    def answer(self) -> str:
        """To what it was asked last. Raises OSError where it is gone, or does not say."""
        answer = self._socket.recv(_LONGEST_ANSWER)
        if not answer:
            raise BrokenPipeError("the process that decoders are copies of has ended")
        return answer.decode()

    def kill(self) -> None:
        """From any thread; whoever waits for its answer goes on."""
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._socket.close()
        self._talk.join(1.0)


class ForkServer:
    """Makes decoders; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._one: _ForkServerProcess | None = None

    def ready(self) -> None:
        """Have it ready, so that the next decoder is there at once; raises OSError where that cannot be."""
        with self._lock:
            self._ready()

    def born(self, name: str, files: tuple[int, int]) -> Copy:
        """A new decoder; it has these two files, its socket and where it prints.

        Raises OSError where there is none, or nobody knows; then it ends with the other end of its socket.
        """
        with self._lock:
            maker = self._ready()
            try:
                maker.ask(f"copy {name}", files)
            except OSError:
                self._lose()
                maker = self._ready()
                maker.ask(f"copy {name}", files)
            word, _, told = self._answer(maker).partition(" ")
        if word != "pid":
            raise OSError(told)
        return Copy(self, maker, int(told))

    def told(self, maker: _ForkServerProcess, request: str, *, within: float) -> str:
        """What its maker says of a decoder: ``alive``, ``status`` and which, or ``gone``.

        ``alive``, too, where others keep it busy for all of that time.
        """
        if not self._lock.acquire(timeout=max(within, 0.0)):
            return "alive"
        try:
            if self._one is not maker:
                # To another one, that number may be of another decoder.
                return "gone"
            maker.ask(request)
            return self._answer(maker)
        except OSError:
            self._lose()
            return "gone"
        finally:
            self._lock.release()

    def close(self) -> None:
        """End it, and let the next decoder start another."""
        if (one := self._one) is not None:
            # Who asks it something holds the lock until it answers, which it may not.
            one.kill()
        with self._lock:
            if self._one is not None:
                self._one.end()
                self._one = None

    # --- under the lock ---------------------------------------------------------------------------

    def _ready(self) -> _ForkServerProcess:
        if self._one is None:
            self._one = _ForkServerProcess()
        return self._one

    def _answer(self, maker: _ForkServerProcess) -> str:
        try:
            return maker.answer()
        except OSError:
            self._lose()
            raise

    def _lose(self) -> None:
        if self._one is not None:
            log.warning(
                "the process that decoders are copies of is gone; the next decoder starts another"
            )
            self._one.end()
            self._one = None


class Copy:
    """A decoder's process, as who asked for it knows it; any thread may ask."""

    def __init__(self, nursery: ForkServer, maker: _ForkServerProcess, pid: int) -> None:
        self.pid = pid
        self._nursery, self._maker = nursery, maker
        self._lock = threading.Lock()
        self._is_over = False
        self._status: int | None = None
        self._handle = _Handle(pid)
        weakref.finalize(self, self._handle.close)

    def kill(self) -> None:
        """End it now, whatever state it and its maker are in; ``killed`` waits for that."""
        if not self._handle.kill():
            self._told("kill", within=0.0)

    def killed(self, *, within: float) -> None:
        """Until it has ended, or that time is over."""
        self._until("kill", within)

    def status(self, *, within: float) -> int | None:
        """With which status it has ended; None where it has not in that time, or nobody knows."""
        return self._until("status", within)

    def _until(self, word: str, within: float) -> int | None:
        deadline = time.monotonic() + within
        while not self._told(word, within=deadline - time.monotonic()):
            if time.monotonic() >= deadline:
                break
            time.sleep(_GLANCE_SECONDS)
        return self._status

    def _told(self, word: str, *, within: float) -> bool:
        """Whether it is over; its maker is not asked again then, to whom its number may be another's."""
        if not self._lock.acquire(timeout=max(within, 0.0)):
            return False
        try:
            if not self._is_over:
                answer = self._nursery.told(self._maker, f"{word} {self.pid}", within=within)
                kind, _, status = answer.partition(" ")
                self._is_over = kind != "alive"
                self._status = int(status) if status else None
            if self._is_over:
                self._handle.close()
            return self._is_over
        finally:
            self._lock.release()


class _Handle:
    """A process by a file descriptor, which no later process with its number has (pidfd_open(2))."""

    def __init__(self, pid: int) -> None:
        # Held for a moment only: a descriptor that is closed may be another's at once.
        self._lock = threading.Lock()
        try:
            self._descriptor: int | None = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self._descriptor = None

    def kill(self) -> bool:
        """Send SIGKILL; False where the system has no such descriptors, or the process is over."""
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


NURSERY = ForkServer()
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
            "app.pipeline.decoders.fork_server",
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
    does what a supervisor or a person sends to the whole group, but when to end is ours to say."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
