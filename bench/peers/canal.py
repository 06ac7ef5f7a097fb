"""Canal's server and Kafka producer, with flat JSON: one message per event, with one or more rows.

Invariant: its figures are reported with what it lacks: row keys, tombstones, exactly-once.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import orjson

from bench.errors import PeerMissing
from bench.peers.peer import Changes, Program, Task
from bench.peers.software import java_and_jars
from bench.servers import PASSWORD, USER, Servers
from bench.workloads import DATABASE

VERSION = "1.1.7"
_SOURCES = Path(__file__).with_name("canal_java")
_OPS = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}
_OPENED = ("java.lang", "java.nio", "java.net", "sun.nio.ch")

_TUNED = {
    "batch": "1000",
    "canal.mq.flatMessage": "true",
    "kafka.acks": "all",
    "kafka.compression.type": "lz4",
    "kafka.batch.size": "524288",
    "kafka.linger.ms": "10",
    "kafka.max.request.size": "4194304",
    "kafka.buffer.memory": "67108864",
    "kafka.max.in.flight.requests.per.connection": "1",
    "kafka.retries": "0",
}


class Canal:
    """Canal in one JVM, without its launcher."""

    name, main, child = "canal", "canal", "child"
    tombstones, batches = False, True

    def __init__(self, servers: Servers, folder: Path) -> None:
        compiler = shutil.which("javac")
        if compiler is None:
            raise PeerMissing("canal is omitted: it needs a Java compiler, and there is no javac")
        self._java, self._jars = java_and_jars("canal", servers.children)
        self._classes = folder / "canal"
        source = str(_SOURCES / "CanalMain.java")
        command = [compiler, "-d", str(self._classes), "-cp", f"{self._jars}/*", source]
        servers.children.run(command, log=folder / "javac.log")

    def program(self, task: Task) -> Program:
        """Its JVM, with its position at the start of the workload."""
        settings = task.folder / "canal.properties"
        lines = (f"{name}={text}\n" for name, text in (_TUNED | self._settings(task)).items())
        settings.write_text("".join(line.replace("\\", "\\\\") for line in lines))
        opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        path = f"{self._classes}:{_SOURCES}:{self._jars}/*"
        command = [self._java, "-Xmx2g", *opens, "-cp", path, "CanalMain", str(settings)]
        return Program(command=command, env=os.environ)

    def topics(self, task: Task) -> list[str]:
        """One topic for all tables."""
        return [task.prefix]

    def needs(self, task: Task) -> dict[str, int]:
        """The same topic."""
        return {task.prefix: task.partitions}

    def changes(self, value: bytes) -> Changes:
        """The number of rows in `data`."""
        message = orjson.loads(value)
        if message["isDdl"]:
            return Changes("ddl", 1)
        return Changes(_OPS[message["type"]], len(message["data"]))

    def _settings(self, task: Task) -> dict[str, str]:
        position = {"journalName": task.workload.position.file, "position": 4, "timestamp": 0}
        return {
            "host": task.servers.mysql_host,
            "port": str(task.servers.mysql_port),
            "user": USER,
            "password": PASSWORD,
            "database": DATABASE,
            "server_id": str(task.server_id),
            "position": json.dumps(position),
            "filter": rf"{DATABASE}\.{task.workload.recipe.pattern}",
            "topic": task.prefix,
            "kafka.bootstrap.servers": task.servers.kafka,
        }
