"""``python -m bench.sink``: a backlog brought into the warehouse, beside a simple job.

Both read the same topics, which the worker has written of the workloads' binlogs, on `local[2]` with 4 GiB.
The clock is each one's own: from the start of its query to its end. The rows of both are compared.

Invariant: ratios are of pairs of consecutive runs, in alternating order; the simple job runs with the best of
three numbers of shuffle partitions.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Final

from bench import report, servers, session
from bench.errors import BenchError, RunFailed
from bench.peers.aqueduct import Aqueduct
from bench.peers.peer import FIRST_SERVER_ID, Task
from bench.run import published
from bench.servers import Servers
from bench.workloads import DATABASE, W1, W2, Recipe
from devstack.processes import tail
from devstack.programs import environment

FOLDER: Final = session.FOLDER / "sink"
PAIRS: Final = 3
PARTITIONS: Final = 4
SHUFFLE: Final = ("2", "8", "200")
"""The numbers of shuffle partitions of which the simple job's best is taken."""
_LONGEST: Final = 1800.0
_RESULT: Final = re.compile(r"RESULT (?:seconds=(\S+) )?rows=(\d+) ids=(\d+)")
_TIME: Final = "%Y-%m-%d %H:%M:%S,%f"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """One run."""

    seconds: float
    rows: int
    ids: int
    """The sum of the rows' ids."""


class Bench:
    """The runs of one workload."""

    def __init__(self, at: Servers, recipe: Recipe, topic: str, prefix: str) -> None:
        self._at, self._recipe, self._topic, self._prefix = at, recipe, topic, prefix
        self._shuffle = SHUFFLE[0]

    def choose(self) -> None:
        """Find the simple job's best number of shuffle partitions; this warms up the broker too."""
        found = {}
        for one in SHUFFLE:
            self._shuffle = one
            found[one] = self._simple().seconds
            self._print("simple job", found[one], f", {one} shuffle partitions")
        self._shuffle = min(found, key=lambda one: found[one])

    def pair(self, *, ours_first: bool) -> float:
        """Run both; return how many times the simple job's rows per second are ours."""
        order = (self._ours, self._simple) if ours_first else (self._simple, self._ours)
        done = {one.__name__: one() for one in order}
        ours, simple = done["_ours"], done["_simple"]
        if (ours.rows, ours.ids) != (simple.rows, simple.ids):
            raise RunFailed(f"{self._recipe.name}: the sink has {ours}, the simple job {simple}")
        ratio = simple.seconds / ours.seconds
        self._print("sink", ours.seconds, f", {ratio:.2f} times the simple job's rows/s")
        self._print("simple job", simple.seconds)
        return ratio

    def _print(self, name: str, seconds: float, more: str = "") -> None:
        rows = self._recipe.rows / seconds
        print(
            f"{name:<11} {self._recipe.name} {rows:>8,.0f} rows/s {seconds:>7.1f} s{more}",
            flush=True,
        )

    def _simple(self) -> Applied:
        with _folder("simple") as folder:
            of = (self._recipe.name, self._topic, self._at.kafka, str(folder), self._shuffle)
            seconds, rows, ids = _result(
                self._python("bench.peers.simple_sink", *of, folder=folder)
            )
            return Applied(seconds=seconds, rows=rows, ids=ids)

    def _ours(self) -> Applied:
        with _folder("ours") as folder:
            config = folder / "sink.yaml"
            settings = {
                "prefix": self._prefix,
                "bootstrap_servers": self._at.kafka,
                "warehouse": str(folder / "warehouse"),
                "mode": "available-now",
                "driver_memory": "4g",
                "metrics": {"port": 0},
                **json.loads(os.environ.get("SINK") or "{}"),
            }
            config.write_text(json.dumps(settings))
            text = self._python("spark_sink", "--config", str(config), folder=folder)
            table = folder / "warehouse" / DATABASE / self._recipe.tables[0]
            counted = self._python("bench.peers.simple_sink", "count", str(table), folder=folder)
            _, rows, ids = _result(counted)
            return Applied(seconds=_seconds(text), rows=rows, ids=ids)

    def _python(self, module: str, *arguments: str, folder: Path) -> str:
        """Run a module to its end; returns what it printed."""
        log = folder / f"{module}.log"
        command = [sys.executable, "-m", module, *arguments]
        child = self._at.children.start(command, label=module, log=log, env=environment())
        try:
            status = child.popen.wait(_LONGEST)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{module} has not ended in {_LONGEST:.0f} s; see {log}") from None
        finally:
            child.kill()
        if status:
            raise RunFailed(f"{module} ended with status {status}; from {log}:\n{tail(log)}")
        return log.read_text()


def _seconds(log: str) -> float:
    """From the start of the sink's query to the end of its last batch, by its log."""
    lines = [one for one in log.splitlines() if "sink started" in one or "batch applied" in one]
    if len(lines) < 2:
        raise RunFailed(f"the sink applied no batch; its log: {log[-1000:]}")
    first, last = (datetime.strptime(one[:23], _TIME) for one in (lines[0], lines[-1]))  # noqa: DTZ007
    return (last - first).total_seconds()


def _result(text: str) -> tuple[float, int, int]:
    found = _RESULT.search(text)
    if found is None:
        raise RunFailed(f"no result was printed, but: {text[-1000:]}")
    return float(found[1] or 0), int(found[2]), int(found[3])


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    folder = session.RUN_FOLDERS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder


def story() -> None:
    """Run all pairs, and print the last line."""
    ratios: dict[str, list[float]] = {}
    wanted = os.environ.get("ONLY", "").split() or [W1.name, W2.name]
    if not {*wanted} <= {W1.name, W2.name}:
        raise BenchError(f"ONLY is {' '.join(wanted)!r}; give W1, W2 or both")
    with servers.running(FOLDER, (W1, W2)) as (at, workloads):
        for number, name in enumerate(wanted):
            recipe = workloads[name].recipe
            task = Task(
                workload=workloads[name],
                partitions=PARTITIONS,
                prefix=f"sink{number}",
                folder=session.RUN_FOLDERS / f"worker{number}",
                server_id=FIRST_SERVER_ID + number,
                servers=at,
            )
            (topic,) = published(Aqueduct(), task)
            bench = Bench(at, recipe, topic, task.prefix)
            bench.choose()
            ratios[name] = [
                bench.pair(ours_first=turn % 2 == 1) for turn in range(session.pairs_wanted(PAIRS))
            ]
    print(f"all figures: {report.keep(session.RESULTS, 'sink', {'ratios': ratios})}")
    medians = " ".join(f"ratio_{name.lower()}={median(of):.2f}" for name, of in ratios.items())
    print(f"bench-sink: {medians}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("usage: [RUNS=n] [ONLY='W1 W2'] [SINK=settings as JSON] python -m bench.sink")
    sys.exit(session.run("bench-sink", story))
