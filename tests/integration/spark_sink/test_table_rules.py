"""Hard deletes and a history, from a real server through worker and Kafka into the warehouse."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from devstack import Stack
from spark_sink.warehouse.history import history
from tables.rules.routes.routes import Routes
from tests.harness.sql import connected, run
from tests.harness.topics import changes
from tests.harness.worker import running, settings
from tests.integration.worker.source import end_of
from tests.unit.spark_sink.conftest import FORMAT, spark

__all__ = ["spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.long("the unit tests of the sink have them without a server"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
PARTITIONS = 3
LAYOUT = {"cluster_by": ["v"]} if FORMAT == "delta" else {}
COLUMNS = "(id int PRIMARY KEY, v varchar(20))"
BEFORE = (
    "CREATE DATABASE shop",
    f"CREATE TABLE shop.t {COLUMNS}",
    f"CREATE TABLE shop.kept {COLUMNS}",
    *(f"INSERT INTO shop.t VALUES ({key}, 'a{key}')" for key in range(1, 31)),
    "INSERT INTO shop.kept SELECT * FROM shop.t",
    "DELETE FROM shop.t WHERE id % 3 = 0",
    "DELETE FROM shop.kept WHERE id % 3 = 0",
)
AFTER = (
    "ALTER TABLE shop.t ADD COLUMN w int DEFAULT 7 COMMENT 'new'",
    "INSERT INTO shop.t VALUES (3, 'again', 1), (200, 'new', NULL)",
    "UPDATE shop.t SET id = id + 1000 WHERE id % 2 = 0",
    "SET SESSION binlog_row_image = MINIMAL",
    "UPDATE shop.t SET w = 8 WHERE id = 1",
    "DELETE FROM shop.t WHERE id > 1010",
    "TRUNCATE TABLE shop.kept",
)


def test_deleted_rows_leave_the_files_and_every_change_is_in_the_history(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    mysql = stack.second_mysql(f"rules-{tmp_path.name}", {"server_id": 9})
    mysql.start()
    try:
        wanted = settings(stack, mysql, tmp_path, decoders=0)
        wanted["topics"]["partitions"] = PARTITIONS
        for statements in (BEFORE, AFTER):
            run(mysql, *statements)
            with running(wanted, tmp_path) as worker:
                end = end_of(mysql)
                worker.wait(
                    lambda status: bool(
                        status["cursor"]
                        and (status["cursor"]["file"], status["cursor"]["pos"])
                        == (end.file, end.pos)  # noqa: B023 - asked before the next round
                    )
                )
                assert worker.stop() == 0
            dumped = applied(wanted["prefix"], stack, tmp_path)
        there = rows_of(mysql, "t")
    finally:
        mysql.kill()
    assert not any(one["deleted"] for one in dumped["t"])
    assert sorted(list(one["values"].values()) for one in dumped["t"]) == there
    # Without the setting, markers stay.
    assert {one["deleted"] for one in dumped["kept"]} == {True}

    published = changes(
        stack, Routes(prefix=wanted["prefix"]).topic(("shop", "t")), partitions=PARTITIONS
    )
    kept = history_of(spark, tmp_path / "wh")
    assert kept == Counter((one.value["op"], one.value["source"]["seq"]) for one in published)
    assert {op for op, _ in kept} == {"c", "u", "d"}


def rows_of(mysql: Any, table: str) -> list[list[Any]]:
    with connected(mysql) as cursor:
        cursor.execute(f"SELECT id, v, w FROM shop.{table} ORDER BY id")
        return sorted(list(row) for row in cursor.fetchall())


def history_of(spark: SparkSession, warehouse: Path) -> Counter[tuple[str, int]]:
    rows = history(spark, str(warehouse), "shop", "t").collect()
    return Counter((row["__op"], row["__seq"]) for row in rows)


def applied(prefix: str, stack: Stack, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows that the warehouse has of each table once a sink has applied all of it, markers too."""
    config = folder / "sink.yaml"
    described = {
        "prefix": prefix,
        "bootstrap_servers": stack.kafka,
        "warehouse": str(folder / "wh"),
        "format": FORMAT,
        "max_offsets_per_trigger": 40,
        "metrics": {"port": 0},
        "tables": [
            {"match": r"shop\.t", "deletes": "hard", "history": True, **LAYOUT},
            {"match": ".*", "deletes": "soft"},
        ],
    }
    config.write_text(yaml.safe_dump(described))
    for words in (["--mode", "available-now"], ["dump", str(folder / "dump")]):
        command = [sys.executable, "-m", "spark_sink", "--config", str(config), *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert ended.returncode == 0, ended.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    table = ""
    for line in map(json.loads, (folder / "dump").read_text().splitlines()):
        if "values" in line:
            found[table].append(line)
        elif "table" in line:
            table = line["table"]
            found[table] = []
    return found
