"""Run a real Spark cluster: a standalone master and its workers, from the jars of PySpark.

A worker starts executors in processes of their own, in its process group.
"""

import importlib.util
import json
import os
import urllib.request
from pathlib import Path
from typing import Any, Self

from devstack.errors import MissingSoftwareError
from devstack.paths import PROJECT
from devstack.ports import HOST, free_port, wait_until_ready
from devstack.processes import Child, Children

_START_SECONDS = 180
_ANSWER_SECONDS = 5
_EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"


def spark_home() -> Path:
    """Return the folder of PySpark, which `spark-submit` calls SPARK_HOME."""
    spec = importlib.util.find_spec("pyspark")
    folders = [Path(found) for found in (spec.submodule_search_locations or ())] if spec else []
    folders += (PROJECT / ".venv/lib").glob("python3.*/site-packages/pyspark")
    for folder in folders:
        if (folder / "bin/spark-class").exists():
            return folder
    raise MissingSoftwareError("PySpark is not installed; run `make setup`.")


class SparkCluster:
    """A master and workers on loopback, below `folder`; running within a `with` block.

    Each worker offers `cores` and `memory` (as Spark writes sizes: 1g) to applications.
    """

    def __init__(
        self,
        folder: Path,
        *,
        java: str,
        owner: Children,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
    ) -> None:
        self.port, self._web_port = free_port(), free_port()
        self.master = f"spark://{HOST}:{self.port}"
        self.log = folder / "spark-master.log"
        self._folder = folder
        self._owner = owner
        self._offer = ("--cores", str(cores), "--memory", memory)
        self._count = workers
        self._home = spark_home()
        self._environment = {
            **os.environ,
            "JAVA_HOME": str(Path(java).resolve().parent.parent),
            "SPARK_HOME": str(self._home),
            # Spark's web pages have no other setting of their address; executors inherit it.
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }
        self._master: Child | None = None
        self.workers: list[Child] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the master and the workers, and return once all of them are registered."""
        ports = ("--port", str(self.port), "--webui-port", str(self._web_port))
        self._master = self._start("master.Master", *ports, log=self.log)
        self._wait(self._master, lambda: self._alive() >= 0, log=self.log)
        for _ in range(self._count):
            self.add_worker()

    def add_worker(self) -> Child:
        """Start another worker, and return it once it is registered."""
        number = len(self.workers) + 1
        log = self._folder / f"spark-worker-{number}.log"
        where = ("--work-dir", str(self._folder / f"worker-{number}"), "--webui-port", "0")
        before = self._alive()
        child = self._start("worker.Worker", *where, *self._offer, self.master, log=log)
        self._wait(child, lambda: self._alive() > before, log=log)
        self.workers.append(child)
        return child

    def executors(self) -> list[int]:
        """Return the pids of all executors that run."""
        groups = {worker.identity.pid for worker in self.workers}
        return [
            pid for pid in map(_pid, Path("/proc").iterdir()) if pid and _is_executor(pid, groups)
        ]

    def stop(self) -> None:
        """End all of it."""
        for worker in self.workers:
            worker.stop()
        if self._master is not None:
            self._master.stop()

    def _start(self, program: str, *arguments: str, log: Path) -> Child:
        command = (
            *("bash", str(self._home / "bin/spark-class"), f"org.apache.spark.deploy.{program}"),
            *("--host", HOST, *arguments),
        )
        label = f"spark {self.master}"
        return self._owner.start(command, label=label, log=log, env=self._environment)

    def _wait(self, child: Child, ready: Any, *, log: Path) -> None:
        wait_until_ready("spark", child, ready, owner=self._owner, log=log, seconds=_START_SECONDS)

    def _alive(self) -> int:
        """How many workers the master has; -1 until it accepts them."""
        address = f"http://{HOST}:{self._web_port}/json/"
        with urllib.request.urlopen(address, timeout=_ANSWER_SECONDS) as page:
            state: dict[str, Any] = json.load(page)
        return int(state["aliveworkers"]) if state["status"] == "ALIVE" else -1


def _pid(folder: Path) -> int:
    return int(folder.name) if folder.name.isdigit() else 0


def _is_executor(pid: int, groups: set[int]) -> bool:
    try:
        return os.getpgid(pid) in groups and _EXECUTOR in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return False
