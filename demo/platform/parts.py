"""The settings of the workers and the sink, and the commands of all programs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from demo.errors import DemoError
from demo.load import Server
from demo.platform.shards import FIRST, MERGE, SECOND
from demo.supervise import Program
from devstack.programs import WORKER, environment

PREFIX = "aq"
STALLED_SECONDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All programs of the demo."""

    folder: Path
    masters: Mapping[str, Server]
    kafka: str
    zookeeper: str
    workers: Sequence[int]
    """The port of each worker's HTTP server."""
    sink_http: int

    @property
    def sink_config(self) -> Path:
        """The sink's settings."""
        return self.folder / "sink.yaml"

    @property
    def warehouse(self) -> Path:
        """The Delta tables."""
        return self.folder / "warehouse"

    @property
    def first_mapping(self) -> Path:
        """The folder of the four documents."""
        return self.folder / "ROMA_GROUP"

    @property
    def second_mapping(self) -> Path:
        """The mapping that is pushed under load."""
        return self.folder / "mapping.yaml"

    def log(self, name: str) -> Path:
        """The log of a program."""
        return self.folder / f"{name}.log"

    def store(self, group: str) -> Path:
        """The database of a group of subscribers."""
        return self.folder / f"{group}.db"

    def write(self) -> None:
        """Write all files that programs read."""
        for number in range(len(self.workers)):
            self._config(number).write_text(yaml.safe_dump(self._worker_settings(number)))
        sink = {
            "prefix": PREFIX,
            "bootstrap_servers": self.kafka,
            "warehouse": str(self.warehouse),
            "metrics": {"bind": "127.0.0.1", "port": self.sink_http},
            "log": {"file": str(self.log("sink-details"))},
        }
        self.sink_config.write_text(yaml.safe_dump(sink))
        self.first_mapping.mkdir()
        for name, text in FIRST.items():
            (self.first_mapping / f"{name}.json").write_text(text)
        self.second_mapping.write_text(SECOND)

    def worker(self, number: int) -> Program:
        """A worker, as in production."""
        config = self._config(number)
        name = f"worker-{number}"
        return self._program(
            name, WORKER, f"read its log; its settings are in {config}", AQUEDUCT_CONFIG=str(config)
        )

    def sink(self) -> Program:
        """The sink, running continuously."""
        command = [sys.executable, "-m", "spark_sink", "--config", str(self.sink_config)]
        return self._program(
            "sink", command, f"read its log; its settings are in {self.sink_config}"
        )

    def group(self, name: str) -> Program:
        """A group of subscribers."""
        command = [sys.executable, "-m", "demo.platform.groups", name, self.kafka]
        return self._program(name, [*command, str(self.store(name))], "read its log")

    def rows(self, answer: Path) -> Program:
        """The process that reads the warehouse's rows."""
        command = [sys.executable, "-m", "demo.platform.warehouse", str(self.sink_config)]
        return self._program("rows", [*command, str(answer)], "read its log", TZ="UTC")

    def run(self, *arguments: str, exits: int = 0) -> str:
        """Run a command of the operator's, and return what it prints; raise DemoError if it exits otherwise."""
        done = subprocess.run(
            [sys.executable, "-m", "app", *arguments],
            env=environment(AQUEDUCT_CONFIG=str(self._config(0))),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != exits:
            what = f"`{' '.join(arguments[:2])}` ended with {done.returncode}, not {exits}"
            raise DemoError(f"{what}: {done.stdout}{done.stderr}")
        return done.stdout

    def _program(self, name: str, command: Sequence[str], advice: str, **more: str) -> Program:
        return Program(
            name=name,
            command=command,
            log=self.log(name),
            env=environment(PYTHONUNBUFFERED="1", **more),
            advice=advice,
        )

    def _config(self, number: int) -> Path:
        return self.folder / f"worker-{number}.yaml"

    def _worker_settings(self, number: int) -> dict[str, object]:
        port = self.workers[number]
        return {
            "prefix": PREFIX,
            "worker": {"id": f"worker-{number}", "advertised_address": f"127.0.0.1:{port}"},
            "http": {"bind": "127.0.0.1", "port": port},
            "kafka": {"bootstrap_servers": self.kafka},
            "topics": {"partitions": 2, "replication_factor": 1},
            "zookeeper": {
                "hosts": self.zookeeper,
                "session_timeout_seconds": 6.0,
                "balance_delay_seconds": 2.0,
            },
            "data_dir": str(self.folder / f"worker-{number}"),
            "mapping": {"store": "zookeeper"},
            "merge": {
                MERGE: {
                    "destinations": [*self.masters],
                    "wait_seconds": 1.0,
                    "stalled": "pass",
                    "stalled_after_seconds": STALLED_SECONDS,
                }
            },
            "destinations": {
                name: {
                    "source": {
                        "host": server.host,
                        "port": server.port,
                        "user": "aqueduct",
                        "password": "aqueduct",
                    },
                    "server_id": 5711 + at,
                    "filter": {"include": r"trade_\d\..*"},
                    "start": "earliest",
                    "decoders": 1,
                }
                for at, (name, server) in enumerate(self.masters.items())
            },
        }
