"""Tables dropped, created again, renamed and swapped, from a real server into the warehouse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack import Stack
from tests.harness.sql import connected, run
from tests.harness.worker import running, settings
from tests.integration.worker.source import end_of
from tests.unit.spark_sink.conftest import FORMAT

pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.long("unit/spark_sink/ddl/test_following.py has the statements, without a server"),
]

FIRST = (
    "CREATE TABLE a (id int PRIMARY KEY, v varchar(20))",
    "CREATE TABLE b (id int PRIMARY KEY, v varchar(20))",
    "CREATE TABLE gone (id int PRIMARY KEY, v varchar(20))",
    *(f"INSERT INTO a VALUES ({key}, 'a{key}')" for key in range(1, 8)),
    *(f"INSERT INTO b VALUES ({key}, 'b{key}')" for key in range(1, 5)),
    "INSERT INTO gone VALUES (1, 'gone')",
)
SECOND = (
    "UPDATE a SET v = 'before the swap' WHERE id = 2",
    "RENAME TABLE a TO t, b TO a, t TO b",
    "UPDATE a SET v = 'after the swap' WHERE id = 1",
    "DELETE FROM b WHERE id = 7",
    "ALTER TABLE b RENAME TO c",
    "CREATE TABLE b (number int PRIMARY KEY, v varchar(20), w bigint)",
    "INSERT INTO b VALUES (1, 'new', 1)",
    "DROP TABLE gone",
    "CREATE TABLE gone (v varchar(20) PRIMARY KEY, id int)",
    "INSERT INTO gone VALUES ('again', 1)",
    "TRUNCATE TABLE a",
    "INSERT INTO a VALUES (9, 'after the truncate')",
)
THERE = {
    "a": [["9", "after the truncate"]],
    "b": [["1", "new", "1"]],
    "gone": [["again", "1"]],
}


def test_the_warehouse_has_the_tables_of_the_source(stack: Stack, tmp_path: Path) -> None:
    mysql = stack.second_mysql(f"ddl-{tmp_path.name}", {"server_id": 9})
    mysql.start()
    try:
        run(mysql, "CREATE DATABASE shop", "USE shop", *FIRST)
        wanted = settings(stack, mysql, tmp_path, decoders=0)
        with running(wanted, tmp_path) as worker:
            for statements in ((), SECOND):
                run(mysql, "USE shop", *statements)
                end = end_of(mysql)
                worker.wait(
                    lambda status, end=end: bool(  # type: ignore[misc]
                        status["cursor"]
                        and (status["cursor"]["file"], status["cursor"]["pos"])
                        == (end.file, end.pos)
                    )
                )
                found = held(wanted["prefix"], stack, tmp_path)
            assert worker.stop() == 0
        with connected(mysql) as cursor:
            cursor.execute("SELECT CAST(id AS char), v FROM shop.c ORDER BY id")
            renamed = [list(row) for row in cursor.fetchall()]
    finally:
        mysql.kill()
    assert len(renamed) == 6
    assert found == {**THERE, "c": renamed}


def held(prefix: str, stack: Stack, folder: Path) -> dict[str, list[list[Any]]]:
    """The rows of each table of the warehouse once a sink has applied all of Kafka."""
    config = folder / "sink.yaml"
    described = {
        "prefix": prefix,
        "bootstrap_servers": stack.kafka,
        "warehouse": str(folder / "wh"),
        "format": FORMAT,
        "on_drop": "drop",
        "max_offsets_per_trigger": 40,
        "metrics": {"port": 0},
    }
    config.write_text(yaml.safe_dump(described))
    for words in (["--mode", "available-now"], ["dump", str(folder / "dump")]):
        command = [sys.executable, "-m", "spark_sink", "--config", str(config), *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert ended.returncode == 0, ended.stderr
    found: dict[str, list[list[Any]]] = {}
    table = ""
    for line in map(json.loads, (folder / "dump").read_text().splitlines()):
        if "columns" in line:
            table = line["table"]
            found[table] = []
        elif "values" in line and not line["deleted"]:
            found[table].append(
                [None if one is None else str(one) for one in line["values"].values()]
            )
    return {name: sorted(rows) for name, rows in found.items()}
