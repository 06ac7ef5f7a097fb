"""One decoder process, from its parent's side: started, talked to, ended.

The law: a child has its own end of its own socket and no other of ours; it is ended by killing it, since it
holds nothing that must survive.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from app.decoding.frames import Connection
from connectors.errors import DecoderLost

log = logging.getLogger(__name__)

_ENDING_SECONDS = 5.0
"""For a child that has closed its socket to be gone."""
_LONGEST_LINE = 4096
_NOT_FOR_CHILDREN = "AQUEDUCT_"
"""Settings, secrets among them: all that a decoder needs is in its spec."""


class DecoderProcess:
    """A child and the connection to it. Raises DecoderLost if the system has no process to give."""

    def __init__(self, name: str) -> None:
        self.name = name
        ours, theirs = socket.socketpair()
        try:
            with theirs, _signals_left_to_us():
                self._process = _spawn(theirs, name)
        except OSError as error:
            ours.close()
            raise DecoderLost(f"no process could be started: {error}", decoder=name) from error
        self.connection = Connection(ours)
        self._talk = threading.Thread(target=self._tell, name=f"{name} says", daemon=True)
        self._talk.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def send(self, message: Any) -> None:
        """Send a message; whether the child is still there is seen by who listens."""
        try:
            self.connection.send(message)
        except OSError:
            log.debug("%s is gone", self.name)

    def lost(self) -> DecoderLost:
        """Why it ended, once it has closed its socket."""
        try:
            status = self._process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            return DecoderLost("closed its socket", decoder=self.name, pid=self.pid)
        said = f"status {status}" if status >= 0 else _signal_name(-status)
        return DecoderLost(f"ended by {said}", decoder=self.name, pid=self.pid)

    def kill(self) -> None:
        """End it now, from any thread; whoever sends to it or listens goes on."""
        self._process.kill()
        self.connection.shut()

    def wait(self) -> None:
        """After ``kill``: until nothing of it is left."""
        self._process.wait()
        self._talk.join(_ENDING_SECONDS)

    def _tell(self) -> None:
        """What a child prints goes to our log: the interpreter's last words, or a warning of a library."""
        output: IO[bytes] = self._process.stdout  # type: ignore[assignment]
        with output:
            while line := output.readline(_LONGEST_LINE):
                log.warning("%s: %s", self.name, line.decode(errors="replace").rstrip())


def _spawn(theirs: socket.socket, name: str) -> subprocess.Popen[bytes]:
    descriptor = theirs.fileno()
    return subprocess.Popen(  # noqa: S603 - our own interpreter, our own module
        [
            sys.executable,
            "-P",
            "-X",
            "faulthandler",
            "-m",
            "app.decoding.child",
            str(descriptor),
            name,
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


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
