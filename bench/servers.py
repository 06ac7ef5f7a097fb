"""Servers shared by all peers: one mysqld with the workloads in its binlog, and one empty broker.

Invariant: mysqld's data is kept between benchmarks, the broker's never is.
"""

from __future__ import annotations

import contextlib
import glob
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import binlogs
from bench.binlogs import Workload
from bench.workloads import Recipe
from devstack import Stack
from devstack.mysql import Mysql
from devstack.processes import Child, Children

USER = "aqueduct"
PASSWORD = "aqueduct"  # noqa: S105 - devstack's own account, on a server that listens on loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The servers' addresses, processes and folders."""

    mysql_host: str
    mysql_port: int
    kafka: str
    mysqld: Child
    broker: Child
    broker_data: Path
    children: Children
    """The owner of all processes that the benchmark starts; none outlives it."""

    def stored_bytes(self, topic: str) -> int:
        """The size of a topic's log on the broker's disk."""
        logs = self.broker_data.glob(f"{glob.escape(topic)}-*/*.log")
        return sum(log.stat().st_size for log in logs)


@contextlib.contextmanager
def running(
    folder: Path, recipes: Sequence[Recipe]
) -> Iterator[tuple[Servers, dict[str, Workload]]]:
    """Run the servers with these workloads within the block."""
    binlogs.forget_other(folder, recipes)
    with started(folder) as (at, mysql):
        yield at, binlogs.workloads(mysql, folder, recipes)


@contextlib.contextmanager
def started(folder: Path) -> Iterator[tuple[Servers, Mysql]]:
    """Run both servers within the block, mysqld with the data that the folder has."""
    shutil.rmtree(folder / "kafka", ignore_errors=True)
    options = {"binlog_expire_logs_seconds": 0}
    with Stack(folder, ("mysql", "kafka"), mysql_options=options, lasting=True) as stack:
        mysqld, broker = stack.mysql.child, stack.kafka_server.child
        assert mysqld is not None
        assert broker is not None
        at = Servers(
            mysql_host=stack.mysql.host,
            mysql_port=stack.mysql.port,
            kafka=stack.kafka,
            mysqld=mysqld,
            broker=broker,
            broker_data=folder / "kafka/data",
            children=stack.children,
        )
        yield at, stack.mysql
