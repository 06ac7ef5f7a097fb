"""TRUNCATE by the setting ``truncates``, as readers that others wrote get it: Flink's of each format."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from app.failpoints import VARIABLE
from app.worker.destination.emptied_tables import PART_ROWS
from connectors.kafka.reading import StoredRecord
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_mysql, own_server
from tests.harness.sql import ask, run
from tests.harness.topics import statements, stored, values
from tests.harness.worker import Worker, running, settings
from tests.integration.process.test_records import command
from tests.schema_registry import RegistryServer, schema_registry
from wire.topics import transactions_topic

PARTITIONS = 8
ROWS = 3 * PART_ROWS
FORMATS = ("debezium", "canal", "maxwell", "avro")
OTHERS = 40
"""Rows of each format but the first."""
MAPPING = """
tables:
  shop.debezium: {format: debezium}
  shop.canal: {format: canal}
  shop.maxwell: {format: maxwell}
  shop.avro: {format: avro}
  shop.kept: {truncates: omit}
  all.orders: {from: ["shop.orders_[01]"], topic: orders}
"""
_FILLED = (
    "INSERT INTO shop.{1} (id, note, price, gone, kind, marks, flag, at, doc, raw, size, ratio, y)"
    " WITH RECURSIVE n AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM n WHERE id < {0})"
    " SELECT id, CONCAT('row ', id), id / 4, id, 1 + id % 3, id % 4, id, '2026-11-21 10:15:00.5' + INTERVAL id"
    """ DAY, CONCAT('{{"a": [', id / 4, ', 1e99, "', CHAR(195, 164 USING utf8mb4), '"]}}'),"""
    " UNHEX(LPAD(HEX(id), 8, 'E4')), id / 3, id / 3, 1901 + id % 200 FROM n"
)
COLUMNS = (
    "id bigint unsigned PRIMARY KEY, note varchar(99), price decimal(12,2), none int, gone int,"
    " kind enum('a','b','it''s'), marks set('x','y'), flag bit(13), at datetime(3), doc json, raw varbinary(9),"
    " size double, ratio float, y year"
)
_ALTERED = "ALTER TABLE shop.{} DROP COLUMN gone, ADD COLUMN gone int DEFAULT 5, RENAME COLUMN note TO noted"
TABLES = (
    "SET GLOBAL cte_max_recursion_depth = 10000",
    "CREATE DATABASE shop",
    *(
        f"CREATE TABLE shop.{name} ({COLUMNS})"
        for name in (*FORMATS, "kept", "orders_0", "orders_1")
    ),
    "CREATE TABLE shop.plain (id int)",
)


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    with own_mysql(stack, *TABLES) as server:
        yield server


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with schema_registry() as server:
        yield server


def test_a_truncate_is_the_deletes_of_its_rows_once_through_kills_in_eight_partitions(
    stack: Stack,
    mysql: Mysql,
    registry: RegistryServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "mapping.yaml").write_text(MAPPING)
    wanted = settings(stack, mysql, tmp_path, truncates="deletes")
    wanted["topics"]["partitions"] = PARTITIONS
    wanted["publish"] = {"max_bytes": 65536}
    wanted["mapping"] = {
        "file": str(tmp_path / "mapping.yaml"),
        "schema_registry": {"url": registry.url},
    }
    prefix = str(wanted["prefix"])
    for name in FORMATS:
        run(
            mysql,
            _FILLED.format(ROWS if name == "debezium" else OTHERS, name),
            f"UPDATE shop.{name} SET none = 7 WHERE id % 3 = 0",
            f"DELETE FROM shop.{name} WHERE id % 5 = 0",
            _ALTERED.format(name),
            f"INSERT INTO shop.{name} (id, noted) VALUES (18446744073709551615, NULL)",
        )
    run(mysql, "INSERT INTO shop.plain VALUES (1)")
    for name in ("kept", "orders_0", "orders_1"):
        run(
            mysql,
            f"INSERT INTO shop.{name} (id, note) VALUES (1, 'a'), (18446744073709551615, NULL)",
        )
    with running(wanted, tmp_path) as worker:
        caught_up(worker, mysql)
        (waits,) = worker.destination()["set_aside"]
        assert "truncates is deletes, and the table has no key" in str(waits)
        assert worker.stop() == 0
    for name in FORMATS:
        run(
            mysql,
            f"TRUNCATE TABLE shop.{name}",
            f"INSERT INTO shop.{name} (id, noted) VALUES (1, 'again'), (3, 'again'), (9999, 'new')",
        )
    run(
        mysql,
        "TRUNCATE shop.kept",
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
        assert "shop.debezium: rows=3 missing=0 extra=0 different=0" in validated.stdout
        assert "shop.avro: rows=3 missing=0 extra=0 different=0" in validated.stdout
        assert "shop.kept: rows=0 missing=0 extra=2 different=0\n" in validated.stdout
        assert "note: no TRUNCATE of it is published" in validated.stdout
        assert worker.stop() == 0
    found = {name: partitions(stack, f"{prefix}.shop.{name}") for name in (*FORMATS, "kept")}
    found["orders"] = partitions(stack, f"{prefix}.orders")
    for name in FORMATS:
        rows = {key(one) for one in ask(mysql, f"SELECT id FROM shop.{name}")}
        topic = [[Published.of(one, name, registry) for one in part] for part in found[name]]
        assert assert_each_partition(topic, name) == rows
    for name in ("kept", "orders"):
        topic = [[Published.of(one, "debezium", registry) for one in part] for part in found[name]]
        assert len(assert_each_partition(topic, "debezium")) == {"kept": 2, "orders": 0}[name]
    for parts in found.values():
        for part in parts:
            numbers = [number(one) for one in part if one.value]
            assert numbers == sorted(numbers)
    assert_numbered(stack, prefix, found)
    assert_parts(stack, prefix, ROWS - ROWS // 5 + 1)


def caught_up(worker: Worker, mysql: Mysql) -> None:
    """Wait until all that the server has committed is published."""
    ((executed,),) = ask(mysql, "SELECT @@gtid_executed")
    worker.wait(lambda status: str((status["cursor"] or {}).get("gtid_set")) == executed)


def key(row: tuple[Any, ...]) -> bytes:
    return b'{"id":%d}' % row[0]


def partitions(stack: Stack, topic: str) -> list[list[StoredRecord]]:
    return stored(stack, topic, partitions=PARTITIONS)


KINDS = {
    # Source: DebeziumJsonDeserializationSchema, CanalJsonDeserializationSchema and
    # MaxwellJsonDeserializationSchema of Apache Flink. Any other kind ends the job.
    "debezium": ("op", {"c": True, "r": True, "u": True, "d": False}),
    "canal": ("type", {"INSERT": True, "UPDATE": True, "DELETE": False}),
    "maxwell": ("type", {"insert": True, "update": True, "delete": False}),
    "avro": ("op", {"c": True, "r": True, "u": True, "d": False}),
}


@dataclass(frozen=True, slots=True)
class Published:
    """A record as a reader of its format has it."""

    key: bytes
    value: dict[str, Any] | None
    transaction: bytes

    @classmethod
    def of(cls, record: StoredRecord, name: str, registry: RegistryServer) -> Published:
        """Read a record by nothing but its format."""
        value = None
        if record.value and name == "avro":
            schema = json.loads(registry.held.schemas[int.from_bytes(record.value[1:5], "big")])
            found = fastavro.schemaless_reader(io.BytesIO(record.value[5:]), schema, None)
            assert isinstance(found, dict)
            value = found
        elif record.value:
            value = json.loads(record.value, parse_float=Decimal)
        change = dict(record.headers).get("change_id", b"")
        return cls(record.key, value, change.rpartition(b"#")[0])

    def image(self, name: str) -> dict[str, Any]:
        """The row that a change states, before a delete and after any other."""
        assert self.value is not None
        if name in ("canal", "maxwell"):
            data = self.value["data"]
            return dict(data[0] if name == "canal" else data)
        image = dict(self.value["before" if self.value["op"] == "d" else "after"])
        for column in self.value.get("absent") or ():
            image.pop(column, None)
        return image


def assert_each_partition(topic: list[list[Published]], name: str) -> set[bytes]:
    """Fold each partition by itself, where an unknown kind ends a reader; return the keys that remain.

    Each key of a TRUNCATE is deleted once, where it had a row, by what an ordinary delete of its last record
    would be: so a reader that subtracts it from sums is left with none of it.
    """
    remaining: set[bytes] = set()
    member, kinds = KINDS[name]
    gone = Counter[tuple[bytes, bytes]]()
    for part in topic:
        rows: dict[bytes, dict[str, Any]] = {}
        usual = [
            one.value for one in part if one.value and is_delete(one, name) and not is_made(one)
        ]
        for one in part:
            if one.value is None:
                continue
            if kinds[one.value[member]]:
                rows[one.key] = one.image(name)
                continue
            was = rows.pop(one.key)
            if is_made(one):
                gone[one.transaction, one.key] += 1
                assert_equal_rows(one.image(name), was)
                for other in usual[:1]:
                    assert shape(one.value) == shape(other)
        remaining |= rows.keys()
    assert set(gone.values()) <= {1}
    return remaining


def assert_equal_rows(image: dict[str, Any], was: dict[str, Any]) -> None:
    """The image of a delete is that of the row's last record, by the columns that there still are."""
    expected = dict(was)
    if "note" in expected and "note" not in image:
        # A column of this name was added later, and is another one.
        del expected["gone"]
        expected["noted"] = expected.pop("note")
    assert image == expected


def is_made(one: Published) -> bool:
    return one.transaction.startswith(b"truncate:")


def is_delete(one: Published, name: str) -> bool:
    member, kinds = KINDS[name]
    return one.value is not None and not kinds[one.value[member]]


def shape(value: dict[str, Any]) -> dict[str, Any]:
    """What all deletes of a table have in common."""
    varying = {"before", "source", "transaction", "ts_ms", "absent", "data", "es", "ts", "id", "gtid", "xid",
               "position", "thread_id", "mysqlType", "sqlType", "server_id"}  # fmt: skip
    return {name: one for name, one in value.items() if name not in varying}


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


def test_a_table_in_memory_that_a_restart_has_emptied_is_truncated(
    stack: Stack, tmp_path: Path
) -> None:
    with own_server("5.7", tmp_path / "server") as old:
        run(
            old,
            "CREATE DATABASE shop",
            "CREATE TABLE shop.fast (id int PRIMARY KEY) ENGINE = MEMORY",
            "CREATE TABLE shop.calm (id int PRIMARY KEY)",
            "INSERT INTO shop.fast VALUES (1), (2)",
        )
        wanted = settings(stack, old, tmp_path)
        wanted["topics"]["partitions"] = 1
        with running(wanted, tmp_path) as worker:
            worker.wait(lambda status: status["rows"] == 2)
            old.kill()
            old.start()
            # The server writes a DELETE, as a statement, before the first change.
            run(old, "INSERT INTO shop.fast VALUES (3)", "INSERT INTO shop.calm VALUES (1)")
            worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 5)
            assert worker.destination()["set_aside"] == []
    found = values(stack, f"{wanted['prefix']}.shop.fast")
    assert [one["op"] for one in found] == ["c", "c", "t", "c"]
