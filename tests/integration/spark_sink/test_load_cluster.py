"""A load by the executors of a real Spark cluster into a bucket, while rows change and executors are killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack import Stack
from devstack.mysql import Mysql
from devstack.spark_cluster import SparkCluster
from tests.harness.sql import ask, run
from tests.harness.worker import running
from tests.integration.process.conftest import mysql
from tests.integration.process.test_snapshot import changing, filled, wanted_settings
from tests.integration.spark_sink.loads import load_settings, planned
from tests.integration.spark_sink.test_buckets import Bucketed, server
from tests.integration.spark_sink.test_cluster import (
    cluster,
    kill_group,
    submit_command,
    submit_environment,
)
from tests.integration.spark_sink.test_sink import TIMEOUT, until
from tests.s3 import S3Server

__all__ = ["cluster", "filled", "mysql", "server"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.long("test_load.py has a load; test_cluster.py and test_buckets.py the sink there"),
]


def load_on(cluster: SparkCluster, at: Bucketed, plan: Path) -> str:
    """Loads by the cluster, whose executors are killed once they have read four ranges; returns the log."""
    arguments = ("load", str(plan))
    command = submit_command(
        cluster, at.folder, at.config, *arguments, more=("s3_jars", "jdbc_jars")
    )
    log = at.folder / "submit.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            text=True,
            start_new_session=True,
            cwd=at.folder,
            env=submit_environment(),
        )
    try:
        until(lambda: re.search(r"ranges read .* ranges=4/", log.read_text()) is not None, process)
        killed = cluster.executors()
        assert len(killed) == 2
        for executor in killed:
            os.kill(executor, signal.SIGKILL)
        assert process.wait(TIMEOUT) == 0, log.read_text()[-3000:]
    finally:
        kill_group(process)
    return log.read_text()


def dumped(at: Bucketed) -> Counter[tuple[Any, ...]]:
    """The rows of the only table in the bucket."""
    file = at.folder / "dump.json"
    ended = at.run("dump", str(file))
    assert ended.returncode == 0, ended.stderr
    rows = [json.loads(line) for line in file.read_text().splitlines()[1:-1]]
    return Counter(
        tuple(one["values"].values()) for one in rows if "values" in one and not one["deleted"]
    )


def test_executors_of_a_cluster_load_into_a_bucket(
    stack: Stack, filled: Mysql, cluster: SparkCluster, server: S3Server, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path)
    wanted["destinations"]["shop"]["snapshot"] = {"mode": "no_data"}
    at = Bucketed(tmp_path, stack.kafka, server, wanted["prefix"])
    with at.config.open("a") as config:
        config.write(yaml.safe_dump({"load": load_settings(filled)}))
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(filled, "UPDATE shop.many SET v = 5 WHERE a = 1 AND b = 'c'")
        worker.wait(lambda status: status["rows"] > 0)
        plan = planned(tmp_path, "shop.many")
        with at.running() as sink, changing(filled, seed=12, pause=0.3) as stop:
            until(lambda: at.batches() > 0, sink)
            log = load_on(cluster, at, plan)
            assert "shop.many: loaded from 1 source table(s)" in log
            # Each range was read by the executors, and once.
            done = [int(one) for one in re.findall(r"ranges read .* ranges=(\d+)/", log)]
            assert done == sorted(set(done))
            stop()
            end = ask(filled, "SELECT @@GLOBAL.gtid_executed")[0][0].replace("\n", "")
            worker.wait(lambda status: status["cursor"]["gtid_set"] == end)
            os.killpg(sink.pid, signal.SIGTERM)
            sink.communicate(timeout=TIMEOUT)
        assert worker.stop() == 0
    last = at.run("--mode", "available-now")
    assert last.returncode == 0, last.stderr
    there = Counter(ask(filled, "SELECT a, b, v FROM shop.many"))
    assert dumped(at) == there
    keys = server.keys("lake")
    assert any(key.startswith(f"{at.prefix}/shop/many/") for key in keys)
    assert not [key for key in keys if "/__loads/" in key and key.endswith(".parquet")]
