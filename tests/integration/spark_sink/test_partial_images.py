"""Sessions that write partial images, from a real server through worker and Kafka into the warehouse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack import Stack
from tables.rules.routes.routes import Routes
from tests.harness.sql import connected, run
from tests.harness.topics import changes
from tests.harness.worker import running, settings
from tests.integration.worker.source import end_of
from tests.unit.spark_sink.conftest import FORMAT

pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.long("unit/spark_sink/test_partial has the images, without a server"),
]

TABLE = "CREATE TABLE shop.t (id int PRIMARY KEY, a varchar(20), b text, c decimal(9,2), d date)"
PARTITIONS = 3
CHANGES = (
    *(
        f"INSERT INTO shop.t VALUES ({key}, 'a{key}', REPEAT('b', {key}), {key}.25, '2026-01-02')"
        for key in range(1, 21)
    ),
    "UPDATE shop.t SET a = CONCAT(a, 'x') WHERE id % 3 = 0",
    # Each row takes the key of another.
    "UPDATE shop.t SET id = id + 1 ORDER BY id DESC",
    "UPDATE shop.t SET id = id + 100, b = 'moved', d = NULL WHERE id % 2 = 0",
    "SET SESSION binlog_row_image = NOBLOB",
    "UPDATE shop.t SET id = id + 1000 WHERE id % 5 = 0",
    "UPDATE shop.t SET b = NULL WHERE id % 7 = 0",
    "SET SESSION binlog_row_image = MINIMAL",
    "UPDATE shop.t SET id = id - 1 ORDER BY id",
    "DELETE FROM shop.t WHERE id % 4 = 0",
    "UPDATE shop.t SET id = id + 3000, c = 0 WHERE id < 100",
    "INSERT INTO shop.t VALUES (4, 'new', 'new', 1, NULL)",
    "UPDATE shop.t SET a = NULL WHERE id = 4",
)


def test_rows_of_partial_images_are_those_of_the_source(stack: Stack, tmp_path: Path) -> None:
    mysql = stack.second_mysql(f"partial-{tmp_path.name}", {"server_id": 9})
    mysql.start()
    try:
        run(mysql, "CREATE DATABASE shop", TABLE)
        run(mysql, "SET SESSION binlog_row_image = MINIMAL", *CHANGES)
        wanted = settings(stack, mysql, tmp_path, decoders=0)
        wanted["topics"]["partitions"] = PARTITIONS
        with running(wanted, tmp_path) as worker:
            end = end_of(mysql)
            worker.wait(
                lambda status: bool(
                    status["cursor"]
                    and (status["cursor"]["file"], status["cursor"]["pos"]) == (end.file, end.pos)
                )
            )
            assert worker.stop() == 0
        with connected(mysql) as cursor:
            cursor.execute(
                "SELECT id, a, b, CAST(c AS char), CAST(d AS char) FROM shop.t ORDER BY id"
            )
            there = [list(row) for row in cursor.fetchall()]
    finally:
        mysql.kill()
    published = changes(
        stack, Routes(prefix=wanted["prefix"]).topic(("shop", "t")), partitions=PARTITIONS
    )
    assert any(one.value["op"] == "c" and one.value.get("absent") for one in published)
    # Batches of some rows, so that the halves of moves come in several.
    assert held(wanted["prefix"], stack, tmp_path, offsets=40) == there


def held(prefix: str, stack: Stack, folder: Path, *, offsets: int) -> list[list[Any]]:
    """What the warehouse holds of shop.t once a sink has applied all of it."""
    config = folder / "sink.yaml"
    described = {
        "prefix": prefix,
        "bootstrap_servers": stack.kafka,
        "warehouse": str(folder / "wh"),
        "format": FORMAT,
        "max_offsets_per_trigger": offsets,
        "metrics": {"port": 0},
    }
    config.write_text(yaml.safe_dump(described))
    for words in (["--mode", "available-now"], ["dump", str(folder / "dump")]):
        command = [sys.executable, "-m", "spark_sink", "--config", str(config), *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert ended.returncode == 0, ended.stderr
    lines = [json.loads(line) for line in (folder / "dump").read_text().splitlines()]
    rows = [list(one["values"].values()) for one in lines if "values" in one and not one["deleted"]]
    return sorted(rows, key=lambda row: int(row[0]))
