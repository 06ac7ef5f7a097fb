"""Aqueduct: the worker as a user runs it, by its command and a settings file."""

from __future__ import annotations

import os
from typing import Any

import yaml

from app.settings.model import DestinationSettings
from bench.peers.peer import Changes, Program, Task, enveloped
from bench.servers import PASSWORD, USER
from bench.workloads import DATABASE
from devstack.ports import free_port
from devstack.programs import WORKER, environment
from tables.rules.routes.routes import Routes


class Aqueduct:
    """The worker with exactly-once; all other settings are the defaults."""

    main, child = "worker", "decoder"
    tombstones, batches = True, False

    def __init__(self, *, transactions: bool = False, existing: bool = False) -> None:
        """``existing``: it begins with the rows that exist, not at a position."""
        self.name = "aqueduct+tx" if transactions else "aqueduct"
        self._transactions, self._existing = transactions, existing

    def program(self, task: Task) -> Program:
        """`faust -A app worker`, starting at the workload's first event."""
        config = task.folder / "aqueduct.yaml"
        config.write_text(yaml.safe_dump(self._settings(task), sort_keys=False))
        return Program(
            command=list(WORKER),
            env=environment(AQUEDUCT_CONFIG=str(config), PYTHONUNBUFFERED="1"),
        )

    def topics(self, task: Task) -> list[str]:
        """One topic per table."""
        routes = Routes(prefix=task.prefix)
        return [routes.topic((DATABASE, table)) for table in task.workload.recipe.tables]

    def needs(self, _task: Task) -> dict[str, int]:
        """No topics: the worker creates its own."""
        return {}

    def changes(self, value: bytes) -> Changes:
        """One row per message."""
        return enveloped(value)

    def _settings(self, task: Task) -> dict[str, Any]:
        destination = {
            "source": {
                "host": task.servers.mysql_host,
                "port": task.servers.mysql_port,
                "user": USER,
                "password": PASSWORD,
                "tls": "disabled",
            },
            "server_id": task.server_id,
            "filter": {"include": rf"{DATABASE}\.{task.workload.recipe.pattern}"},
            **self._begin(task),
            **_decoders(),
        }
        return {
            "prefix": task.prefix,
            "http": {"port": free_port()},
            "kafka": {"bootstrap_servers": task.servers.kafka},
            "topics": {"partitions": task.partitions, "replication_factor": 1},
            "data_dir": str(task.folder / "data"),
            "provide_transaction_metadata": self._transactions,
            "destinations": {"bench": destination},
        }

    def _begin(self, task: Task) -> dict[str, Any]:
        if self._existing:
            return {"snapshot": {"mode": "initial"}}
        return {"start": {"file": task.workload.position.file, "pos": 4}}


def _decoders() -> dict[str, int]:
    """The number of decoders in BENCH_DECODERS; without it, the worker's default."""
    chosen = os.environ.get("BENCH_DECODERS", "")
    known = "decoders" in DestinationSettings.model_fields
    return {"decoders": int(chosen)} if chosen and known else {}
