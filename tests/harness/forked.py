"""Workers and commands as processes of their own, forked from one that has imported all modules.

They differ from ``faust -A app worker`` and ``python -m app`` in no more than the time of their imports.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from devstack.paths import PROJECT

_COMMAND_SECONDS = 120.0


class Forked:
    """One copy of the fork server, with the methods of ``subprocess.Popen`` that tests use."""

    def __init__(
        self,
        words: Sequence[str] | None,
        *,
        out: IO[bytes],
        err: IO[bytes],
        environment: dict[str, str],
        folder: Path | None = None,
    ) -> None:
        """Start a command, or a worker if ``words`` is None."""
        asked = {
            "words": words,
            "environment": environment,
            "folder": str(folder or Path.cwd()),
        }
        self.pid: int = _server().ask(asked, out.fileno(), err.fileno())
        self.returncode: int | None = None
        # Its pid is not reused before the server was asked for its exit code.
        self._end = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """The exit code, below zero for a signal; None while it runs."""
        if self.returncode is None:
            self.returncode = _server().ask({"pid": self.pid})
            if self.returncode is not None:
                os.close(self._end)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._end, select.POLLIN)
            ended.poll(None if timeout is None else timeout * 1000)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(f"forked process {self.pid}", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as kill -9 does."""
        self.send_signal(signal.SIGKILL)


def run_command(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``python -m app`` with these words and settings, run to its end."""
    environment = {**os.environ, "AQUEDUCT_CONFIG": str(config)}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = Forked(words, out=out, err=err, environment=environment).wait(_COMMAND_SECONDS)
        return subprocess.CompletedProcess(words, code, _text_of(out), _text_of(err))


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


class _Server:
    """The fork server's process and its socket."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        command = [sys.executable, "-m", "tests.harness.fork_server", str(other.fileno())]
        with other:
            self._process = subprocess.Popen(
                command,
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                start_new_session=True,
            )

    def ask(self, asked: dict[str, Any], *files: int) -> Any:
        """The server's answer to a request with these files."""
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(asked).encode()], files)
            answer = self._socket.recv(1024)
        assert answer, "the fork server has ended"
        return json.loads(answer)

    def close(self) -> None:
        """End it; what it has forked continues."""
        self._socket.close()
        self._process.wait()


@functools.cache
def _server() -> _Server:
    server = _Server()
    atexit.register(server.close)
    return server
