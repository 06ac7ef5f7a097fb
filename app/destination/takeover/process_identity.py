"""Identity of this process, by which another can determine whether it still runs.

Invariant: an id belongs to one process only while its machine runs; whether a process on another
machine or in another container is alive is never guessed.
"""

from __future__ import annotations

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


def _this() -> str:
    try:
        return f"{_machine()}-{os.getpid()}-{_started(os.getpid())}"
    except (OSError, IndexError):  # without /proc
        return uuid.uuid4().hex


PROCESS = _this()
"""The id of this process."""


def is_here(process: str) -> bool:
    """Whether it is or was a process of this machine and container."""
    return process.count("-") == PROCESS.count("-") and _split(process)[0] == _split(PROCESS)[0]


def _split(process: str) -> tuple[str, str, str]:
    rest, _, started = process.rpartition("-")
    machine, _, pid = rest.rpartition("-")
    return machine, pid, started


def is_gone(process: str) -> bool:
    """Whether it has certainly ended."""
    if not is_here(process):
        return False
    _, pid, started = _split(process)
    try:
        return _started(int(pid)) != started
    except (FileNotFoundError, ProcessLookupError):
        return True
    except (OSError, ValueError, IndexError):
        return False
