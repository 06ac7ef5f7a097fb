"""Canal's and Maxwell's formats beside the envelope in one worker: records, audit, client, table versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aqueduct_client import Earliest, subscribe
from aqueduct_client.errors import ForeignFormat
from connectors.kafka.reading import StoredRecord
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import statements, stored, values
from tests.harness.worker import running, settings
from tests.integration.process.test_records import command
from wire.topics import schemas_topic

FORMATS = ("canal", "maxwell", "debezium")
CANARY = "CanaryBird"
MAPPING = """
databases:
  shop: {format: canal}
tables:
""" + "\n".join(
    f"  shop.{name}: {{columns: [id, price, state, flags, at, doc, secret], column_actions: {{secret: redact}},"
    f" tags: {{state: state}}, format: {name}}}"
    for name in FORMATS
)
COLUMNS = (
    "(id int unsigned PRIMARY KEY, price decimal(8,2), state enum('new','paid'), flags set('a','b','c'),"
    " at datetime(3), doc json, secret varchar(99), hidden varchar(99))"
)
FIRST = (
    f"(1, 10, 'new', 'a,c', '2026-11-21 10:15:00.5', JSON_OBJECT('a', 1), '{CANARY}', '{CANARY}')"
)
ROWS = (
    f"INSERT INTO {{0}} VALUES {FIRST}, (4000000000, NULL, NULL, '', NULL, NULL, NULL, '{CANARY}')",
    "UPDATE {0} SET price = 10.50, state = 'paid' WHERE id = 1",
    f"UPDATE {{0}} SET secret = 'other {CANARY}', hidden = NULL WHERE id = 1",
    "UPDATE {0} SET id = 2 WHERE id = 1",
    "DELETE FROM {0} WHERE id = 2",
)
SQL_TYPE = {"id": 4, "price": 3, "state": 4, "flags": -7, "at": 93, "doc": 12, "secret": 12}
TEXTS = {
    "id": "1", "price": "10.00", "state": "1", "flags": "5", "at": "2026-11-21 10:15:00.500",
    "doc": '{"a": 1}', "secret": None,
}  # fmt: skip
NULLS = {**dict.fromkeys(TEXTS), "id": "4000000000", "flags": "0"}
PAID = {**TEXTS, "price": "10.50", "state": "2"}
CANAL: list[tuple[str, int, Any, Any]] = [
    ("INSERT", 4, TEXTS, None),
    ("INSERT", -5, NULLS, None),
    ("UPDATE", 4, PAID, [{"price": "10.00", "state": "1"}]),
    ("UPDATE", 4, PAID, [{}]),
    ("DELETE", 4, PAID, None),
    ("INSERT", 4, {**PAID, "id": "2"}, None),
    ("DELETE", 4, {**PAID, "id": "2"}, None),
]
"""Type, JDBC type of the key, data and old."""
TYPED = {
    "id": 1, "price": 10, "state": "new", "flags": ["a", "c"], "at": "2026-11-21 10:15:00.500", "doc": {"a": 1},
    "secret": None,
}  # fmt: skip
TYPED_PAID = {**TYPED, "price": 10.5, "state": "paid"}
MAXWELL: list[tuple[str, Any, Any]] = [
    ("insert", TYPED, None),
    ("insert", {**dict.fromkeys(TYPED), "id": 4000000000, "flags": []}, None),
    ("update", TYPED_PAID, {"price": 10, "state": "new"}),
    ("update", TYPED_PAID, None),
    ("delete", TYPED_PAID, None),
    ("insert", {**TYPED_PAID, "id": 2}, None),
    ("delete", {**TYPED_PAID, "id": 2}, None),
]
COUNT = len(CANAL)


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, with one table for each format."""
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        *(f"CREATE TABLE shop.{name} {COLUMNS}" for name in FORMATS),
        "CREATE TABLE shop.plain (id int PRIMARY KEY)",
    ) as server:
        yield server


def test_each_table_has_its_format_and_all_else_stays_as_it_is(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    (tmp_path / "mapping.yaml").write_text(MAPPING)
    (tmp_path / "keys").write_text(f"k1: {'QUFB' * 11}\n")
    wanted = settings(stack, mysql, tmp_path)
    wanted["topics"]["partitions"] = 1
    wanted["mapping"] = {"file": str(tmp_path / "mapping.yaml"), "key_file": str(tmp_path / "keys")}
    for statement in ROWS:
        for name in FORMATS:
            run(mysql, statement.format(f"shop.{name}"))
    run(mysql, "INSERT INTO shop.plain VALUES (7)", "TRUNCATE TABLE shop.canal")
    prefix = str(wanted["prefix"])
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 3 * (COUNT - 1) + 2)
        audited = command(tmp_path, "audit", "shop")
        assert audited.returncode == 0, audited.stdout + audited.stderr
        for name, count in (("canal", COUNT + 2), ("maxwell", COUNT)):
            what = (
                f"not judged: values, keys and partitions of records in the format {name}: {count}"
            )
            assert what in audited.stdout
        assert "lost=0 repeated=0 foreign=0 different=0" in audited.stdout
        assert worker.stop() == 0
    run(mysql, "INSERT INTO shop.plain VALUES (8)", "INSERT INTO shop.maxwell (id) VALUES (9)")
    with running(wanted, tmp_path) as worker:
        # It compares its cursor with the newest records, which are in these formats.
        worker.wait(lambda status: status["rows"] == 2)
        audited = command(tmp_path, "audit", "shop")
        assert audited.returncode == 0, audited.stdout + audited.stderr
        assert worker.stop() == 0
    found = {name: records(stack, f"{prefix}.shop.{name}") for name in (*FORMATS, "plain")}
    assert_canal(found["canal"])
    *most, after = found["maxwell"]
    assert_maxwell(most)
    assert json.loads(after.value)["data"]["id"] == 9
    assert_numbered(found, [one.seq for one in statements(stack, prefix)])
    assert [json.loads(one.value)["data"] for one in found["plain"]] == [
        [{"id": "7"}],
        [{"id": "8"}],
    ]
    assert {
        one["table"]: one.get("record_format") for one in values(stack, schemas_topic(prefix))
    } == {
        "canal": "canal",
        "maxwell": "maxwell",
        "debezium": None,
        "plain": "canal",
    }
    raw = b"".join(one.key + one.value for each in found.values() for one in each)
    assert CANARY.encode() not in raw
    assert_refused(stack, prefix)


def records(stack: Stack, topic: str) -> list[StoredRecord]:
    return stored(stack, topic)[0]


def assert_canal(found: list[StoredRecord]) -> None:
    *rows, truncate = [json.loads(one.value) for one in found]
    assert [
        (one["type"], one["sqlType"]["id"], one["data"][0], one["old"]) for one in rows
    ] == CANAL
    for one in rows:
        assert (one["database"], one["table"], one["pkNames"]) == ("shop", "canal", ["id"])
        assert one["sqlType"] == {**SQL_TYPE, "id": one["sqlType"]["id"]}
        assert one["mysqlType"]["state"] == "enum('new','paid')"
        assert (one["isDdl"], one["sql"]) == (False, "")
    assert (truncate["type"], truncate["isDdl"], truncate["data"]) == ("TRUNCATE", True, None)
    assert truncate["sql"] == "TRUNCATE TABLE `canal`"
    assert [json.loads(one.key or b"null") for one in found] == [
        {"id": number} if number else None for number in (1, 4000000000, 1, 1, 1, 2, 2, 0)
    ]


def assert_maxwell(found: list[StoredRecord]) -> None:
    rows = [json.loads(one.value) for one in found]
    assert [(one["type"], one["data"], one.get("old")) for one in rows] == MAXWELL
    assert all((one["database"], one["table"]) == ("shop", "maxwell") for one in rows)
    assert b'"price":10.50' in found[2].value
    assert len({one["xid"] for one in rows}) == len(ROWS)
    seconds = [int(dict(one.headers)["ts_ms"]) // 1000 for one in found]
    assert [one["ts"] for one in rows] == seconds


def assert_numbered(found: dict[str, list[StoredRecord]], numbers: list[int]) -> None:
    """Headers as those of envelopes; ``numbers`` has the statements', so that there is no gap."""
    epochs = set()
    for name, topic in found.items():
        for one in filter(lambda one: one.value, topic):
            headers = dict(one.headers)
            if name == "debezium":
                source = json.loads(one.value)["source"]
                numbers.append(source["seq"])
                epochs.add(source["epoch"])
                continue
            assert headers["format"] == (b"canal" if name == "plain" else name.encode())
            assert headers["destination"] == b"shop"
            numbers.append(int(headers["seq"]))
            epochs.add(int(headers["epoch"]))
    assert len(epochs) == 2
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    tags = {
        name: [dict(one.headers).get("tags") for one in found[name] if one.value]
        for name in ("debezium", "canal", "maxwell")
    }
    assert tags["maxwell"][:COUNT] == tags["debezium"]
    assert tags["canal"][:COUNT] == tags["debezium"]
    key_change = [dict(one.headers) for one in found["canal"][4:6]]
    assert (key_change[0]["__debezium.newkey"], key_change[1]["__debezium.oldkey"]) == (
        b'{"id":2}',
        b'{"id":1}',
    )


def assert_refused(stack: Stack, prefix: str) -> None:
    """The client delivers no record that it cannot read, and names the format."""
    for name in ("canal", "maxwell"):
        with (
            subscribe(
                f"shop.{name}",
                group=f"{prefix}.{name}",
                brokers=stack.kafka,
                prefix=prefix,
                start=Earliest(),
                session_seconds=6,
            ) as subscriber,
            pytest.raises(ForeignFormat, match=f"in the format {name} .*remove format"),
        ):
            subscriber.get(timeout=20)
