"""Report of the results: printed lines and tables, and the file of results.

Invariant: every printed number is in the file, with its runs.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.run import BROKER, MYSQLD, Result

_HEADINGS = (
    *(
        "peer",
        "workload",
        "partitions",
        "runs",
        "rows/s",
        "CPU s/Mrow, its own",
        "broker",
        "mysqld",
    ),
    *("peak MiB", "stored B/row"),
)
DISTURBED = 0.1
"""The share of the machine; a run is marked if other processes used more in its window."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The two consecutive runs of a ratio."""

    ours: Result
    theirs: Result

    @property
    def ratio(self) -> float:
        """Our rows per second divided by theirs."""
        return self.ours.rows_per_second / self.theirs.rows_per_second

    def to_text(self) -> str:
        """The pair in one line: throughput, CPU and memory, ours relative to theirs."""
        cpu = self.ours.own_per_million / self.theirs.own_per_million
        memory = self.ours.peak_mib / self.theirs.peak_mib
        return (
            f"{self.ours.workload}: {self.ratio:.2f} times the rows/s of {self.theirs.peer}, "
            f"{cpu:.2f} times its CPU for a row, {memory:.2f} times its memory"
        )


def ratio(pairs: Iterable[Pair], workload: str) -> float:
    """The median of a workload's pairs."""
    return median(pair.ratio for pair in pairs if pair.ours.workload == workload)


def line(result: Result) -> str:
    """One run in one line: throughput, memory, and each process's CPU seconds per million rows."""
    cpu = "  ".join(f"{name} {result.per_million(name):.1f}" for name in _cpu_names(result))
    partitions = f"p{result.partitions}" if result.partitions else "-"
    return (
        f"{result.peer:<14} {result.workload:<6} {partitions:<3} "
        f"{result.rows_per_second:>9,.0f} rows/s {result.seconds:>6.2f} s "
        f"{result.peak_mib:>6.0f} MiB  CPU s/Mrow: {cpu}{_marks(result)}"
    )


def _cpu_names(result: Result) -> Iterator[str]:
    """The processes that used measurable CPU time."""
    return (name for name, seconds in result.cpu.items() if seconds >= 0.01)


def _marks(result: Result) -> str:
    cores = os.cpu_count() or 1
    disturbed = result.others > DISTURBED * result.seconds * cores
    marks = [f"others used {result.others:.1f} s"] if disturbed else []
    marks += [] if result.quiet else ["the machine was not quiet before"]
    return f"  [{'; '.join(marks)}]" if marks else ""


def table(results: Sequence[Result]) -> Iterator[str]:
    """Medians of each peer on each workload, as Markdown."""
    yield f"| {' | '.join(_HEADINGS)} |"
    yield "|---" * len(_HEADINGS) + "|"
    for key in dict.fromkeys((each.peer, each.workload, each.partitions) for each in results):
        runs = [each for each in results if (each.peer, each.workload, each.partitions) == key]
        cells = [
            f"{median(run.rows_per_second for run in runs):,.0f}",
            f"{median(run.own_per_million for run in runs):.1f}",
            f"{median(run.per_million(BROKER) for run in runs):.1f}",
            f"{median(run.per_million(MYSQLD) for run in runs):.1f}",
            f"{max(run.peak_mib for run in runs):.0f}",
            f"{median(run.stored_per_row for run in runs):.0f}",
        ]
        yield f"| {key[0]} | {key[1]} | {key[2]} | {len(runs)} | {' | '.join(cells)} |"


def last_line(pairs: Sequence[Pair]) -> str:
    """The last line, for scripts."""
    w1, w2 = ratio(pairs, "W1"), ratio(pairs, "W2")
    rss = max(pair.ours.peak_mib for pair in pairs)
    return f"bench: ratio_w1={w1:.2f} ratio_w2={w2:.2f} rss_mib={rss:.0f}"


def keep(folder: Path, name: str, content: dict[str, Any]) -> Path:
    """Write a file of results, named by time."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps({"machine": machine(), **content}, indent=1))
    return path


def machine() -> dict[str, Any]:
    """The machine of the measurement."""
    cpus = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", cpus, re.MULTILINE)
    memory = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {
        "cpu": model[1] if model else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory[1]) / 2**20, 1) if memory else None,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
