"""`python -m app validate` of topics in other formats than the envelope, while rows are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.worker import running
from tests.integration.validation.shop import KINDS, changing, filled, unlogged, wanted_settings
from tests.integration.validation.test_repair import repaired
from tests.integration.validation.test_validate import (
    KEYED,
    Results,
    assert_found,
    findings,
    is_done,
    plant,
    validated,
)
from tests.schema_registry import RegistryServer, schema_registry

MAPPING = """
tables:
  trade.orders: {from: ['shop.orders_[0-9]'], topic: trade, shard_in_key: always, format: canal}
  many: {from: [shop.many], format: maxwell}
  empty: {from: [shop.empty], format: maxwell}
  customers:
    from: [shop.customers]
    format: avro
    row_filter: id <> 3 AND plain <> 'hidden'
    column_actions: {email: {hmac: k1}, card: {truncate: 2}, gone: drop, plain: {rename: shown}}
  inserts: {from: [shop.inserts], operations: [insert], format: canal}
  plain: {from: [shop.plain], format: canal}
  kinds: {from: [shop.kinds], format: canal}
  kinds_maxwell: {from: [shop.kinds_maxwell], format: maxwell}
  kinds_avro: {from: [shop.kinds_avro], format: avro}
  trade.shared: {from: ['shop.shared_[0-9]'], topic: shared, shard_in_key: never, format: maxwell}
"""
OTHERS = ("kinds_maxwell", "kinds_avro")
COMPARED = (*KEYED, *(f"shop.{name}" for name in OTHERS))
SHARED = "records in the format maxwell do not name the real table (shard_in_key: never)"


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    with own_mysql(stack, options={"server_id": 9}) as server:
        filled(server)
        for name in OTHERS:
            run(server, f"CREATE TABLE shop.{name} LIKE shop.kinds")
            run(server, "SET sql_mode = ''", f"INSERT INTO shop.{name} SELECT * FROM shop.kinds")
        run(server, *(f"CREATE TABLE shop.shared_{n} (id int PRIMARY KEY)" for n in (1, 2)))
        yield server


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with schema_registry() as server:
        yield server


def settings(stack: Stack, mysql: Mysql, folder: Path, registry: RegistryServer) -> dict[str, Any]:
    wanted = wanted_settings(stack, mysql, folder)
    (folder / "mapping.yaml").write_text(MAPPING)
    wanted["mapping"]["schema_registry"] = {"url": registry.url}
    return wanted


def assert_equal(folder: Path) -> Results:
    results = validated(folder, *COMPARED, code=0)
    for one in results.values():
        assert (one["findings"], one["not_judged"], one["notes"]) == ([], {}, []), one
    return results


@pytest.mark.long(
    "test_validate.py has the envelope, unit/app/operator/validation/rows/test_record_forms.py each format"
)
def test_planted_differences_are_found_and_repaired_while_other_rows_change(
    stack: Stack, mysql: Mysql, tmp_path: Path, registry: RegistryServer
) -> None:
    wanted = settings(stack, mysql, tmp_path, registry)
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        schemas = dict(registry.held.schemas)
        with changing(mysql, seed=5):
            assert assert_equal(tmp_path)["shop.many"]["rows"] > 4_000
            plant(mysql)
            for name in OTHERS:
                unlogged(
                    mysql,
                    *(
                        f"UPDATE shop.{name} SET {column} = {kind[2]} WHERE id = {n}"
                        for n, (column, kind) in enumerate(KINDS.items())
                    ),
                )
            assert_all_found(validated(tmp_path, code=1))
            # The validation has asked the registry, and added nothing.
            assert registry.held.schemas == schemas
            assert "GET" in {method for method, _ in registry.requests}
            found = repaired(tmp_path)
            assert found["shop.orders_2"].startswith("2 row(s) published again, 1 extra row(s)")
            assert_equal(tmp_path)
            # What is read by an earlier version of the columns is compared in those of now.
            run(
                mysql,
                "ALTER TABLE shop.many ADD COLUMN w decimal(9,3) DEFAULT 5.5, RENAME COLUMN note TO noted",
                "ALTER TABLE shop.kinds ADD COLUMN w time(2) DEFAULT '01:02:03'",
                "ALTER TABLE shop.kinds_avro ADD COLUMN w float DEFAULT 0.1, ADD COLUMN r blob",
                "TRUNCATE TABLE shop.orders_2",
            )
            assert assert_equal(tmp_path)["shop.orders_2"]["rows"] == 0
            # A row of the earlier version, changed without the binlog.
            unlogged(mysql, "UPDATE shop.kinds_avro SET w = 0.2 WHERE id = 3")
            results = validated(tmp_path, "shop.kinds_avro", code=1)
            assert findings(results["shop.kinds_avro"]) == [("different", {"id": 3}, ["w"])]
        assert worker.stop() == 0


def assert_all_found(results: Results) -> None:
    shared = {f"shop.shared_{n}": results.pop(f"shop.shared_{n}")["not_compared"] for n in (1, 2)}
    assert set(shared.values()) == {SHARED}
    for name in OTHERS:
        assert findings(results.pop(f"shop.{name}")) == findings(results["shop.kinds"])
    assert_found(results)


def test_rows_in_the_format_from_before_a_change_of_the_mapping_are_not_judged(
    stack: Stack, mysql: Mysql, tmp_path: Path, registry: RegistryServer
) -> None:
    wanted = settings(stack, mysql, tmp_path, registry)
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        assert worker.stop() == 0
    other = MAPPING.replace("shop.many], format: maxwell", "shop.many], format: avro")
    (tmp_path / "mapping.yaml").write_text(other.replace("empty], format: maxwell", "empty]"))
    run(mysql, "UPDATE shop.many SET v = 5 WHERE a = 7", "INSERT INTO shop.empty VALUES (1)")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        found = validated(tmp_path, "shop.many", "shop.empty", code=3)
        assert worker.stop() == 0
    one = found["shop.many"]
    assert one["findings"] == found["shop.empty"]["findings"] == []
    assert one["not_judged"] == {
        "rows whose last record is in another format than the table's now: maxwell": 6_000 - 10
    }
