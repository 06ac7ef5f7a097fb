"""The sink on a real Spark cluster, started by `spark-submit` as docs/sink/deploy.md has it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from devstack import Stack, java
from devstack.processes import Children
from devstack.spark_cluster import SparkCluster, spark_home
from spark_sink.settings.model import Settings
from tests.integration.spark_sink.test_sink import (
    COLUMNS,
    TIMEOUT,
    Installation,
    descendants,
    until,
    until_ended,
)
from tests.unit.spark_sink.conftest import FORMAT
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.long(
        "unit/spark_sink/spark/test_jobs.py and spark/test_batch_size.py have the rules"
    ),
]
PROJECT = Path(__file__).parents[3]
PARTITIONS = 4
ROUNDS = 3
LOST = "executors lost: the batch is applied again"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    owner = Children()
    try:
        folder = tmp_path_factory.mktemp("cluster")
        with SparkCluster(folder, java=java.find_or_install(owner), owner=owner) as running:
            yield running
    finally:
        owner.close()


def submit_command(
    cluster: SparkCluster, folder: Path, config: Path, *arguments: str, more: Sequence[str] = ()
) -> list[str]:
    """The sink's command by `spark-submit`; `more` are settings that name further folders of jars."""
    archive = folder / "spark_sink.zip"
    if not archive.exists():
        for package in ("spark_sink", "wire"):
            shutil.copytree(PROJECT / package, folder / "sent" / package)
        shutil.make_archive(str(archive.with_suffix("")), "zip", folder / "sent")
    fields = ("jars", *more) if FORMAT == "delta" else ("jars", "iceberg_jars", *more)
    jars = [
        one for name in fields for one in sorted(Settings.model_fields[name].default.glob("*.jar"))
    ]
    return [
        *(str(spark_home() / "bin/spark-submit"), "--master", cluster.master),
        *("--driver-memory", "1g", "--jars", ",".join(map(str, jars))),
        *("--py-files", str(archive), "--conf", "spark.sql.shuffle.partitions=2"),
        *(str(PROJECT / "spark_sink/__main__.py"), "--config", str(config), *arguments),
    ]


def submit_environment() -> dict[str, str]:
    """Without PYTHONPATH, the sink is found in the archive alone."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


class Submitted(Installation):
    """A sink that is started by `spark-submit`."""

    def __init__(self, folder: Path, kafka: str, cluster: SparkCluster, prefix: str) -> None:
        super().__init__(folder, kafka, prefix)
        # All of the little that the machine can do is left to the merging.
        self.config.write_text(f"{self.config.read_text()}fresh: false\n")
        self._cluster = cluster
        self.seq = 0
        self.held: dict[str, dict[int, str]] = {}

    def command(self, *arguments: str) -> list[str]:
        return submit_command(self._cluster, self.folder, self.config, *arguments)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            cwd=self.folder,
            env=submit_environment(),
        )

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        with (self.folder / "submit.log").open("a") as output:
            process = subprocess.Popen(
                self.command(),
                stdout=output,
                stderr=output,
                text=True,
                start_new_session=True,
                cwd=self.folder,
                env=submit_environment(),
            )
        try:
            yield process
        finally:
            kill_group(process)

    async def make_partitioned(self, *tables: str) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.kafka)
        await admin.start()
        topics = [NewTopic(self.topic(table), PARTITIONS, 1) for table in tables]
        await admin.create_topics([NewTopic(f"{self.prefix}.__schemas", 1, 1), *topics])
        await admin.close()

    async def wave(self, rows: int, *tables: str) -> int:
        """Writes so many changes of each table: new rows, and rows changed again; returns the last `seq`."""
        producer = AIOKafkaProducer(bootstrap_servers=self.kafka, transactional_id=self.prefix)
        await producer.start()
        async with producer.transaction():
            for number in range(rows):
                for table in tables:
                    self.seq += 1
                    key = self.seq if number % 2 else self.seq // 3
                    v = f"{table}{self.seq}"
                    image = {"id": key, "v": v}
                    change = Change(op="c", seq=self.seq, after=image, table=table)
                    at = key % PARTITIONS
                    await producer.send(self.topic(table), change.value().encode(), partition=at)
                    self.held.setdefault(table, {})[key] = v
        await producer.stop()
        return self.seq

    def merged(self, seq: int) -> Callable[[], bool]:
        return lambda: self.metric('applied_seq{destination="shop"}') >= seq

    def dumped(self) -> dict[str, dict[int, str]]:
        """The rows of all tables."""
        file = self.folder / "dump.json"
        command = Installation.command(self, "dump", str(file))
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
        found: dict[str, dict[int, str]] = {}
        table = ""
        for line in map(json.loads, file.read_text().splitlines()[1:-1]):
            if "table" in line:
                table = line["table"]
                found[table] = {}
            elif not line["deleted"]:
                key, v = line["values"].values()
                assert key not in found[table]
                found[table][key] = v
        return found


def kill_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


async def test_the_tables_are_equal_though_executors_and_a_worker_are_killed(
    stack: Stack, cluster: SparkCluster, tmp_path: Path
) -> None:
    at = Submitted(tmp_path, stack.kafka, cluster, "sinkcluster")
    await at.make_partitioned("t", "u")
    await at.write(schema(*COLUMNS), schema(*COLUMNS, table="u"))
    with at.running() as sink:
        until(at.merged(await at.wave(500, "t", "u")), sink)
        # The memory of two executors, of 1 GiB each.
        assert "largest_batch=307200 offsets" in at.log()
        for _ in range(ROUNDS):
            begun = at.batches()
            last = await at.wave(500, "t", "u")
            at.until_batch(begun, sink)
            # What executors hold of the batch is lost, once they have read it.
            for executor in cluster.executors():
                os.kill(executor, signal.SIGKILL)
            until(at.merged(last), sink)
            if LOST in at.log():
                break
        assert LOST in at.log()
        begun = at.batches()
        last = await at.wave(500, "t", "u")
        at.until_batch(begun, sink)
        cluster.workers[0].kill()
        until(at.merged(last), sink)
        (python,) = descendants(sink.pid)
        os.kill(python, signal.SIGTERM)
        assert sink.wait(TIMEOUT) == 0
    cluster.add_worker()
    assert at.dumped() == at.held


async def test_the_tables_are_equal_though_the_driver_is_killed(
    stack: Stack, cluster: SparkCluster, tmp_path: Path
) -> None:
    at = Submitted(tmp_path, stack.kafka, cluster, "sinkdriver")
    await at.make_partitioned("t", "u")
    await at.write(schema(*COLUMNS), schema(*COLUMNS, table="u"))
    # What spark-submit started, and the Python process that it started.
    for is_jvm in (True, False):
        with at.running() as sink:
            begun = at.batches()
            last = await at.wave(500, "t", "u")
            at.until_batch(begun, sink)
            assert not at.merged(last)()
            processes = [sink.pid, *descendants(sink.pid)]
            os.kill(sink.pid if is_jvm else processes[1], signal.SIGKILL)
            sink.wait(TIMEOUT)
            until_ended(processes)
    ended = at.run("--mode", "available-now")
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    assert at.dumped() == at.held
