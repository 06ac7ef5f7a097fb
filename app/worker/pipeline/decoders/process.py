"""One decoder process, from its parent's side.

Invariant: a child has its own end of its own socket and no other of ours. It is ended by killing it, since it
holds nothing that must survive.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from typing import IO, Any

from app.worker.pipeline.decoders.fork_client import FORK_SERVER, Copy, log_output
from app.worker.pipeline.decoders.messages import Connection
from connectors.errors import DecoderLost

log = logging.getLogger(__name__)

_ENDING_SECONDS = 5.0
"""Timeout for a child to end after it has closed its socket."""


class DecoderProcess:
    """A child and the connection to it. Raises DecoderLost if no process can be started."""

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            own_end, output, self._copy = _fork(name)
        except OSError as error:
            raise DecoderLost(f"no process could be started: {error}", decoder=name) from error
        self.connection = Connection(own_end)
        self._talk = threading.Thread(
            target=log_output, args=(output, name), name=f"{name} says", daemon=True
        )
        self._talk.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._copy.pid

    def send(self, message: Any) -> None:
        """Send a message; the listening thread detects a lost child."""
        try:
            self.connection.send(message)
        except OSError:
            log.debug("%s is gone", self.name)

    def lost(self) -> DecoderLost:
        """Return why the child ended, once it has closed its socket."""
        status = self._copy.status(within=_ENDING_SECONDS)
        if status is None:
            return DecoderLost("closed its socket", decoder=self.name, pid=self.pid)
        ended = f"status {status}" if status >= 0 else _signal_name(-status)
        return DecoderLost(f"ended by {ended}", decoder=self.name, pid=self.pid)

    def kill(self) -> None:
        """Kill the child, from any thread; a blocked send or receive returns."""
        # Shutting the socket alone ends it, busy or not, if it cannot be killed at once.
        self.connection.shut()
        self._copy.kill()

    def wait(self) -> None:
        """Wait, after ``kill``, until the child has ended."""
        self._copy.killed(within=_ENDING_SECONDS)
        self._talk.join(_ENDING_SECONDS)


def _fork(name: str) -> tuple[socket.socket, IO[bytes], Copy]:
    """Return our end of its socket, its output and the process; raises OSError, with nothing left open."""
    with contextlib.ExitStack() as stack:
        own_end, child_end = socket.socketpair()
        stack.callback(own_end.close)
        with child_end:
            reading, writing = os.pipe()
            output = os.fdopen(reading, "rb")
            stack.callback(output.close)
            with os.fdopen(writing, "wb"):
                copy = FORK_SERVER.fork(name, (child_end.fileno(), writing))
        stack.pop_all()
    return own_end, output, copy


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
