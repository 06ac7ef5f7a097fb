"""One decoder process, from its parent's side: started, talked to, ended.

The law: a child has its own end of its own socket and no other of ours; it is ended by killing it, since it
holds nothing that must survive.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from typing import Any

from app.decoding.frames import Connection
from app.decoding.spawning import NURSERY, heard
from connectors.errors import DecoderLost

log = logging.getLogger(__name__)

_ENDING_SECONDS = 5.0
"""For a child that has closed its socket to be gone."""


class DecoderProcess:
    """A child and the connection to it. Raises DecoderLost if the system has no process to give."""

    def __init__(self, name: str) -> None:
        self.name = name
        ours, theirs = socket.socketpair()
        said, says = os.pipe()
        try:
            with theirs, os.fdopen(says, "wb"):
                self.pid = NURSERY.born(name, (theirs.fileno(), says))
        except OSError as error:
            ours.close()
            os.close(said)
            raise DecoderLost(f"no process could be started: {error}", decoder=name) from error
        self.connection = Connection(ours)
        self._talk = threading.Thread(
            target=heard, args=(os.fdopen(said, "rb"), name), name=f"{name} says", daemon=True
        )
        self._talk.start()

    def send(self, message: Any) -> None:
        """Send a message; whether the child is still there is seen by who listens."""
        try:
            self.connection.send(message)
        except OSError:
            log.debug("%s is gone", self.name)

    def lost(self) -> DecoderLost:
        """Why it ended, once it has closed its socket."""
        status = self._ended()
        if status is None:
            return DecoderLost("closed its socket", decoder=self.name, pid=self.pid)
        said = f"status {status}" if status >= 0 else _signal_name(-status)
        return DecoderLost(f"ended by {said}", decoder=self.name, pid=self.pid)

    def kill(self) -> None:
        """End it now, from any thread; whoever sends to it or listens goes on."""
        NURSERY.kill(self.pid)
        self.connection.shut()

    def wait(self) -> None:
        """After ``kill``: until nothing of it is left."""
        self._ended()
        self._talk.join(_ENDING_SECONDS)

    def _ended(self) -> int | None:
        """The status with which it has ended; None where it has not in time, or nobody knows."""
        return NURSERY.status(self.pid, within=_ENDING_SECONDS)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
