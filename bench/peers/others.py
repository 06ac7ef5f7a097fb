"""Peers of PEERS=all: Canal, go-mysql and mysql-replication, one run of each workload.

Invariant: a peer that cannot be built here is omitted with one clear line; any other must complete
the whole workload.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.errors import PeerMissing
from bench.peers import replication
from bench.peers.canal import Canal
from bench.peers.gomysql import GoMysql
from bench.peers.peer import Peer, Task
from bench.run import Result, measure
from bench.servers import Servers
from bench.workloads import COUNTED


def run(
    servers: Servers,
    folder: Path,
    *,
    task: Callable[[str], Task],
    done: Callable[[Result], None],
) -> None:
    """Run each; `task` returns a run's task for a workload, `done` receives each result."""
    folder.mkdir(parents=True, exist_ok=True)
    makers: list[Callable[[Servers, Path], Peer]] = [Canal, GoMysql]
    for make in makers:
        try:
            peer = make(servers, folder)
        except PeerMissing as missing:
            print(f"  {missing}", flush=True)
            continue
        for recipe in COUNTED:
            done(measure(peer, task(recipe.name)))
    for recipe in COUNTED:
        done(replication.measure(task(recipe.name)))
