"""Identity of this process, by which another process can determine whether it still runs.

Invariant: an id belongs to only one process while its machine runs. Whether a process on another
machine or in another container is alive is never guessed.
"""

from __future__ import annotations

import functools
import os
import uuid
from pathlib import Path

_PROC = Path("/proc")


def _machine() -> str:
    """The machine's boot id and the namespace of its process ids."""
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]
    return f"{boot}-{(_PROC / 'self/ns/pid').stat().st_ino:x}"


def _started(pid: int) -> str:
    """The start time of a process in the kernel's ticks; empty for a zombie."""
    state, *rest = (_PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]


def this_process() -> str:
    """The id of this process; a forked process has its own id."""
    return _id_of(os.getpid())


@functools.cache
def _id_of(pid: int) -> str:
    try:
        return f"{_machine()}-{pid}-{_started(pid)}"
    except (OSError, IndexError):  # without /proc
        return uuid.uuid4().hex


def is_here(process: str) -> bool:
    """Whether an id belongs to a process, running or ended, of this machine and container."""
    this = this_process()
    return process.count("-") == this.count("-") and _split(process)[0] == _split(this)[0]


def _split(process: str) -> tuple[str, str, str]:
    rest, _, started = process.rpartition("-")
    machine, _, pid = rest.rpartition("-")
    return machine, pid, started


def is_gone(process: str) -> bool:
    """Whether the process with an id has certainly ended."""
    if not is_here(process):
        return False
    _, pid, started = _split(process)
    try:
        return _started(int(pid)) != started
    except (FileNotFoundError, ProcessLookupError):
        return True
    except (OSError, ValueError, IndexError):
        return False
