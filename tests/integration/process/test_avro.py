"""Avro with a schema registry: records that a consumer reads by their ids, and a registry that is away."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from connectors.kafka.reading import StoredRecord, read_to_end
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import changes
from tests.harness.worker import running, settings
from tests.integration.process.test_records import command
from tests.schema_registry import RegistryServer, schema_registry

COLUMNS = (
    "(id int unsigned PRIMARY KEY, price decimal(8,2), raw varbinary(9), `at the` datetime(3))"
)
MAPPING = "tables: {shop.orders: {from: [shop.orders], format: avro}}"
ROWS = (
    "INSERT INTO shop.{} VALUES (1, 10, x'00FF', '2026-11-21 10:15:00.5'), (4000000000, NULL, NULL, NULL)",
    "UPDATE shop.{} SET price = 10.50 WHERE id = 1",
    "UPDATE shop.{} SET id = 2 WHERE id = 1",
    "ALTER TABLE shop.{} ADD COLUMN more text",
    "INSERT INTO shop.{} (id, more) VALUES (3, 'new')",
    "DELETE FROM shop.{} WHERE id = 2",
)
TABLES = ("orders", "plain")


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, with one table in Avro and an equal one in JSON."""
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        *(f"CREATE TABLE shop.{name} {COLUMNS}" for name in TABLES),
    ) as server:
        yield server


@pytest.mark.remedy("SchemaRegistryLost", "SchemaRegistryDenied")
def test_records_are_read_by_the_registry_alone_and_wait_while_it_is_away(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    (tmp_path / "mapping.yaml").write_text(MAPPING)
    (tmp_path / "password").write_text("another\n")
    wanted = settings(stack, mysql, tmp_path)
    wanted["topics"]["partitions"] = 1
    for statement in ROWS:
        for name in TABLES:
            run(mysql, statement.format(name))
    account = ("worker", "secret-of-the-registry")
    with schema_registry(account=account, failing=2) as registry:
        access = {
            "url": registry.url,
            "username": "worker",
            "password_file": str(tmp_path / "password"),
        }
        wanted["mapping"] = {"file": str(tmp_path / "mapping.yaml"), "schema_registry": access}
        with running(wanted, tmp_path) as worker:
            worker.wait(lambda status: "SchemaRegistryDenied: " in str(status["error"]))
            (tmp_path / "password").write_text(f"{account[1]}\n")
            worker.wait(lambda status: status["rows"] == 2 * 6)
            assert "SchemaRegistryLost" in worker.log
            audited = command(tmp_path, "audit", "shop")
            assert audited.returncode == 0, audited.stdout + audited.stderr
            assert "records in the format avro: 7" in audited.stdout
            run(mysql, "TRUNCATE TABLE shop.orders", "TRUNCATE TABLE shop.plain")
            worker.wait(lambda status: status["rows"] == 2 * 7)
            assert account[1] not in worker.log + worker.get("/status")
            assert worker.stop() == 0
        assert_same(stack, str(wanted["prefix"]), registry)


def assert_same(stack: Stack, prefix: str, registry: RegistryServer) -> None:
    """The records in Avro are those of the table in JSON, typed."""
    plain = changes(stack, f"{prefix}.shop.plain")
    topic = f"{prefix}.shop.orders"
    raw = asyncio.run(read_to_end({"bootstrap_servers": stack.kafka}, topic, 0))
    own = [read(registry, one) for one in raw if one.value]
    assert [one["op"] for one in own] == [one.value["op"] for one in plain] == [*"ccudccd", "t"]
    for one, other in zip(own, plain, strict=True):
        for image in ("before", "after"):
            assert one.get(image) == typed(other.value[image])
        assert one["source"]["table"] == "orders"
        assert one["source"]["schema"] == other.value["source"]["schema"]
    assert [dict(one.headers)["seq"] for one in raw if one.value] == [
        b"%d" % one["source"]["seq"] for one in own
    ]
    deleted = [one.key for one in raw if not one.value]
    assert list(map(json.loads, deleted)) == [{"id": 1}, {"id": 2}]
    subjects = {name: len(found) for name, found in registry.held.subjects.items()}
    assert subjects == {f"{topic}-value": 2, f"{topic}-shop.orders.Truncation": 1}


def typed(image: dict[str, Any] | None) -> dict[str, Any] | None:
    if image is None:
        return None
    found = {**image, "at_the": image["at the"]}
    del found["at the"]
    found["price"] = None if found["price"] is None else Decimal(found["price"])
    found["raw"] = None if found["raw"] is None else b"\x00\xff"
    return found


def read(registry: RegistryServer, record: StoredRecord) -> dict[str, Any]:
    schema = json.loads(registry.held.schemas[int.from_bytes(record.value[1:5], "big")])
    found = fastavro.schemaless_reader(io.BytesIO(record.value[5:]), schema, None)
    assert isinstance(found, dict)
    return found
