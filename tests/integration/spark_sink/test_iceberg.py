"""A sink with Iceberg as a process: each command, a kill, and a REST catalog that others read by name."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from devstack import Stack, jars, java
from devstack.iceberg_rest import IcebergRest
from devstack.paths import CACHE
from devstack.processes import Children
from spark_sink.cuts.reading import as_of
from spark_sink.recent.reading import fresh
from tests.integration.spark_sink.test_sink import COLUMNS, Installation, insert, until
from tests.unit.spark_sink.conftest import spark
from tests.unit.spark_sink.history import Change, schema

__all__ = ["spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.long("the contract and unit/spark_sink/warehouse/test_iceberg.py have the parts"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def in_transaction(change: Change, name: str) -> Change:
    return replace(change, more={"transaction": {"id": name, "total_order": 1}})


def done(at: Installation, *arguments: str) -> str:
    """What a command prints."""
    ended = at.run(*arguments)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout


async def begun(at: Installation) -> None:
    """Makes the topics of a table."""
    transactions = f"{at.prefix}.__transactions.shop"
    await at.make_topics(f"{at.prefix}.__schemas", transactions, at.topic("t"))
    await at.write(schema(*COLUMNS), *(in_transaction(insert(n, "old"), "u:1") for n in (1, 2)))


async def test_each_command_does_on_iceberg_what_it_does_on_delta(
    stack: Stack, tmp_path: Path
) -> None:
    at = Installation(tmp_path, stack.kafka, "icecommands", table_format="iceberg")
    at.config.write_text(f"{at.config.read_text()}unusable_limit: 5\n")
    await begun(at)
    with at.running() as sink:
        until(lambda: at.applied("t") >= 3, sink)
        await at.write(in_transaction(insert(3, "new"), "u:2"))
        os.kill(sink.pid, signal.SIGKILL)
        sink.wait()
    with at.running() as sink:
        await at.write(
            in_transaction(Change(op="d", seq=4, before={"id": 1, "v": "old"}), "u:3"),
            insert(5, "x"),
            Change(op="c", seq=6, after={"id": "none", "v": "y"}),
        )
        until(lambda: at.applied("t") >= 9, sink)
        assert at.rows("t") == {(2, "old"), (3, "new"), (5, "x")}
        assert "shop.t: maintained" in done(at, "maintain", "shop.t")
        done(at, "rebuild", "shop.t")
        done(at, "reload", "shop.t", "--from-beginning")
        sink.send_signal(signal.SIGTERM)
        output, _ = sink.communicate(timeout=300)
        assert sink.returncode == 0, output
        assert "Traceback" not in output
    assert at.rows("t") == {(2, "old"), (3, "new"), (5, "x")}
    (table,) = json.loads(done(at, "tables", "--json", "--count"))
    assert (table["state"], table["live"], table["deleted"]) == ("ok", 3, 1)
    assert table["destinations"] == ["shop"]
    (table,) = json.loads(done(at, "tables", "--json"))
    assert table["rows"] == 4
    assert "shop.t: APPLIED" in done(at, "status")
    assert "not merged: 0 offsets" in done(at, "lag")
    assert "shop.t: maintained" in done(at, "maintain")
    assert "shop.t" in done(at, "cut")
    assert "MalformedRecord: column id holds no int" in done(at, "letters")
    done(at, "dump", f"{tmp_path}/dumped")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[IcebergRest]:
    owner = Children()
    program = java.find_or_install(owner)
    jars.fetch(["iceberg-rest"], program, owner=owner, locks=jars.OPTIONAL)
    folder = CACHE / "jars/iceberg-rest"
    server = IcebergRest(tmp_path / "rest", folder, java=program, owner=owner)
    server.start()
    yield server
    owner.kill()


async def test_tables_in_a_rest_catalog_are_seen_by_name_in_another_session(
    stack: Stack, tmp_path: Path, spark: SparkSession, catalog: IcebergRest
) -> None:
    at = Installation(tmp_path, stack.kafka, "icerest", table_format="iceberg")
    given = {"type": "rest", "uri": catalog.uri}
    at.config.write_text(f"{at.config.read_text()}catalog: {json.dumps(given)}\n")
    await begun(at)
    done(at, "--mode", "available-now")
    assert at.rows("t") == {(1, "old"), (2, "old")}
    await at.write(in_transaction(insert(3, "new"), "u:2"))
    done(at, "--mode", "available-now")

    other = spark.newSession()
    for key, value in {**given, "cache-enabled": "false"}.items():
        other.conf.set(f"spark.sql.catalog.lake.{key}", value)
    other.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    assert [row.tableName for row in other.sql("SHOW TABLES IN lake.shop").collect()] == ["t"]
    rows = other.sql("SELECT id, v FROM lake.shop.t WHERE NOT __deleted").collect()
    assert {(row.id, row.v) for row in rows} == {(1, "old"), (2, "old"), (3, "new")}
    assert fresh(other, f"{tmp_path}/wh", "shop", "t", catalog=given).count() == 3
    cut = as_of(other, f"{tmp_path}/wh", "u:1", catalog=given)
    assert sorted(row.id for row in cut.table("shop", "t").collect()) == [1, 2]
    assert not list((tmp_path / "wh").glob("shop/*"))

    catalog.stop()
    gone = at.run("status")
    assert gone.returncode == 1
    assert re.search(r"WarehouseUnusable: .*catalog", gone.stderr), gone.stderr
    assert gone.stderr.count("\n") == 1
