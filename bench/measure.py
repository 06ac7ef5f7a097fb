"""CPU seconds and memory of process trees, from /proc (proc_pid_stat(5)).

Invariant: the CPU time of a process that has ended still counts, as of the last sample.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)

QUIET_CORES = 0.25
"""The maximum number of cores in use before a run begins."""


def cpu_seconds(pid: int) -> float | None:
    """User and system time of a process with all its threads; None once it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may contain spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def pss_mib(pid: int) -> float:
    """The proportional set size: private memory, and a share of shared memory."""
    try:
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def family(pid: int) -> Iterator[int]:
    """A process and all its running descendants."""
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return
    for task in tasks:
        try:
            children = (task / "children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            yield from family(int(child))


@dataclass(slots=True)
class _Seen:
    label: str
    seconds: float


class Watch:
    """Samples process trees by label; children have their own labels."""

    def __init__(self, roots: Mapping[str, int], *, child: str) -> None:
        self._roots = roots
        self._child_label = child
        self._seen: dict[int, _Seen] = {}
        self._children = 0
        self.peak_mib = self.largest_mib = 0.0
        self.discover()

    def discover(self) -> None:
        """Find new children; costs more than a sample of the known ones."""
        for label, root in self._roots.items():
            for pid in family(root):
                if pid not in self._seen:
                    name = label if pid == root else self._child(pid)
                    self._seen[pid] = _Seen(name, 0.0)

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far, by label."""
        used: dict[str, float] = {}
        for pid, seen in self._seen.items():
            seconds = cpu_seconds(pid)
            if seconds is not None:
                seen.seconds = seconds
            used[seen.label] = used.get(seen.label, 0.0) + seen.seconds
        return used

    def sample_memory(self, label: str) -> None:
        """Sample the memory of one tree; ``peak_mib`` keeps its maximum, ``largest_mib`` that of a process."""
        each = [pss_mib(pid) for pid in family(self._roots[label])]
        self.peak_mib = max(self.peak_mib, sum(each))
        self.largest_mib = max(self.largest_mib, *each)

    def _child(self, pid: int) -> str:
        """`decoder 1`, `decoder 2`; Python's own helper process by its own name."""
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            command = b""
        if b"resource_tracker" in command:
            return "resource tracker"
        self._children += 1
        return f"{self._child_label} {self._children}"


def busy_seconds() -> float:
    """Core-seconds since boot in which the machine was not idle."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    times = [int(field) for field in fields[:8]]  # guests are counted in user time already
    return (sum(times) - times[3] - times[4]) / _TICKS


def wait_until_quiet(timeout: float = 60.0, look: float = 3.0) -> bool:
    """Wait until the machine is idle; False on timeout."""
    deadline = time.monotonic() + timeout
    while True:
        before, began = busy_seconds(), time.monotonic()
        time.sleep(look)
        cores = (busy_seconds() - before) / (time.monotonic() - began)
        if cores < QUIET_CORES:
            return True
        if time.monotonic() > deadline:
            return False
