"""`python -m bench.routes`: our throughput with a mapping, beside that without one.

Invariant: ratios are of pairs of consecutive runs, in alternating order, on the same binlog and the same
broker; the last line has their medians. The shards' pair is of two binlogs with the same rows, in one table
and in 512.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from bench import report, servers, session
from bench.binlogs import Workload
from bench.peers.aqueduct import Aqueduct
from bench.peers.peer import FIRST_SERVER_ID, Peer, Task
from bench.report import Pair
from bench.run import measure
from bench.servers import Servers
from bench.workloads import DATABASE, W1, W2, bulk

PAIRS = 3
OTHERS = 5_000
"""Logical tables of the mapping that have no rows."""
LOGICAL, SHARDS = 8, 64
FOLDER = session.FOLDER / "routes"
_TABLES = LOGICAL * SHARDS
# Of so many rows that the first of each table, for which a decoder is generated, count for little.
_WHOLE = bulk("W2long", 20_000, stem="whole")
_SHARDED = bulk("W2x512", 20_000, tables=_TABLES, stem="shard")
_SINGLE = {W1.name: W1.tables[0], W2.name: W2.tables[0]}
_READ = {W1.name: "k", W2.name: "qty"}
"""A numeric column of each workload, for filters and tags."""


@dataclass(frozen=True, slots=True)
class Case:
    """Rules for the table of a workload."""

    name: str
    rules: Mapping[str, Any] = field(default_factory=dict)


def cases(workload: str) -> tuple[Case, ...]:
    """The mappings that are compared with none, from the cheapest on."""
    column = _READ[workload]
    return (
        Case("mapped"),
        Case("+shard key", {"shard_in_key": "always"}),
        Case("+tag", {"tags": {"": "order"}}),
        Case("+field tag", {"tags": {"": "order", column: "changed"}}),
        Case("+filter", {"row_filter": f"{column} >= 0"}),
    )


class Mapped(Aqueduct):
    """The worker with a mapping of 5,000 tables more than the workload has."""

    def __init__(self, name: str, tables: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__()
        self.name = name
        self.tables = tables

    def topics(self, task: Task) -> list[str]:
        """One topic for each logical table."""
        return [f"{task.prefix}.{rules['topic']}" for rules in self.tables.values()]

    def _settings(self, task: Task) -> dict[str, Any]:
        file = task.folder / "mapping.yaml"
        file.write_text(yaml.safe_dump(mapping(self.tables), sort_keys=False))
        return {**super()._settings(task), "mapping": {"file": str(file)}}


def mapping(tables: Mapping[str, Mapping[str, Any]], others: int = OTHERS) -> dict[str, Any]:
    """A mapping with these logical tables, and others."""
    more = {f"trade.other_{n}": {"from": [f"{DATABASE}.absent_{n}"]} for n in range(others)}
    return {"databases": {"trade": {"from": [DATABASE]}}, "tables": {**tables, **more}}


def single(workload: str, case: Case) -> Mapped:
    """The peer that publishes a workload's one table by the rules of a case."""
    rules = {"from": [f"{DATABASE}.{_SINGLE[workload]}"], "topic": "orders", **case.rules}
    return Mapped(case.name, {"trade.orders": rules})


def sharded() -> Mapped:
    """The peer that publishes 512 tables as eight logical ones."""
    return Mapped(
        "shards",
        {
            f"trade.orders_{n}": {
                "from": [f"{DATABASE}.shard[{n * SHARDS + 1}-{(n + 1) * SHARDS}]"],
                "topic": f"orders-{n}",
            }
            for n in range(LOGICAL)
        },
    )


class Bench:
    """The runs, numbered, and printed as they end."""

    def __init__(self, at: Servers, workloads: dict[str, Workload]) -> None:
        self._at = at
        self._workloads = workloads
        self._numbers = itertools.count(1)

    def pair(self, ours: tuple[Peer, str], theirs: tuple[Peer, str], *, ours_first: bool) -> Pair:
        """Run two peers on their workloads, one right after the other."""
        order = [ours, theirs] if ours_first else [theirs, ours]
        done = {peer.name: measure(peer, self._task(workload)) for peer, workload in order}
        for result in done.values():
            print(report.line(result), flush=True)
        pair = Pair(done[ours[0].name], done[theirs[0].name])
        print(f"  {pair.ours.peer}, {pair.to_text()}", flush=True)
        return pair

    def warm_up(self) -> None:
        """Warm up the broker's JVM with a run that is not counted."""
        measure(Aqueduct(), self._task(W2.name), verified=False)

    def _task(self, workload: str) -> Task:
        number = next(self._numbers)
        return Task(
            workload=self._workloads[workload],
            partitions=1,
            prefix=f"routes{number}",
            folder=session.RUN_FOLDERS / f"routes{number}",
            server_id=FIRST_SERVER_ID + number,
            servers=self._at,
        )


def story() -> None:
    """Run all pairs, and print the last line."""
    pairs: dict[tuple[str, str], list[Pair]] = {}
    plain = Aqueduct()
    with servers.running(FOLDER, (W1, W2, _WHOLE, _SHARDED)) as (at, workloads):
        bench = Bench(at, workloads)
        bench.warm_up()
        for turn in range(session.pairs_wanted(PAIRS)):
            first = turn % 2 == 1
            for name in (W1.name, W2.name):
                for case in cases(name):
                    ours = single(name, case), name
                    pair = bench.pair(ours, (plain, name), ours_first=first)
                    pairs.setdefault((name, case.name), []).append(pair)
            pair = bench.pair((sharded(), _SHARDED.name), (plain, _WHOLE.name), ours_first=first)
            pairs.setdefault(("shards", "shards"), []).append(pair)
    ratios = {key: report.ratio(found, found[0].ours.workload) for key, found in pairs.items()}
    content = {
        "results": [
            one.to_json() for of in pairs.values() for p in of for one in (p.ours, p.theirs)
        ],
        "ratios": [{"workload": w, "case": c, "ratio": ratio} for (w, c), ratio in ratios.items()],
    }
    print(f"all figures: {report.keep(session.RESULTS, 'routes', content)}")
    for (workload, name), ratio in ratios.items():
        print(f"{workload:<7} {name:<11} {ratio:.2f}")
    print(
        f"bench-routes: w1={ratios[W1.name, 'mapped']:.2f} w2={ratios[W2.name, 'mapped']:.2f} "
        f"shards={ratios['shards', 'shards']:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("usage: [RUNS=n] python -m bench.routes")
    sys.exit(session.run("bench-routes", story))
