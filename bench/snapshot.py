"""`python -m bench.snapshot`: the rows that exist already, published by Aqueduct and by Debezium.

Invariant: ratios are of pairs of consecutive runs, in alternating order, on the same rows and the same broker,
after which each topic has every key of its table once; the last line has their medians.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from bench import report, servers, session
from bench.binlogs import Workload
from bench.errors import BenchError
from bench.existing_rows import ExistingRows, verify
from bench.peers.aqueduct import Aqueduct
from bench.peers.debezium import Debezium
from bench.peers.peer import FIRST_SERVER_ID, Peer, Task
from bench.probe import Beats, Probe, percentile
from bench.report import Pair
from bench.run import Result, measure
from bench.servers import Servers

FOLDER = session.FOLDER / "snapshot"
ROWS = 2_000_000
TABLES = 200
PAIRS = 3
CALM_SECONDS = 10.0
"""The time in which the client works alone, before a peer starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What the client beside one run measured: 99th percentiles in ms, and the stream's lag in seconds."""

    peer: str
    read_ms: float
    read_calm_ms: float
    written_ms: float
    written_calm_ms: float
    updates: int
    """Within the window of the run."""
    visible: int
    """Of those, how many were visible when the run ended."""
    lag_p50: float
    lag_p99: float

    @classmethod
    def of(cls, beats: Beats, result: Result) -> Client:
        """Compare the window of a run with the time before its start."""
        calm = beats.between(0, result.first_at - result.startup_seconds)
        busy = beats.between(result.first_at, result.first_at + result.seconds)
        return cls(
            peer=result.peer,
            read_ms=1e3 * percentile([one.read for one in busy.all], 99),
            read_calm_ms=1e3 * percentile([one.read for one in calm.all], 99),
            written_ms=1e3 * percentile([one.written for one in busy.all], 99),
            written_calm_ms=1e3 * percentile([one.written for one in calm.all], 99),
            updates=len(busy.all),
            visible=len(busy.seen),
            lag_p50=percentile(busy.lags, 50),
            lag_p99=percentile(busy.lags, 99),
        )

    @property
    def ratio(self) -> float:
        """The greater of both statements' percentiles, relative to that without a snapshot."""
        both = (self.read_ms, self.read_calm_ms), (self.written_ms, self.written_calm_ms)
        return max(busy / calm if calm else 0.0 for busy, calm in both)

    def to_text(self) -> str:
        """The client in one line."""
        return (
            f"{self.peer}: p99 of SELECT {self.read_ms:.2f} ms (alone {self.read_calm_ms:.2f}), of UPDATE "
            f"{self.written_ms:.2f} ms (alone {self.written_calm_ms:.2f}); its updates visible after "
            f"{self.lag_p50:.2f} s (p50), {self.lag_p99:.2f} s (p99), {self.visible} of {self.updates} "
            "before the end"
        )


class Bench:
    """The runs of one benchmark, numbered, and printed as they end."""

    def __init__(self, at: Servers) -> None:
        self._at = at
        self._peers: tuple[Peer, Peer] = Aqueduct(existing=True), Debezium(at, existing=True)
        self._numbers = itertools.count(1)
        self.results: list[Result] = []
        self.clients: list[Client] = []

    def warm_up(self, workload: Workload) -> None:
        """Warm up the broker's JVM with a run that is not counted."""
        measure(self._peers[0], self._task(workload), verified=False)

    def pair(self, workload: Workload, *, ours_first: bool) -> Pair:
        """Run both peers, one right after the other."""
        order = self._peers if ours_first else self._peers[::-1]
        done = {peer.name: self._timed(peer, workload) for peer in order}
        pair = Pair(*(done[peer.name] for peer in self._peers))
        print(f"  {pair.to_text()}", flush=True)
        return pair

    def _timed(self, peer: Peer, workload: Workload) -> Result:
        task = self._task(workload)
        if not workload.recipe.beside:
            result = measure(peer, task, verify=verify)
        else:
            topic = _topic_beside(peer, task)
            with Probe(self._at.mysql_host, self._at.mysql_port, self._at.kafka, topic) as probe:
                time.sleep(CALM_SECONDS)
                result = measure(peer, task, verify=verify)
            self.clients.append(Client.of(probe.beats, result))
        self.results.append(result)
        print(f"{report.line(result)}  {_whole(result)}", flush=True)
        if workload.recipe.beside:
            print(f"  {self.clients[-1].to_text()}", flush=True)
        return result

    def _task(self, workload: Workload) -> Task:
        """The task of the next run; its number makes topics and folders unique."""
        number = next(self._numbers)
        return Task(
            workload=workload,
            partitions=1,
            prefix=f"existing{number}",
            folder=session.RUN_FOLDERS / str(number),
            server_id=FIRST_SERVER_ID + number,
            servers=self._at,
        )


def _topic_beside(peer: Peer, task: Task) -> str:
    """The topic of the client's table."""
    recipe = replace(task.workload.recipe, tables=task.workload.recipe.beside)
    (topic,) = peer.topics(replace(task, workload=replace(task.workload, recipe=recipe)))
    return topic


def _whole(result: Result) -> str:
    """The rate from the start of the process on, and the largest of its processes."""
    rate = result.all_rows / (result.startup_seconds + result.seconds)
    return (
        f"with the start of {result.startup_seconds:.1f} s {rate:,.0f} rows/s, "
        f"largest process {result.largest_mib:.0f} MiB"
    )


def story() -> None:
    """Run the benchmark, from the servers to the last line."""
    pairs_wanted = session.pairs_wanted(PAIRS)
    there = ExistingRows(rows=_number("ROWS", ROWS), tables=_number("TABLES", TABLES))
    there.forget_other(FOLDER)
    with servers.started(FOLDER) as (at, mysql):
        there.make(mysql, FOLDER)
        bench, workloads = Bench(at), there.workloads()
        for workload in workloads:
            print(f"{workload.recipe.name:<6} {workload.recipe.about}")
        bench.warm_up(workloads[-1])
        pairs = [
            bench.pair(workload, ours_first=n % 2 == 1)
            for n in range(pairs_wanted)
            for workload in workloads
        ]
    content = {
        "results": [result.to_json() for result in bench.results],
        "clients": [asdict(client) for client in bench.clients],
        "ratios": [{"workload": pair.ours.workload, "ratio": pair.ratio} for pair in pairs],
    }
    kept = report.keep(session.RESULTS, "snapshot", content)
    print("\n".join(["", *report.table(bench.results), "", *_beside(bench.clients)]))
    print(f"all figures: {kept}")
    print(last_line(pairs, bench.clients), flush=True)


def _beside(clients: Sequence[Client]) -> Iterator[str]:
    return (client.to_text() for client in clients)


def last_line(pairs: Sequence[Pair], clients: Sequence[Client]) -> str:
    """The last line, for scripts."""
    own: dict[str, Any] = {name: report.ratio(pairs, name) for name in ("one", "many")}
    rss = max(pair.ours.peak_mib for pair in pairs if pair.ours.workload == "one")
    ours = {pair.ours.peer for pair in pairs}
    probe = median(client.ratio for client in clients if client.peer in ours)
    return (
        f"bench-snapshot: ratio={own['one']:.2f} ratio_tables={own['many']:.2f} "
        f"rss_mib={rss:.0f} probe={probe:.2f}"
    )


def _number(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or not int(text):
        raise BenchError(f"{name} is {text!r}; give a number such as {default}")
    return int(text)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("usage: [RUNS=n] [ROWS=n] [TABLES=n] python -m bench.snapshot")
    sys.exit(session.run("bench-snapshot", story))
