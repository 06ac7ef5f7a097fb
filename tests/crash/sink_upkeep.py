"""The sink's maintenance, killed in each of its steps: nothing is lost or repeated: `make crash SUITE=sink`."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyspark.sql import SparkSession

from devstack import Stack
from spark_sink.views.recent.reading import current
from spark_sink.warehouse.opening import open_warehouse
from tests.crash.sink_killed import STEPS
from tests.crash.sink_scene import sinking
from tests.unit.spark_sink.conftest import FORMAT
from tests.unit.spark_sink.conftest import spark as spark
from tests.unit.spark_sink.history import Change, held, schema

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
PREFIX = "upkeep"
TOPIC = f"{PREFIX}.shop.t"
A_BATCH = 4
CHANGES = 2_000
_TIMEOUT = 1200.0
_OLD_MS = 7_200_000
"""Before now; markers older than an hour are purged."""


def history() -> list[Change]:
    """Rows made, changed, deleted and made again, in batches of four."""
    now, changes = int(time.time() * 1000) - _OLD_MS, []
    for seq in range(1, CHANGES + 1):
        key = (seq // 3) % 40
        image = {"id": key, "v": f"at {seq}"}
        op = ("c", "u", "d")[seq % 3]
        before = None if op == "c" else image
        after = None if op == "d" else image
        changes.append(Change(op=op, seq=seq, before=before, after=after, ts_ms=now + seq))
    return changes


async def write(kafka: str, changes: list[Change]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    await admin.create_topics([NewTopic(name, 1, 1) for name in (TOPIC, f"{PREFIX}.__schemas")])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        version = schema(("id", "int"), ("v", "varchar(20)"))
        await producer.send_and_wait(f"{PREFIX}.__schemas", version.encode(), key=b"t")
        for change in changes:
            await producer.send(TOPIC, change.value().encode(), key=b"k")


def rows(spark: SparkSession, warehouse: Path) -> dict[int, str]:
    """The rows as a reader finds them; a key that is there twice fails."""
    found = current(spark, str(warehouse), "shop", "t").collect()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["v"] for row in found}


def due(changes: list[Change], until: int) -> dict[int, str]:
    """The rows after the changes of the offsets before `until`."""
    return {key: str(row["v"]) for key, row in held(changes[:until]).items()}


async def test_a_kill_in_any_step_of_maintenance_loses_and_repeats_nothing(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    only = os.environ.get("ONLY") or ""
    steps = [step for step in STEPS if only in f"upkeep.{step}"]
    if not steps:
        pytest.skip(f"ONLY={only}")
    seed = int(os.environ.get("SEED") or random.randrange(10**6))
    sys.stderr.write(f"SEED={seed}\n")
    rng, changes, warehouse = random.Random(seed), history(), tmp_path / "wh"
    await write(stack.kafka, changes)
    config = tmp_path / "sink.yaml"
    settings = {
        "prefix": PREFIX,
        "bootstrap_servers": stack.kafka,
        "warehouse": str(warehouse),
        "format": FORMAT,
        "trigger_interval": 0,
        "max_offsets_per_trigger": A_BATCH,
        "metrics": {"port": 0},
        "log": {"file": str(tmp_path / "details.log")},
        "maintenance": {"every": 2, "retention_hours": 0.02, "purge_deleted_hours": 1},
    }
    config.write_text(yaml.safe_dump(settings))
    reached = 0
    rounds = int(os.environ.get("ROUNDS") or 1)
    for step in steps * rounds:
        with sinking(config, step, rng.uniform(0, 0.4)) as sink:
            assert sink.wait(_TIMEOUT) == -signal.SIGKILL, (tmp_path / "sink.log").read_text()
        applied = open_warehouse(spark, str(warehouse)).log.applied()[TOPIC, 0]
        # The table may be a batch further than the ledger, and nothing else.
        found = rows(spark, warehouse)
        assert found in (due(changes, applied), due(changes, applied + A_BATCH)), (step, seed)
        # The ledger is rewritten within a batch, which is applied again then.
        assert applied >= reached, (step, seed)
        reached = applied
    settings |= {"mode": "available-now", "max_offsets_per_trigger": 100_000}
    config.write_text(yaml.safe_dump(settings))
    with sinking(config, "none", 0) as sink:
        assert sink.wait(_TIMEOUT) == 0, (tmp_path / "sink.log").read_text()
    assert rows(spark, warehouse) == due(changes, CHANGES)
    assert open_warehouse(spark, str(warehouse)).log.applied() == {(TOPIC, 0): CHANGES}
