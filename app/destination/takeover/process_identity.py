"""Which process this is, so that another can find out whether it still runs.

Invariant: an id is of one process only, for as long as its machine runs; whether one on another machine or in
another container lives is never guessed.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

_PROC = Path("/proc")


def _place() -> str:
    """This machine since it was started, and the namespace that gives the process ids."""
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]
    return f"{boot}-{(_PROC / 'self/ns/pid').stat().st_ino:x}"


def _started(pid: int) -> str:
    """When it was started, in the kernel's ticks; empty of one that has ended and waits for its parent."""
    state, *rest = (_PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]


def _this() -> str:
    try:
        return f"{_place()}-{os.getpid()}-{_started(os.getpid())}"
    except (OSError, IndexError):  # where there is no /proc
        return uuid.uuid4().hex


PROCESS = _this()
"""This process."""


def is_here(process: str) -> bool:
    """Whether it is, or was, one of this machine and this container."""
    return process.count("-") == PROCESS.count("-") and _split(process)[0] == _split(PROCESS)[0]


def _split(process: str) -> tuple[str, str, str]:
    rest, _, started = process.rpartition("-")
    place, _, pid = rest.rpartition("-")
    return place, pid, started


def is_gone(process: str) -> bool:
    """Whether it is sure to have ended."""
    if not is_here(process):
        return False
    _, pid, started = _split(process)
    try:
        return _started(int(pid)) != started
    except (FileNotFoundError, ProcessLookupError):
        return True
    except (OSError, ValueError, IndexError):
        return False
