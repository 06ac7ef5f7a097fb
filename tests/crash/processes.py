"""Descendants of our processes, found by their command lines.

Invariant: only children of a process that a test started are touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def children_of(pid: int, module: str) -> list[int]:
    """The children of a process, and theirs, that run a module."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                if module.encode() in command:
                    found.append(int(child))
                found += children_of(int(child), module)
    return sorted(found)


def kill_all(pids: list[int]) -> int:
    """Kill them; how many were there."""
    count = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            count += 1
    return count
