"""`python -m bench`: Aqueduct and Debezium in one benchmark; PEERS=all adds the other peers.

Invariant: ratios are of pairs of consecutive runs, in alternating order, on the same binlog and the
same broker; the last line has their medians.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence

from bench import report, servers, session
from bench.binlogs import Workload
from bench.errors import BenchError
from bench.peers import others
from bench.peers.aqueduct import Aqueduct
from bench.peers.debezium import Debezium
from bench.peers.peer import FIRST_SERVER_ID, Peer, Task
from bench.report import Pair
from bench.run import Result, measure
from bench.servers import Servers
from bench.workloads import COUNTED, SHOWN

PAIRS = 3
SHOWN_PARTITIONS = 8


class Bench:
    """The runs of one benchmark, numbered, and printed as they end."""

    def __init__(self, at: Servers, workloads: dict[str, Workload]) -> None:
        self._at = at
        self._workloads = workloads
        self._numbers = itertools.count(1)
        self.results: list[Result] = []

    def warm_up(self, peer: Peer) -> None:
        """Warm up the broker's JVM with a run that is not counted."""
        measure(peer, self.task(COUNTED[-1].name), verified=False)

    def timed(self, peer: Peer, workload: str, *, partitions: int = 1) -> Result:
        """Perform one run."""
        result = measure(peer, self.task(workload, partitions))
        self.add(result)
        return result

    def add(self, result: Result) -> None:
        """Print and store a run's result."""
        self.results.append(result)
        print(report.line(result), flush=True)

    def pair(self, ours: Peer, theirs: Peer, workload: str, *, ours_first: bool) -> Pair:
        """Run both peers, one right after the other."""
        order = [ours, theirs] if ours_first else [theirs, ours]
        done = {peer.name: self.timed(peer, workload) for peer in order}
        pair = Pair(done[ours.name], done[theirs.name])
        print(f"  {pair.to_text()}", flush=True)
        return pair

    def task(self, workload: str, partitions: int = 1) -> Task:
        """The task of the next run; its number makes topics and folders unique."""
        number = next(self._numbers)
        return Task(
            workload=self._workloads[workload],
            partitions=partitions,
            prefix=f"run{number}",
            folder=session.RUN_FOLDERS / str(number),
            server_id=FIRST_SERVER_ID + number,
            servers=self._at,
        )


def story() -> None:
    """Run the benchmark, from the servers to the last line."""
    pairs_wanted, more = session.pairs_wanted(PAIRS), _with_others()
    with servers.running(session.FOLDER, (*COUNTED, *SHOWN)) as (at, workloads):
        bench = Bench(at, workloads)
        ours, debezium = Aqueduct(), Debezium(at)
        for recipe in (*COUNTED, *SHOWN):
            print(f"{recipe.name:<6} {recipe.about}, {recipe.rows:,} row events")
        bench.warm_up(ours)
        pairs = [
            bench.pair(ours, debezium, recipe.name, ours_first=n % 2 == 1)
            for n in range(pairs_wanted)
            for recipe in COUNTED
        ]
        _show(bench, [ours, debezium])
        if more:
            others.run(at, session.FOLDER / "peers", task=bench.task, done=bench.add)
        _conclude(bench.results, pairs)


def _show(bench: Bench, peers: Sequence[Peer]) -> None:
    for recipe, peer in itertools.product(SHOWN, peers):
        bench.timed(peer, recipe.name, partitions=SHOWN_PARTITIONS)
    for recipe in COUNTED:
        bench.timed(Aqueduct(transactions=True), recipe.name)


def _conclude(results: list[Result], pairs: list[Pair]) -> None:
    content = {
        "results": [result.to_json() for result in results],
        "ratios": [{"workload": pair.ours.workload, "ratio": pair.ratio} for pair in pairs],
    }
    kept = report.keep(session.RESULTS, "bench", content)
    texts = [pair.to_text() for pair in pairs]
    print("\n".join(["", *report.table(results), "", *texts, f"all figures: {kept}"]))
    print(report.last_line(pairs), flush=True)


def _with_others() -> bool:
    peers = os.environ.get("PEERS", "")
    if peers not in {"", "all"}:
        raise BenchError(f"PEERS is {peers!r}; leave it out, or say all")
    return peers == "all"


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("usage: [RUNS=n] [PEERS=all] python -m bench")
    sys.exit(session.run("bench", story))
