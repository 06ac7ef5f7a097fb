"""``python -m bench.sink``: a backlog brought into the warehouse, beside a simple job.

Both read the same topics on `local[2]` with 4 GiB: W1 and W2, which the worker has written of the workloads'
binlogs; `small`, batches of 1,000 changes over 20 tables; and `many`, a batch of 500 tables with a few rows.
The clock is each one's own: from the start of its query to its end. The rows of both are compared. `fresh` is
`bench.sink_fresh`, without a peer: the simple job has no such thing.

Invariant: ratios are of pairs of consecutive runs, in alternating order; the simple job runs with the best of
three numbers of shuffle partitions. For `small` and `many` they are compared on fewer changes and tables. Of
the 500 tables of `many` the simple job gets 50, as it makes one MERGE for each: all would take it an hour.
"""

from __future__ import annotations

import asyncio
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

from bench import report, servers, session, sink_fresh, sink_topics
from bench.binlogs import Workload
from bench.errors import BenchError, RunFailed
from bench.peers.aqueduct import Aqueduct
from bench.peers.peer import FIRST_SERVER_ID, Task
from bench.run import published
from bench.servers import Servers
from bench.workloads import DATABASE, W1, W2
from demo.checks import percentile
from devstack.processes import tail
from devstack.programs import environment

FOLDER: Final = session.FOLDER / "sink"
PAIRS: Final = 3
PARTITIONS: Final = 4
SHUFFLE: Final = ("2", "8", "200")
"""The numbers of shuffle partitions of which the simple job's best is taken."""
_LONGEST: Final = 1800.0
_TABLES: Final = {"small": (20, 50, 4_000, 1_000), "many": (500, 5, 0, 100_000)}
"""Tables, rows of each, changes of all together, and records in a batch."""
_PARTS: Final = {"many": 10}
"""One of how many tables the simple job gets."""
_CHOICES: Final = {"small": (5, 50, 250, 1_000), "many": (10, 5, 0, 100_000)}
"""The same for the choice of the simple job's settings, which would else take an hour."""
_WANTED: Final = (W1.name, W2.name, *_TABLES, "fresh")
_RESULT: Final = re.compile(r"RESULT (?:seconds=(\S+) )?rows=(\d+) ids=(\d+)")
_TIME: Final = "%Y-%m-%d %H:%M:%S,%f"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """One run."""

    seconds: float
    rows: int
    ids: int
    """The sum of the rows' ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What both bring into the warehouse."""

    name: str
    rows: int
    prefix: str
    simple: tuple[str, ...]
    """The simple job's first arguments: the workload or MANY, and the topics."""
    batch: int | None = None
    """The records in a batch of both; None: as many as each takes by itself."""
    parts: int = 1
    """How many times what the simple job gets is what the sink gets."""
    of_choice: tuple[str, ...] | None = None
    """`simple` for the choice of the simple job's settings, where that is of other topics."""


class Bench:
    """The runs of one backlog."""

    def __init__(self, at: Servers, backlog: Backlog) -> None:
        self._at, self._backlog = at, backlog
        self._shuffle = SHUFFLE[0]

    def choose(self) -> None:
        """Find the simple job's best number of shuffle partitions; this warms up the broker too."""
        found = {}
        for one in SHUFFLE:
            self._shuffle = one
            found[one] = self._simple(self._backlog.of_choice).seconds
            print(
                f"simple job  {self._backlog.name} {one} shuffle partitions: {found[one]:.1f} s",
                flush=True,
            )
        self._shuffle = min(found, key=lambda one: found[one])

    def pair(self, *, ours_first: bool) -> float:
        """Run both; return how many times the simple job's rows per second are ours."""
        order = (self._ours, self._simple) if ours_first else (self._simple, self._ours)
        done = {one.__name__: one() for one in order}
        ours, simple, parts = done["_ours"], done["_simple"], self._backlog.parts
        if (ours.rows, ours.ids) != (parts * simple.rows, parts * simple.ids):
            raise RunFailed(f"{self._backlog.name}: the sink has {ours}, the simple job {simple}")
        ratio = parts * simple.seconds / ours.seconds
        self._print("sink", ours.seconds, f", {ratio:.2f} times the simple job's rows/s")
        of_part = f" for {parts} parts, of which one was measured" if parts > 1 else ""
        self._print("simple job", parts * simple.seconds, of_part)
        return ratio

    def _print(self, name: str, seconds: float, more: str = "") -> None:
        rows = self._backlog.rows / seconds
        print(
            f"{name:<11} {self._backlog.name} {rows:>8,.0f} rows/s {seconds:>7.1f} s{more}",
            flush=True,
        )

    def _simple(self, of_choice: tuple[str, ...] | None = None) -> Applied:
        with _folder("simple") as folder:
            of = [*(of_choice or self._backlog.simple), self._at.kafka, str(folder), self._shuffle]
            if self._backlog.batch is not None:
                of.append(str(self._backlog.batch))
            seconds, rows, ids = _result(
                self._python("bench.peers.simple_sink", *of, folder=folder)
            )
            return Applied(seconds=seconds, rows=rows, ids=ids)

    def _ours(self) -> Applied:
        with _folder("ours") as folder:
            config = folder / "sink.yaml"
            settings = {
                "prefix": self._backlog.prefix,
                "bootstrap_servers": self._at.kafka,
                "warehouse": str(folder / "warehouse"),
                "mode": "available-now",
                "driver_memory": "4g",
                "max_offsets_per_trigger": self._backlog.batch or 0,
                "metrics": {"port": 0},
                **json.loads(os.environ.get("SINK") or "{}"),
            }
            config.write_text(json.dumps(settings))
            text = self._python("spark_sink", "--config", str(config), folder=folder)
            tables = folder / "warehouse" / self._database()
            counted = self._python("bench.peers.simple_sink", "count", str(tables), folder=folder)
            _, rows, ids = _result(counted)
            return Applied(seconds=_seconds(text), rows=rows, ids=ids)

    def _database(self) -> str:
        return DATABASE if self._backlog.batch is None else sink_topics.DATABASE

    def _python(self, module: str, *arguments: str, folder: Path) -> str:
        """Run a module to its end; return what it printed."""
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
    """Run all that is wanted, and print the last line."""
    wanted = os.environ.get("ONLY", "").split() or list(_WANTED)
    if not {*wanted} <= {*_WANTED}:
        raise BenchError(f"ONLY is {' '.join(wanted)!r}; give some of {' '.join(_WANTED)}")
    ratios: dict[str, list[float]] = {}
    with servers.running(FOLDER, (W1, W2)) as (at, workloads):
        for number, name in enumerate(one for one in wanted if one != "fresh"):
            if name in _TABLES:
                backlog = _of_many_tables(at, name)
            else:
                backlog = _of_a_workload(at, workloads[name], number)
            bench = Bench(at, backlog)
            bench.choose()
            ratios[name] = [
                bench.pair(ours_first=turn % 2 == 1) for turn in range(session.pairs_wanted(PAIRS))
            ]
    found = [f"ratio_{name.lower()}={median(of):.2f}" for name, of in ratios.items()]
    figures: dict[str, object] = {"ratios": ratios}
    if "fresh" in wanted:
        lags, _ = sink_fresh.measured()
        figures["fresh"] = {number: percentile(lags, number) for number in (50, 99)}
        found.append(f"fresh_p50={percentile(lags, 50):.1f}")
    print(f"all figures: {report.keep(session.RESULTS, 'sink', figures)}")
    print(f"bench-sink: {' '.join(found)}", flush=True)


def _of_a_workload(at: Servers, workload: Workload, number: int) -> Backlog:
    """What the worker publishes of a workload."""
    task = Task(
        workload=workload,
        partitions=PARTITIONS,
        prefix=f"sink{number}",
        folder=session.RUN_FOLDERS / f"worker{number}",
        server_id=FIRST_SERVER_ID + number,
        servers=at,
    )
    (topic,) = published(Aqueduct(), task)
    name = workload.recipe.name
    return Backlog(name=name, rows=workload.recipe.rows, prefix=task.prefix, simple=(name, topic))


def _of_many_tables(at: Servers, name: str) -> Backlog:
    """Rows and changes of many tables."""
    tables, rows, changes, batch = _TABLES[name]
    parts = _PARTS.get(name, 1)
    simple = _made(at, name, _TABLES[name])
    if parts > 1:
        simple = _made(at, f"{name}-part", (tables // parts, rows, changes // parts, batch))
    of_choice = _made(at, f"{name}-choice", _CHOICES[name])
    return Backlog(
        name=name,
        rows=tables * rows + changes,
        prefix=name,
        simple=simple,
        batch=batch,
        parts=parts,
        of_choice=of_choice,
    )


def _made(at: Servers, prefix: str, of: tuple[int, int, int, int]) -> tuple[str, ...]:
    """Publish topics; return the simple job's first arguments for them."""
    tables, rows, changes, _ = of
    asyncio.run(sink_topics.publish(at.kafka, prefix, tables, rows=rows, changes=changes))
    return ("MANY", rf"{prefix}\.{sink_topics.DATABASE}\..*")


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(
            "usage: [RUNS=n] [ONLY='W1 W2 small many fresh'] [SINK=settings as JSON] python -m bench.sink"
        )
    sys.exit(session.run("bench-sink", story))
