"""The fork server of the tests: it forks workers and commands that have imported all modules already.

Importing Faust and the app takes a worker 1.7 seconds of a processor, and a command one; a copy of this process
has done it. ``tests.harness.forked`` starts it, once for each process of pytest.

Invariant: it has one thread, and reads no settings; each copy has the environment, folder and output that
its request names, and ends as an interpreter does.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

import faust.cli.faust
import faust.cli.worker

import app.worker.assembly  # noqa: F401
from app.__main__ import main as run_command
from app.operator.commands import GROUPS, UNGROUPED, command, ungrouped_command
from devstack.programs import ARGUMENTS, WORKER

LONGEST_REQUEST = 1 << 17


def main() -> None:
    """Serve the socket whose number is the first argument."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    _import_commands()
    gc.collect()
    gc.freeze()
    while True:
        request, files, *_ = socket.recv_fds(control, LONGEST_REQUEST, 2)
        if not request:
            return
        asked = json.loads(request)
        answer = _status_of(asked["pid"]) if "pid" in asked else _fork(asked, files, control)
        control.send(json.dumps(answer).encode())


def _import_commands() -> None:
    for name, group in GROUPS.items():
        for each in group.commands:
            command(name, each)
    for name in UNGROUPED:
        ungrouped_command(name)


def _status_of(pid: int) -> int | None:
    """The exit code of a copy, below zero for a signal; None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _fork(asked: dict[str, Any], files: Sequence[int], control: socket.socket) -> int:
    """The pid of a new copy."""
    pid = os.fork()
    if not pid:
        control.close()
        _become(asked, files)
        sys.exit(_run(asked["words"]))
    for each in files:
        os.close(each)
    return pid


def _become(asked: dict[str, Any], files: Sequence[int]) -> None:
    """Take the session, output, folder and environment of a new process."""
    os.setsid()
    for standard, file in zip((1, 2), files, strict=True):
        os.dup2(file, standard)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()


def _run(words: list[str] | None) -> int:
    """Run a command; without words, a worker."""
    if words is not None:
        sys.argv = ["app", *words]
        return run_command(words)
    sys.argv = list(WORKER)
    code = faust.cli.faust.cli(list(ARGUMENTS))
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
