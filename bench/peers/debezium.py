"""Debezium's MySQL connector on Kafka Connect, tuned, without exactly-once: the peer of the ratios.

Invariant: tuned for throughput as far as its settings allow: larger batches and queue, lz4,
producer batches as large as ours, no TLS. `docs/performance.md` states the effect of each.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.peers.java_map import serialized
from bench.peers.peer import Changes, Program, Task, enveloped
from bench.peers.software import java_and_jars
from bench.servers import PASSWORD, USER, Servers
from bench.workloads import DATABASE
from devstack.paths import PROJECT
from devstack.ports import HOST, free_port

VERSION = "3.6.1.Final on Kafka Connect 4.1.2"
HEAP = "2g"
_LOGGING = PROJECT / "devstack/log4j2.properties"

_CONNECT = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "offset.flush.interval.ms": "10000",
    "plugin.discovery": "hybrid_warn",
    "connector.client.config.override.policy": "All",
}

_TUNED = {
    "database.ssl.mode": "disabled",
    "driver.allowPublicKeyRetrieval": "true",
    "max.batch.size": "8192",
    "max.queue.size": "32768",
    "poll.interval.ms": "10",
    "producer.override.compression.type": "lz4",
    "producer.override.linger.ms": "10",
    "producer.override.batch.size": "524288",
    "producer.override.buffer.memory": "67108864",
}

_EXISTING = {
    "snapshot.mode": "initial",
    "snapshot.max.threads": "2",
}


class Debezium:
    """Connect in standalone mode with one connector and one task."""

    name, main, child = "debezium", "connect", "child"
    tombstones, batches = True, False

    def __init__(self, servers: Servers, *, existing: bool = False) -> None:
        """``existing``: it begins with the rows that exist, not at a position."""
        self._existing = existing
        self._java, self._jars = java_and_jars("debezium", servers.children)

    def program(self, task: Task) -> Program:
        """Connect's JVM, with its offset at the start of the workload."""
        worker, connector = task.folder / "connect.properties", task.folder / "source.properties"
        offsets = task.folder / "offsets.dat"
        if not self._existing:
            offsets.write_bytes(_offset(task))
        worker.write_text(_properties(_CONNECT | _worker(task, offsets)))
        connector.write_text(_properties(self._settings(task)))
        command = [self._java, "-Xms256m", f"-Xmx{HEAP}", "-XX:+UseG1GC"]
        command += [f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}", "-cp", f"{self._jars}/*"]
        command += ["org.apache.kafka.connect.cli.ConnectStandalone", str(worker), str(connector)]
        return Program(command=command, env=os.environ)

    def _settings(self, task: Task) -> dict[str, str]:
        return _connector(task) | _TUNED | (_EXISTING if self._existing else {})

    def topics(self, task: Task) -> list[str]:
        """One topic per table."""
        return _topics(task, task.workload.recipe.tables)

    def needs(self, task: Task) -> dict[str, int]:
        """Its row topics, and the topic of schema changes."""
        tables = (*task.workload.recipe.tables, *task.workload.recipe.beside)
        return {task.prefix: 1, **dict.fromkeys(_topics(task, tables), task.partitions)}

    def changes(self, value: bytes) -> Changes:
        """One row per message."""
        return enveloped(value)


def _topics(task: Task, tables: Iterable[str]) -> list[str]:
    return [f"{task.prefix}.{DATABASE}.{table}" for table in tables]


def _worker(task: Task, offsets: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": task.servers.kafka,
        "offset.storage.file.filename": str(offsets),
        "listeners": f"http://{HOST}:{free_port()}",
    }


def _connector(task: Task) -> dict[str, str]:
    return {
        "name": task.prefix,
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "tasks.max": "1",
        "database.hostname": task.servers.mysql_host,
        "database.port": str(task.servers.mysql_port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.server.id": str(task.server_id),
        "topic.prefix": task.prefix,
        "table.include.list": rf"{DATABASE}.{task.workload.recipe.pattern}",
        # An offset requires a schema history: this rebuilds it from the present tables.
        "snapshot.mode": "recovery",
        "snapshot.locking.mode": "none",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(task.folder / "history.dat"),
        "schema.history.internal.store.only.captured.tables.ddl": "true",
    }


def _offset(task: Task) -> bytes:
    """Its initial offset. With GTIDs on the server an offset without them fails the task."""
    position = task.workload.position
    value = {"file": position.file, "pos": 4, "ts_sec": 1, "gtids": position.gtids}
    key = json.dumps([task.prefix, {"server": task.prefix}], separators=(",", ":"))
    return serialized(key.encode(), json.dumps(value, separators=(",", ":")).encode())


def _properties(settings: Mapping[str, str]) -> str:
    # Backslash is the escape character of Java's properties.
    lines = (f"{name}={value}\n" for name, value in settings.items())
    return "".join(line.replace("\\", "\\\\") for line in lines)
