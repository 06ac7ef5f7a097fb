"""The settings of worker and sink, written into the run folder, and the commands to run both."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from demo.supervise import Program
from devstack.programs import WORKER, environment

PREFIX = "aq"
DATABASE = "shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses of the servers, and of the worker's and the sink's HTTP servers."""

    mysql_host: str
    mysql_port: int
    kafka: str
    zookeeper: str
    worker_http: int
    sink_http: int


@dataclass(frozen=True, slots=True)
class Files:
    """The files of the run folder."""

    folder: Path

    @property
    def worker_config(self) -> Path:
        """The worker's settings."""
        return self.folder / "aqueduct.yaml"

    @property
    def sink_config(self) -> Path:
        """The sink's settings."""
        return self.folder / "sink.yaml"

    @property
    def warehouse(self) -> Path:
        """The Delta tables."""
        return self.folder / "warehouse"

    @property
    def request(self) -> Path:
        """The request of the comparison."""
        return self.folder / "compare.request.json"

    @property
    def answer(self) -> Path:
        """The answer of the comparison."""
        return self.folder / "compare.answer.json"

    def log(self, name: str) -> Path:
        """The log of a part."""
        return self.folder / f"{name}.log"


def worker(files: Files, at: Addresses) -> Program:
    """The worker, as in production."""
    _write(files.worker_config, _worker_settings(files, at))
    return Program(
        name="the worker",
        command=list(WORKER),
        log=files.log("worker"),
        env=_environment(AQUEDUCT_CONFIG=str(files.worker_config)),
        advice="read its log; its settings are in " + str(files.worker_config),
    )


def sink(files: Files, at: Addresses) -> Program:
    """The sink, running continuously."""
    _write(files.sink_config, _sink_settings(files, at))
    return Program(
        name="the sink",
        command=[sys.executable, "-m", "spark_sink", "--config", str(files.sink_config)],
        log=files.log("sink"),
        env=_environment(),
        advice="read its log; its settings are in " + str(files.sink_config),
    )


def comparison(files: Files) -> Program:
    """The process that compares MySQL with the warehouse."""
    paths = (files.request, files.answer, files.sink_config)
    return Program(
        name="the comparison",
        command=[sys.executable, "-m", "demo.warehouse", *map(str, paths)],
        log=files.log("comparison"),
        env=_environment(TZ="UTC"),  # Spark gives times in the zone of the process
        advice="read its log",
    )


def _worker_settings(files: Files, at: Addresses) -> dict[str, object]:
    return {
        "prefix": PREFIX,
        "worker": {"id": "worker-1", "advertised_address": f"127.0.0.1:{at.worker_http}"},
        "http": {"bind": "127.0.0.1", "port": at.worker_http},
        "kafka": {"bootstrap_servers": at.kafka},
        "topics": {"partitions": 4, "replication_factor": 1},
        "data_dir": str(files.folder / "worker"),
        "destinations": {
            DATABASE: {
                "source": {
                    "host": at.mysql_host,
                    "port": at.mysql_port,
                    "user": "aqueduct",
                    "password": "aqueduct",
                },
                "server_id": 5701,
                "default_database": DATABASE,
                "filter": {"include": rf"{DATABASE}\..*"},
                "start": "earliest",
            }
        },
    }


def _sink_settings(files: Files, at: Addresses) -> dict[str, object]:
    return {
        "prefix": PREFIX,
        "bootstrap_servers": at.kafka,
        "warehouse": str(files.warehouse),
        "metrics": {"bind": "127.0.0.1", "port": at.sink_http},
        "log": {"file": str(files.log("sink-details"))},
    }


def _write(path: Path, settings: Mapping[str, object]) -> None:
    path.write_text(yaml.safe_dump(settings, sort_keys=False))


def _environment(**more: str) -> dict[str, str]:
    return environment(PYTHONUNBUFFERED="1", **more)
