"""Columns added, renamed, swapped, dropped and added again, from a real server into the warehouse."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from devstack import Stack
from tests.harness.sql import connected, run
from tests.harness.worker import running, settings
from tests.integration.spark_sink.test_ddl import held
from tests.integration.worker.source import end_of

pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.long(
        "unit/spark_sink/batch/test_new_columns.py has the statements, without a server"
    ),
]

FIRST = (
    "CREATE TABLE t (id int PRIMARY KEY, a varchar(20), b varchar(20)) COMMENT 'rows'",
    "CREATE TABLE log (v int)",
    *(f"INSERT INTO t VALUES ({key}, 'a{key}', 'b{key}')" for key in range(1, 8)),
    "INSERT INTO log VALUES (1), (1), (2)",
)
SECOND = (
    "ALTER TABLE t ADD n int NOT NULL DEFAULT 5, ADD state enum('new','old') NOT NULL",
    "UPDATE t SET n = 6 WHERE id = 1",
    "ALTER TABLE t ADD note varchar(20) DEFAULT 'x'",
    "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    "UPDATE t SET note = NULL WHERE id = 2",
    "ALTER TABLE t DROP note, ADD note varchar(20) DEFAULT 'y' COMMENT 'again'",
    "ALTER TABLE t CHANGE id number int, RENAME COLUMN state TO status",
    "INSERT INTO t (number, a) VALUES (9, 'new')",
    "DELETE FROM t WHERE number = 7",
    "ALTER TABLE log ADD w int DEFAULT 3, RENAME COLUMN v TO u",
    "DELETE FROM log WHERE u = 1 LIMIT 1",
)


def test_the_warehouse_has_the_columns_of_the_source(stack: Stack, tmp_path: Path) -> None:
    mysql = stack.second_mysql(f"columns-{tmp_path.name}", {"server_id": 9})
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
                held(wanted["prefix"], stack, tmp_path)
            assert worker.stop() == 0
        with connected(mysql) as cursor:
            theirs: dict[str, list[dict[str, Any]]] = {}
            for table, columns in (
                ("t", ("number", "a", "b", "n", "status", "note")),
                ("log", ("u", "w")),
            ):
                cursor.execute(f"SELECT {', '.join(columns)} FROM shop.{table}")
                theirs[table] = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
    finally:
        mysql.kill()
    assert dumped(tmp_path / "dump") == {
        table: Counter(text(row) for row in rows) for table, rows in theirs.items()
    }


def dumped(file: Path) -> dict[str, Counter[str]]:
    """How often each table has each row; a table without a key has signed images."""
    found: dict[str, Counter[str]] = {}
    table, columns, is_keyed = "", [], True
    for line in map(json.loads, file.read_text().splitlines()):
        if "columns" in line:
            table, columns, is_keyed = line["table"], line["columns"], bool(line["key"])
            found[table] = Counter()
        elif "values" in line and not line["deleted"]:
            row = dict(zip(columns, line["values"].values(), strict=True))
            found[table][text(row)] += 1 if is_keyed else line["delta"]
    return {name: +rows for name, rows in found.items()}


def text(row: dict[str, Any]) -> str:
    plain = {name: None if one is None else str(one) for name, one in row.items()}
    return json.dumps(plain, sort_keys=True)
