"""TRUNCATE by the setting ``truncates``, as readers that others wrote get it: Flink's of each format."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.destination.emptied_tables import PART_ROWS
from app.failpoints import VARIABLE
from connectors.kafka.reading.partition_reader import StoredRecord, read_to_end
from connectors.wire import transactions_topic
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, run
from tests.harness.topics import statements, values
from tests.harness.worker import Worker, running, settings
from tests.integration.process.test_records import command

PARTITIONS = 8
ROWS = 3 * PART_ROWS
FORMATS = ("debezium", "canal", "maxwell")
MAPPING = """
tables:
  shop.debezium: {format: debezium}
  shop.canal: {format: canal}
  shop.maxwell: {format: maxwell}
  shop.kept: {truncates: omit}
  all.orders: {from: ["shop.orders_[01]"], topic: orders}
"""
_FILLED = (
    "INSERT INTO shop.debezium WITH RECURSIVE n AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM n"
    " WHERE id < {0}) SELECT id, CONCAT('row ', id), id / 4, NULL FROM n"
)
TABLES = (
    "SET GLOBAL cte_max_recursion_depth = 10000",
    "CREATE DATABASE shop",
    *(
        f"CREATE TABLE shop.{name} (id bigint unsigned PRIMARY KEY, note varchar(99), price decimal(12,2),"
        " none int)"
        for name in (*FORMATS, "kept", "orders_0", "orders_1")
    ),
    "CREATE TABLE shop.plain (id int)",
)


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    with own_mysql(stack, *TABLES) as server:
        yield server


def test_a_truncate_is_the_deletes_of_its_rows_once_through_kills_in_eight_partitions(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mapping.yaml").write_text(MAPPING)
    wanted = settings(stack, mysql, tmp_path, truncates="deletes")
    wanted["topics"]["partitions"] = PARTITIONS
    wanted["publish"] = {"max_bytes": 65536}
    wanted["mapping"] = {"file": str(tmp_path / "mapping.yaml")}
    prefix = str(wanted["prefix"])
    run(mysql, _FILLED.format(ROWS), "UPDATE shop.debezium SET none = 7 WHERE id % 3 = 0")
    run(mysql, "DELETE FROM shop.debezium WHERE id % 5 = 0", "INSERT INTO shop.plain VALUES (1)")
    for name in (*FORMATS[1:], "kept", "orders_0", "orders_1"):
        run(
            mysql,
            f"INSERT INTO shop.{name} VALUES (1, 'a', 1, NULL), (18446744073709551615, NULL, 2.5, 1)",
        )
    with running(wanted, tmp_path) as worker:
        caught_up(worker, mysql)
        (waits,) = worker.destination()["set_aside"]
        assert "truncates is deletes, and the table has no key" in str(waits)
        assert worker.stop() == 0
    alive = ROWS - ROWS // 5
    run(
        mysql,
        "TRUNCATE TABLE shop.debezium",
        "INSERT INTO shop.debezium VALUES (1, 'again', 1, NULL), (9999, 'new', NULL, NULL)",
        "TRUNCATE shop.canal",
        "TRUNCATE shop.maxwell",
        "TRUNCATE shop.kept",
        "INSERT INTO shop.maxwell VALUES (7, 'after', NULL, NULL)",
        "TRUNCATE shop.orders_0",
        "DROP TABLE shop.orders_1",
        "TRUNCATE shop.canal",
        "TRUNCATE shop.plain",
    )
    # The first commit of each run is of what precedes the deletes, the second of a part of them.
    for fault in ("commit.before=kill@2", "commit.after=kill@2"):
        monkeypatch.setenv(VARIABLE, fault)
        with running(wanted, tmp_path) as worker:
            worker.process.wait(150)
    monkeypatch.delenv(VARIABLE)
    with running(wanted, tmp_path) as worker:
        caught_up(worker, mysql)
        replaced = command(tmp_path, "snapshot", "start", "shop", "shop.debezium", "--replace")
        assert replaced.returncode == 0, replaced.stderr
        worker.wait(
            lambda status: status["snapshot"].get("shop.debezium", {}).get("state") == "done"
        )
        audited = command(tmp_path, "audit", "shop")
        assert audited.returncode == 0, audited.stdout + audited.stderr
        assert "lost=0 repeated=0 foreign=0 different=0 untrue=0" in audited.stdout
        assert "shop.kept: TRUNCATEs without a record (truncates: omit): 1" in audited.stdout
        validated = command(tmp_path, "validate", "shop")
        assert "shop.debezium: rows=2 missing=0 extra=0 different=0" in validated.stdout
        assert "shop.kept: rows=0 missing=0 extra=2 different=0\n" in validated.stdout
        assert "note: no TRUNCATE of it is published" in validated.stdout
        assert worker.stop() == 0
    found = {name: partitions(stack, f"{prefix}.shop.{name}") for name in (*FORMATS, "kept")}
    found["orders"] = partitions(stack, f"{prefix}.orders")
    for name in FORMATS:
        rows = {key(one): one for one in ask(mysql, f"SELECT id FROM shop.{name}")}
        assert folded(found[name], name).keys() == rows.keys()
    assert len(folded(found["kept"], "debezium")) == 2
    assert folded(found["orders"], "debezium").keys() == set()
    deletes = [
        json.loads(one.value)
        for part in found["debezium"]
        for one in part
        if one.value and dict(one.headers)["change_id"].startswith(b"truncate:")
    ]
    again = [one for one in deletes if one["transaction"]["id"].startswith("truncate:snapshot:")]
    assert sorted(one["before"]["id"] for one in again) == [1, 9999]
    deletes = [one for one in deletes if one not in again]
    assert len(deletes) == alive
    assert len({one["before"]["id"] for one in deletes}) == alive
    for one in deletes:
        number = one["before"]["id"]
        assert one["before"] == {
            "id": number, "note": f"row {number}", "price": f"{number / 4:.2f}",
            "none": 7 if number % 3 == 0 else None,
        }  # fmt: skip
    assert_numbered(stack, prefix, found)
    assert_parts(stack, prefix, alive)


def caught_up(worker: Worker, mysql: Mysql) -> None:
    """Wait until all that the server has committed is published."""
    ((executed,),) = ask(mysql, "SELECT @@gtid_executed")
    worker.wait(lambda status: str((status["cursor"] or {}).get("gtid_set")) == executed)


def key(row: tuple[Any, ...]) -> bytes:
    return b'{"id":%d}' % row[0]


def partitions(stack: Stack, topic: str) -> list[list[StoredRecord]]:
    options = {"bootstrap_servers": stack.kafka}

    async def read() -> list[list[StoredRecord]]:
        return [await read_to_end(options, topic, n) for n in range(PARTITIONS)]

    return asyncio.run(read())


KINDS = {
    # Source: DebeziumJsonDeserializationSchema, CanalJsonDeserializationSchema and
    # MaxwellJsonDeserializationSchema of Apache Flink. Any other kind ends the job.
    "debezium": ("op", {"c": True, "r": True, "u": True, "d": False}),
    "canal": ("type", {"INSERT": True, "UPDATE": True, "DELETE": False}),
    "maxwell": ("type", {"insert": True, "update": True, "delete": False}),
}


def folded(found: list[list[StoredRecord]], name: str) -> dict[bytes, Any]:
    """The rows of a topic, each partition read by itself; an unknown kind ends it, as a job of Flink's."""
    rows: dict[bytes, Any] = {}
    member, kinds = KINDS[name]
    for part in found:
        for one in part:
            if not one.value:
                continue
            value = json.loads(one.value)
            if kinds[value[member]]:
                rows[one.key] = value
            else:
                assert value["before" if name == "debezium" else "data"]
                rows.pop(one.key, None)
    return rows


def assert_numbered(stack: Stack, prefix: str, found: dict[str, list[list[StoredRecord]]]) -> None:
    """Each number is there once, over all topics."""
    records = [one for parts in found.values() for part in parts for one in part if one.value]
    numbers = Counter(number(one) for one in records)
    numbers.update(one.seq for one in statements(stack, prefix))
    assert set(numbers.values()) == {1}
    assert sorted(numbers) == list(range(1, len(numbers) + 1))


def number(record: StoredRecord) -> int:
    headers = dict(record.headers)
    return (
        int(headers["seq"]) if "seq" in headers else int(json.loads(record.value)["source"]["seq"])
    )


def assert_parts(stack: Stack, prefix: str, alive: int) -> None:
    """The deletes of the large table are one transaction in parts."""
    markers = [
        one
        for one in values(stack, transactions_topic(prefix, "shop"))
        if one["id"].startswith("truncate:")
    ]
    assert {one["id"] for one in markers if one["status"] == "BEGIN"} == {
        one["id"] for one in markers
    }
    begin, *ends = markers
    assert begin["status"] == "BEGIN"
    assert [one["part"] for one in ends] == [1, 2, 3]
    assert [one["last"] for one in ends] == [False, False, True]
    assert sum(one["event_count"] for one in ends) == alive
