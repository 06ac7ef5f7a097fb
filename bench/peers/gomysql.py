"""go-mysql with a Go client of Kafka: the speed of a compiled program without any guarantees.

Invariant: it is a bound that no worker needs to meet: no schema tracking, no state, no
exactly-once.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bench.errors import PeerMissing
from bench.peers.peer import Changes, Program, Task, enveloped
from bench.servers import PASSWORD, USER, Servers

VERSION = "v1.13.0 with franz-go v1.22.2"
_SOURCES = Path(__file__).with_name("gomysql")


class GoMysql:
    """One process that reads one table."""

    name, main, child = "go-mysql", "go-mysql", "child"
    tombstones, batches = False, False

    def __init__(self, servers: Servers, folder: Path) -> None:
        if shutil.which("go") is None:
            raise PeerMissing("go-mysql is omitted: it needs a Go toolchain, and there is no go")
        self._program = folder / "gomysql"
        command = ["go", "build", "-mod=readonly", "-o", str(self._program), "."]
        servers.children.run(command, log=folder / "go-build.log", cwd=_SOURCES)

    def program(self, task: Task) -> Program:
        """The program with its position, table and topic."""
        at, (table,) = task.servers, task.workload.recipe.tables
        command = [str(self._program), at.mysql_host, str(at.mysql_port), USER, PASSWORD]
        command += [task.workload.position.file, table, at.kafka, task.prefix, str(task.server_id)]
        return Program(command=command, env=os.environ)

    def topics(self, task: Task) -> list[str]:
        """One topic."""
        return [task.prefix]

    def needs(self, task: Task) -> dict[str, int]:
        """The same topic."""
        return {task.prefix: task.partitions}

    def changes(self, value: bytes) -> Changes:
        """One row per message."""
        return enveloped(value)
