"""Tables dropped, created again, renamed and swapped, from a real server into the warehouse."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.sql import connected, run
from tests.harness.worker import running, settings
from tests.integration.worker.source import end_of
from tests.unit.spark_sink.conftest import FORMAT

pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.long(
        "unit/spark_sink/batch/drops_and_renames/test_following.py has the statements, without a server"
    ),
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


LOADED = (
    "CREATE TABLE orders (id int PRIMARY KEY, v varchar(20))",
    "CREATE TABLE orders_load (id int PRIMARY KEY, v varchar(20))",
    "CREATE TABLE again (id int PRIMARY KEY, v varchar(20))",
    "CREATE TABLE amounts (id int PRIMARY KEY, v decimal(10,2))",
    "CREATE TABLE texts (id int PRIMARY KEY, v varchar(20))",
    "CREATE TABLE log (a int, v varchar(20), c int)",
    (
        "CREATE TABLE parts (id int PRIMARY KEY, v varchar(20)) PARTITION BY RANGE (id) "
        "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)"
    ),
    *(f"INSERT INTO orders VALUES ({key}, 'old')" for key in range(1, 4)),
    (
        "INSERT INTO orders_load WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 900) SELECT i, 'loaded' FROM n"
    ),
    *(f"INSERT INTO again VALUES ({key}, 'old')" for key in range(1, 9)),
    "INSERT INTO amounts VALUES (1, 10.75), (2, -0.5), (3, NULL)",
    "INSERT INTO texts VALUES (1, '7 apples'), (2, '12')",
    "INSERT INTO log VALUES (1, 'x', 1), (2, 'y', 2), (2, 'y', 3)",
    "INSERT INTO parts VALUES (1, 'p0'), (2, 'p0'), (11, 'p1')",
)
CHANGED = (
    "RENAME TABLE orders TO orders_old, orders_load TO orders",
    "INSERT INTO orders VALUES (1001, 'new'), (1002, 'new')",
    "UPDATE orders SET v = 'updated' WHERE id = 7",
    "DELETE FROM orders WHERE id = 8",
    "DROP TABLE again",
    "CREATE TABLE again (id int PRIMARY KEY, v varchar(20))",
    "INSERT INTO again VALUES (100, 'new')",
    "ALTER TABLE amounts MODIFY v int",
    "INSERT INTO amounts VALUES (4, 4)",
    "SET sql_mode = ''",
    "ALTER TABLE texts MODIFY v int",
    "INSERT INTO texts VALUES (3, 3)",
    "ALTER TABLE log DROP COLUMN c, MODIFY v char(1)",
    "DELETE FROM log WHERE a = 1",
    "UPDATE log SET v = 'z' WHERE a = 2 LIMIT 1",
    "ALTER TABLE parts DROP PARTITION p0",
    "INSERT INTO parts VALUES (12, 'p1')",
)
TABLES = ("again", "amounts", "log", "orders", "orders_old", "parts", "texts")


@pytest.mark.remedy("sink.ValuesChanged")
@pytest.mark.parametrize("mode", ["never", "initial"])
def test_rows_that_no_topic_has_come_by_the_commands_that_status_prints(
    stack: Stack, tmp_path: Path, mode: str
) -> None:
    mysql = stack.second_mysql(f"unlogged-{tmp_path.name}", {"server_id": 9})
    mysql.start()
    try:
        run(mysql, "CREATE DATABASE shop", "USE shop", *LOADED)
        wanted = settings(
            stack,
            mysql,
            tmp_path,
            decoders=0,
            filter={"include": r"shop\..*", "black": r"shop\.orders_load"},
            snapshot={"mode": mode},
        )
        if mode == "initial":
            wanted["destinations"]["shop"].pop("start")
        config = sink_settings(wanted["prefix"], stack, tmp_path)
        with running(wanted, tmp_path) as worker:
            worker.wait(lambda status: settled(status, set(TABLES) - {"orders_old"}, mode))
            assert sink(config, "--mode", "available-now").returncode == 0
            run(mysql, "USE shop", *CHANGED)
            worker.wait(lambda status: at_end(status, mysql))
            if mode == "initial":
                worker.wait(lambda status: settled(status, {"orders"}, mode, rows=900))
            else:
                error = worker.destination()["snapshot"]["shop.orders"]["error"]
                assert "renamed from shop.orders_load, which is not captured" in error
            # Of one table the values are known to the source alone, which the reload finds.
            assert sink(config, "--mode", "available-now").returncode == 1
            printed = sink(config, "status").stdout
            assert re.findall(r"python -m spark_sink (reload .*)", printed) == ["reload shop.texts"]
            sink(config, "reload", "shop.texts", "--timeout", "1")
            assert sink(config, "--mode", "available-now").returncode == 1
            printed = sink(config, "status").stdout
            commands = set(
                re.findall(r"python -m app (snapshot start shop (\S+) --replace)", printed)
            )
            named = {"shop.parts", "shop.texts"} | ({"shop.orders"} if mode == "never" else set())
            assert {table for _, table in commands} == named, printed
            assert "ValuesChanged" in printed
            for command, _ in sorted(commands):
                said = run_command(tmp_path / "aqueduct.yaml", *command.split())
                assert said.returncode == 0, said.stderr
            worker.wait(lambda status: settled(status, {t.split(".")[1] for t in named}, "initial"))
            sink(config, "reload", "shop.texts", "--timeout", "1")
            for words in (["--mode", "available-now"], ["dump", str(tmp_path / "dump")]):
                ended = sink(config, *words)
                assert ended.returncode == 0, ended.stderr
            assert worker.stop() == 0
        with connected(mysql) as cursor:
            there = {}
            for table in TABLES:
                cursor.execute(f"SELECT * FROM shop.{table}")
                there[table] = sorted([*map(text_of, row)] for row in cursor.fetchall())
    finally:
        mysql.kill()
    found = dumped(tmp_path)
    (aside,) = [name for name in found if name.startswith("again__dropped_")]
    assert len(found.pop(aside)) == 8
    # A column that was dropped stays, and is NULL.
    found["log"] = images(tmp_path, "log")
    found["amounts"] = [[key, v and str(int(float(v)))] for key, v in found["amounts"]]
    assert found == there
    status = sink(config, "status").stdout
    assert "WAITING" not in status
    assert "snapshot start" not in status


MAPPING = """
databases: {trade: {from: [shop]}}
tables:
  shop.clients: {topic: accounts}
  trade.items: {from: ['items_[0-9]+']}
"""
MAPPED = (
    *(
        f"CREATE TABLE {name} (id int PRIMARY KEY, v varchar(20))"
        for name in ("items_1", "items_2", "items_3", "plain_load", "clients")
    ),
    "ALTER TABLE clients ADD mail varchar(20)",
    *(f"INSERT INTO items_{shard} VALUES (1, 's{shard}'), (2, 's{shard}')" for shard in (1, 2, 3)),
    "INSERT INTO plain_load VALUES (7, 'loaded')",
    *(f"INSERT INTO clients VALUES ({key}, 'p', 'm')" for key in range(40)),
)
OF_MAPPED = (
    "DROP TABLE clients",
    "CREATE TABLE clients (id int PRIMARY KEY, v varchar(20), mail varchar(20))",
    "INSERT INTO clients VALUES (1, 'new', 'm'), (99, 'new', 'm')",
    "UPDATE items_1 SET v = 'before' WHERE id = 1",
    "RENAME TABLE items_1 TO items_8, items_2 TO items_1",
    "UPDATE items_8 SET v = 'after' WHERE id = 2",
    "RENAME TABLE items_3 TO gone_load, plain_load TO items_3",
    "UPDATE items_3 SET v = 'came' WHERE id = 7",
)


@pytest.mark.parametrize("mode", ["never", "initial"])
def test_the_warehouse_has_the_rows_of_mapped_tables_after_each_drop_and_rename(
    stack: Stack, tmp_path: Path, mode: str
) -> None:
    """A topic of its own alone, and shards of a logical table, of which one takes the name of another."""
    mysql = stack.second_mysql(f"mapped-{tmp_path.name}", {"server_id": 9})
    mysql.start()
    try:
        run(mysql, "CREATE DATABASE shop")
        if mode == "initial":
            run(mysql, "USE shop", *MAPPED)
        (tmp_path / "mapping.yaml").write_text(MAPPING)
        wanted = settings(
            stack,
            mysql,
            tmp_path,
            decoders=0,
            filter={"include": r"shop\..*", "black": r"shop\..*_load"},
            snapshot={"mode": mode},
        )
        wanted["mapping"] = {"file": str(tmp_path / "mapping.yaml")}
        if mode == "initial":
            wanted["destinations"]["shop"].pop("start")
        config = sink_settings(wanted["prefix"], stack, tmp_path)
        with running(wanted, tmp_path) as worker:
            worker.wait(lambda status: status["state"] == "RUNNING")
            if mode == "never":
                run(mysql, "USE shop", *MAPPED)
            there = {"items_1", "items_2", "items_3", "clients"}
            worker.wait(lambda status: at_end(status, mysql) and settled(status, there, mode))
            assert sink(config, "--mode", "available-now").returncode == 0
            run(mysql, "USE shop", *OF_MAPPED)
            worker.wait(lambda status: at_end(status, mysql))
            # Their rows were published under their old names: they are read again by themselves.
            worker.wait(lambda status: settled(status, {"items_8", "items_1"}, "initial", rows=2))
            printed = ""
            if mode == "never":
                error = worker.destination()["snapshot"]["shop.items_3"]["error"]
                assert "renamed from shop.plain_load, which is not captured" in error
                assert sink(config, "--mode", "available-now").returncode == 0
                printed = sink(config, "status").stdout
                command = "snapshot start shop shop.items_3 --replace"
                assert f"python -m app {command}" in printed
                said = run_command(tmp_path / "aqueduct.yaml", *command.split())
                assert said.returncode == 0, said.stderr
            worker.wait(lambda status: settled(status, {"items_3"}, "initial", rows=1))
            for words in (["--mode", "available-now"], ["dump", str(tmp_path / "dump")]):
                ended = sink(config, *words)
                assert ended.returncode == 0, ended.stderr
            assert worker.stop() == 0
        with connected(mysql) as cursor:
            wanted_rows = []
            for shard in (1, 3, 8):
                cursor.execute(f"SELECT * FROM shop.items_{shard}")
                wanted_rows += [[*map(text_of, row)] for row in cursor.fetchall()]
    finally:
        mysql.kill()
    found = dumped(tmp_path)
    assert found["items"] == sorted(wanted_rows)
    assert found["clients"] == [["1", "new", "m"], ["99", "new", "m"]]
    status = sink(config, "status").stdout
    assert "snapshot start" not in status
    assert "WAITING" not in status


def text_of(value: Any) -> str | None:
    return None if value is None else str(value)


def at_end(status: dict[str, Any], mysql: Mysql) -> bool:
    """Whether all that the server has written is published."""
    end, cursor = end_of(mysql), status["cursor"]
    return bool(cursor) and (cursor["file"], cursor["pos"]) == (end.file, end.pos)


def settled(status: dict[str, Any], tables: set[str], mode: str, *, rows: int = 0) -> bool:
    """Whether the existing rows of tables are published, if they are to be."""
    if mode == "never":
        return status["state"] == "RUNNING" and bool(status["cursor"])
    read = status.get("snapshot") or {}
    return all(
        (one := read.get(f"shop.{table}")) is not None
        and one["state"] == "done"
        and one["rows"] >= rows
        for table in tables
    )


def images(folder: Path, table: str) -> list[list[str]]:
    """The rows of a table without a key, each as often as its images make it."""
    found: Counter[tuple[str, ...]] = Counter()
    name = ""
    for line in map(json.loads, (folder / "dump").read_text().splitlines()):
        if "columns" in line:
            name, columns = line["table"], line["columns"]
        elif "values" in line and name == table:
            row = dict(zip(columns, line["values"].values(), strict=True))
            assert row.pop("c", None) is None
            found[tuple(map(str, row.values()))] += line["delta"]
    assert min(found.values()) >= 0
    return sorted([*row] for row in found.elements())


def held(prefix: str, stack: Stack, folder: Path) -> dict[str, list[list[Any]]]:
    """The rows of each table of the warehouse once a sink has applied all of Kafka."""
    config = sink_settings(prefix, stack, folder, on_drop="drop")
    for words in (["--mode", "available-now"], ["dump", str(folder / "dump")]):
        ended = sink(config, *words)
        assert ended.returncode == 0, ended.stderr
    return dumped(folder)


def sink_settings(prefix: str, stack: Stack, folder: Path, **more: Any) -> Path:
    """A sink's settings in a file."""
    described = {
        "prefix": prefix,
        "bootstrap_servers": stack.kafka,
        "warehouse": str(folder / "wh"),
        "format": FORMAT,
        "max_offsets_per_trigger": 40,
        "metrics": {"port": 0},
        **more,
    }
    config = folder / "sink.yaml"
    config.write_text(yaml.safe_dump(described))
    return config


def sink(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The sink's program with these words, run to its end."""
    command = [sys.executable, "-m", "spark_sink", "--config", str(config), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)


def dumped(folder: Path) -> dict[str, list[list[Any]]]:
    """The rows of each table in the dump."""
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
