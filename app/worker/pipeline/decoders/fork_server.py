"""The fork server, which forks decoders; ``app.worker.pipeline.decoders.fork_client`` starts it.

Invariant: it has one thread, has imported all that a decoder needs, and only forks itself, kills copies and
reports exit statuses. It ends when the worker does; its copies then see the end of their own sockets.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import NoReturn

import app.worker.pipeline.stage  # noqa: F401 - so that no copy has to
from app.worker.pipeline.decoders import child

_LONGEST_REQUEST = 4096
_ARGUMENTS = slice(45, 47)
"""The start and end address of the arguments, among the fields of /proc/<pid>/stat after the name."""


def main() -> None:
    """Serve the socket whose number is the first argument."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    # Copies share this memory until it is written to; a garbage collection would write to it.
    gc.collect()
    gc.freeze()
    gc.disable()
    control.send(b"ready")
    while True:
        request, files, *_ = socket.recv_fds(control, _LONGEST_REQUEST, 2)
        if not request:
            return
        kind, _, rest = request.decode().partition(" ")
        control.send(_fork(rest, files, control) if kind == "copy" else _state_of(kind, int(rest)))


def _fork(name: str, files: list[int], control: socket.socket) -> bytes:
    try:
        pid = os.fork()
        if not pid:
            _live(name, files, control)
    except OSError as error:
        return f"failed {error}".encode()
    finally:
        for each in files:
            os.close(each)
    return f"pid {pid}".encode()


def _live(name: str, files: list[int], control: socket.socket) -> NoReturn:
    """Run a decoder, in the copy; never returns."""
    code = os.EX_SOFTWARE
    try:
        control.close()
        end, output = files
        for standard in (1, 2):
            os.dup2(output, standard)
        os.close(output)
        _title(name)
        gc.enable()
        child.serve(end)
        code = os.EX_OK
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else code
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _state_of(kind: str, pid: int) -> bytes:
    """Return a copy's state: ``alive``, ``status`` and its value, or ``gone``; ``kill`` kills it if alive."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return b"gone"
    if ended:
        return f"status {os.waitstatus_to_exitcode(status)}".encode()
    if kind == "kill":
        # It was not waited for, so its pid is not reused.
        os.kill(pid, signal.SIGKILL)
    return b"alive"


def _title(name: str) -> None:
    """Show a decoder's name in its command line, truncated to the room there."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = map(int, fields[_ARGUMENTS])
        shown = f"{sys.executable}\0-m\0app.worker.pipeline.decoders.child\0{name}".encode()
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(shown[: end - start - 1].ljust(end - start - 1) + b"\0")


if __name__ == "__main__":
    main()
