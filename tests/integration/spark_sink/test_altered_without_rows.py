"""Tables that are altered, and of which no row is written afterwards, from a real server into the warehouse."""

from __future__ import annotations

import base64
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from devstack import Stack
from tests.harness.forked import run_command
from tests.harness.sql import connected, run
from tests.harness.topics import values
from tests.harness.worker import running, settings
from tests.integration.spark_sink.test_ddl import held
from tests.integration.spark_sink.test_new_columns import dumped, text
from tests.integration.worker.source import end_of
from wire.topics import ddl_topic

pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.long(
        "unit/spark_sink/batch/test_new_columns.py has the versions, without a server"
    ),
]

TABLES = ("rounded", "restored", "touched", "log", "grown", "swapped", "other")
FIRST = (
    *(
        f"CREATE TABLE {name} (id int PRIMARY KEY, v decimal(10,2), w varchar(20))"
        for name in TABLES
        if name != "log"
    ),
    "CREATE TABLE log (v decimal(10,2), w varchar(20))",
    *(
        f"INSERT INTO {name} VALUES (1, 10.75, NULL), (2, -0.5, 'abcdef')"
        for name in TABLES
        if name != "log"
    ),
    "INSERT INTO log VALUES (10.75, NULL), (10.75, NULL), (-0.5, 'abcdef')",
)
SECOND = (
    "ALTER TABLE rounded MODIFY v int",
    # A narrower type by mistake, and back: the digits are gone.
    *(
        f"ALTER TABLE {name} MODIFY v {kind}, MODIFY w varchar({length})"
        for name in ("restored", "touched", "log")
        for kind, length in (("int", 3), ("decimal(10,2)", 20))
    ),
    "INSERT INTO touched VALUES (3, 0.25, 'new')",
    "ALTER TABLE grown ADD n int NOT NULL DEFAULT 5, RENAME COLUMN w TO x",
    "RENAME TABLE swapped TO t, other TO swapped, t TO other",
    "ALTER TABLE other MODIFY v int",
    "ALTER TABLE other MODIFY v decimal(10,2)",
    "RENAME TABLE swapped TO t, other TO swapped, t TO other",
)


def test_the_warehouse_has_the_source_s_values_though_no_row_follows(
    stack: Stack, tmp_path: Path
) -> None:
    mysql = stack.second_mysql(f"altered-{tmp_path.name}", {"server_id": 9, "sql_mode": ""})
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
            theirs: dict[str, Counter[str]] = {}
            for table in TABLES:
                cursor.execute(f"SELECT * FROM shop.{table}")
                names = [one[0] for one in cursor.description]
                rows: list[dict[str, Any]] = [
                    dict(zip(names, row, strict=True)) for row in cursor.fetchall()
                ]
                theirs[table] = Counter(text(row) for row in rows)
    finally:
        mysql.kill()
    ours = dumped(tmp_path / "dump")
    assert {name: numbers(rows) for name, rows in ours.items()} == {
        name: numbers(rows) for name, rows in theirs.items()
    }


def test_a_mask_that_comes_later_and_what_waited_in_quarantine_need_no_row_either(
    stack: Stack, tmp_path: Path
) -> None:
    mysql = stack.second_mysql(f"later-{tmp_path.name}", {"server_id": 9, "sql_mode": ""})
    mysql.start()
    try:
        run(
            mysql,
            "CREATE DATABASE shop",
            "USE shop",
            "CREATE TABLE cards (id int PRIMARY KEY, card varchar(20), n int)",
            "INSERT INTO cards VALUES (1, '4012', 1), (2, '5105', 2)",
            "CREATE TABLE waited (id int PRIMARY KEY, v decimal(10,2))",
            "INSERT INTO waited VALUES (1, 10.75), (2, -0.5)",
        )
        wanted = settings(stack, mysql, tmp_path, decoders=0)
        (tmp_path / "keys").write_text(f"k1: {base64.b64encode(bytes(32)).decode()}\n")
        with running(wanted, tmp_path) as worker:
            worker.wait(lambda status: status["rows"] == 4)
            held(wanted["prefix"], stack, tmp_path)
            run(
                mysql,
                "USE shop",
                "SET sql_log_bin = 0",
                "ALTER TABLE waited ADD x int",
                "SET sql_log_bin = 1",
                "INSERT INTO waited VALUES (3, 7.25, 7)",
                # By mistake, and back, before anybody has looked.
                "ALTER TABLE waited MODIFY v int",
                "ALTER TABLE waited MODIFY v decimal(10,2)",
            )
            worker.wait(lambda status: bool(status["set_aside"]))
            given = ("schema", "resolve", "shop", "shop.waited", "--server")
            assert run_command(tmp_path / "aqueduct.yaml", *given).returncode == 0
            worker.wait(lambda status: status["rows"] == 5 and not status["set_aside"])
            assert worker.stop() == 0
        held(wanted["prefix"], stack, tmp_path)
        assert numbers(dumped(tmp_path / "dump")["waited"]) == numbers(
            Counter(
                text({"id": id_, "v": v, "x": x})
                for id_, v, x in ((1, 11, None), (2, -1, None), (3, 7, 7))
            )
        )
        (tmp_path / "mapping.yaml").write_text(
            "tables: {shop.cards: {column_actions: {card: {redact: hidden}}}}"
        )
        wanted["mapping"] = {
            "file": str(tmp_path / "mapping.yaml"), "key_file": str(tmp_path / "keys")
        }  # fmt: skip
        for _ in range(2):
            with running(wanted, tmp_path) as worker:
                worker.wait(lambda status: status["state"] == "RUNNING")
                assert worker.stop() == 0
        held(wanted["prefix"], stack, tmp_path)
    finally:
        mysql.kill()
    assert dumped(tmp_path / "dump")["cards"] == Counter(
        text({"id": n, "card": None, "n": n}) for n in (1, 2)
    )
    said = [
        (one["tables"][0]["table"], one["tables"][0]["version"])
        for one in values(stack, ddl_topic(wanted["prefix"], "shop"))
        if not one["ddl"]
    ]
    assert said == [("waited", 3), ("waited", 4), ("cards", 2)]


def numbers(rows: Counter[str]) -> Counter[str]:
    """The same rows, with numbers whose form does not depend on the digits that their type shows."""
    found: Counter[str] = Counter()
    for row, count in rows.items():
        body = json.loads(row)
        found[text({**body, "v": f"{Decimal(body['v']).normalize():f}"})] += count
    return found
