"""`python -m bench.flat`: CPU cost of a row by depth and number of tables, and of skipped rows.

Invariant: costs are CPU seconds of all our processes, so that a busy machine affects them little.
The cost of a stretch is the difference between two polls of one run; the cost of skipping is the
difference between a run over the rows and one that begins after them.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench import report, servers, session
from bench.binlogs import Workload
from bench.errors import BenchError
from bench.peers.aqueduct import Aqueduct
from bench.peers.peer import FIRST_SERVER_ID, Task
from bench.run import Result, measure
from bench.servers import Servers
from bench.workloads import MARK, ROWS_OF_A_BULK, Recipe, bulk, small

ROWS = 10_000_000
FIRST_DEPTH = 10_000
TABLES = 500
SMALL_TRANSACTIONS = 300_000
FOLDER = session.FOLDER / "flat"
_TIMEOUT = 900.0
"""Seconds without a record, as skipped rows yield none."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a run, with the CPU seconds of all our processes per million rows."""

    first: int
    last: int
    per_million: float


def stretches(result: Result) -> list[Stretch]:
    """The stretches from 10,000 rows to 100,000, from there to a million, and so on."""
    depths = [depth for depth in _decades() if depth < result.all_rows] + [result.all_rows]
    marks = [_at(result, depth) for depth in depths]
    return [
        Stretch(first, last, (after - before) * 1e6 / (last - first))
        for (first, before), (last, after) in itertools.pairwise(marks)
        if last > first
    ]


def _decades() -> Sequence[int]:
    return [FIRST_DEPTH * 10**n for n in range(6)]


def _at(result: Result, depth: int) -> tuple[int, float]:
    """Rows and CPU seconds of the first poll at or past a depth, or of the last."""
    for _, rows, cpu in result.curve:
        if rows >= depth:
            return rows, cpu
    return result.curve[-1][1], result.curve[-1][2]


def story() -> None:
    """Run all, and print the last line."""
    rows = _rows()
    one = bulk("deep", rows // ROWS_OF_A_BULK, stem="deep")
    many = bulk("wide", rows // ROWS_OF_A_BULK, tables=TABLES, stem="wide")
    singles = small("singles", SMALL_TRANSACTIONS, stem="single")
    # Rows are read from the binlog only, never from the tables.
    with servers.running(FOLDER, (one, many, singles)) as (at, workloads):
        runs = Runs(at, workloads)
        flat = {name: runs.decode(name) for name in ("deep", "wide")}
        decoded = {"deep": flat["deep"], "singles": runs.decode("singles")}
        skipped = {name: runs.skip(name) for name in decoded}
    ratios = {name: skipped[name] / decoded[name].own_per_million for name in decoded}
    content = {
        "results": [result.to_json() for result in [*flat.values(), decoded["singles"]]],
        "skipped_per_million": skipped,
    }
    print(f"all figures: {report.keep(session.RESULTS, 'flat', content)}")
    steep = {
        "deep": _steepness(flat["deep"], after=0),
        "wide": _steepness(flat["wide"], after=TABLES * ROWS_OF_A_BULK),
    }
    print(
        f"bench-flat: one_table={steep['deep']:.2f} tables_{TABLES}={steep['wide']:.2f} "
        f"wide_to_deep={flat['wide'].own_per_million / flat['deep'].own_per_million:.2f} "
        f"skip_bulk={ratios['deep']:.3f} skip_single={ratios['singles']:.3f}",
        flush=True,
    )
    if not os.environ.get("KEEP"):
        shutil.rmtree(FOLDER)


def _steepness(result: Result, *, after: int) -> float:
    """The ratio of the most to the least expensive stretch, of those that begin after so many rows.

    At a table's first row its topic is created and its decoder generated, which is no cost of a
    row.
    """
    costs = [stretch.per_million for stretch in stretches(result) if stretch.first > after]
    return max(costs) / min(costs)


class Runs:
    """Our runs, numbered, and printed as they end."""

    def __init__(self, at: Servers, workloads: dict[str, Workload]) -> None:
        self._at = at
        self._workloads = workloads
        self._numbers = itertools.count(1)

    def decode(self, name: str) -> Result:
        """Publish the whole workload to Kafka, and print its stretches."""
        # Verification of millions of records would take longer than the run; `make bench` does it.
        result = self._measure(self._workloads[name])
        print(report.line(result))
        for stretch in stretches(result):
            cost = f"{stretch.per_million:.1f} CPU s/Mrow"
            print(f"  {stretch.first:>11,} to {stretch.last:>11,} rows: {cost}", flush=True)
        return result

    def skip(self, name: str) -> float:
        """CPU seconds per million rows of a workload whose tables are filtered."""
        workload = self._workloads[name]
        over = Workload(_only_mark(workload.recipe), workload.position)
        after = replace(workload.position, file=workload.position.end_file)
        cost = self._measure(over).startup_cpu
        cost -= self._measure(Workload(over.recipe, after)).startup_cpu
        per_million = cost * 1e6 / workload.recipe.rows
        print(f"  {name} skipped: {per_million:.2f} CPU s/Mrow", flush=True)
        return per_million

    def _measure(self, workload: Workload) -> Result:
        number = next(self._numbers)
        task = Task(
            workload=workload,
            partitions=1,
            prefix=f"flat{number}",
            folder=session.RUN_FOLDERS / f"flat{number}",
            server_id=FIRST_SERVER_ID + number,
            servers=self._at,
        )
        return measure(Aqueduct(), task, verified=False, timeout=_TIMEOUT)


def _only_mark(recipe: Recipe) -> Recipe:
    """The part of a workload for a run that captures only the row of ``mark`` after it."""
    return Recipe(
        name=f"after {recipe.name}",
        about="the row after it alone",
        tables=(MARK,),
        pattern=MARK,
        schema=(),
        call="",
        transactions=1,
        creates=1,
    )


def _rows() -> int:
    text = os.environ.get("ROWS") or str(ROWS)
    if not text.isdecimal() or int(text) <= FIRST_DEPTH * 10:
        raise BenchError(f"ROWS is {text!r}; give a number above {FIRST_DEPTH * 10:,}")
    return int(text)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("usage: [ROWS=n] [KEEP=1] python -m bench.flat")
    sys.exit(session.run("bench-flat", story))
