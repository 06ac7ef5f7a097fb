"""The list of tables, from Delta's logs and where they lack what is usually there."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_sink.errors import KeyChanged
from spark_sink.warehouse.table_status import listed_tables, status_lines, table_lines
from tests.harness.memory_warehouse import MemoryWarehouse
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def put(seq: int, table: str, **image: int) -> Change:
    return Change(op="c", seq=seq, after=image, table=table, ts_ms=1_795_000_000_000 + seq)


def descriptions(spark: SparkSession) -> set[str]:
    """What Spark calls its jobs."""
    context: Any = spark._jsc
    jobs = context.sc().statusStore().jobsList(None)
    found = (jobs.apply(number).description() for number in range(jobs.size()))
    return {str(one.get()) for one in found if one.isDefined()}


def test_tables_are_listed_from_their_logs_with_what_waits_and_what_is_not_ours(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "spark_sink")
    # A name with a space has another one in Parquet and in statistics.
    spaced = schema(("id", "int"), ("a b", "int"))
    warehouse.schemas = [
        spaced,
        schema(("id", "int"), ("v", "int"), table="u"),
        schema(("id", "int"), ("v", "int"), table="u", key=("v",), version=2),
    ]
    gone = Change(op="d", seq=3, before={"id": 2, "a b": 0}, ts_ms=1_795_000_009_000)
    warehouse.take(
        put(1, "t", **{"id": 1, "a b": 10}), put(2, "t", **{"id": 2, "a b": 0}), gone,
        put(4, "u", id=1, v=1), put(5, "u", id=2, v=2),
    )  # fmt: skip
    value = warehouse.metrics.registry.get_sample_value
    for stage, times in (("read", 1), ("ledger", 1), ("fold", 2), ("merge", 2)):
        assert value("aqueduct_sink_stage_seconds_count", {"stage": stage}) == times
    assert sum("table merged table=shop." in one.getMessage() for one in caplog.records) == 2
    described = descriptions(warehouse.spark)
    assert {"batch 0: read", "batch 0: merge shop.t", "batch 0: merge shop.u"} <= described
    rekeyed = Change(op="c", seq=6, version=2, after={"id": 3, "v": 3}, table="u")
    warehouse.take(rekeyed)
    foreign = Path(warehouse.path, "shop", "x")
    shutil.copytree(Path(warehouse.path, "shop", "u"), foreign)

    found = {one["table"]: one for one in listed_tables(warehouse.kept)}
    assert json.loads(json.dumps(found)) == found
    t = found["t"]
    assert (t["state"], t["key"], t["columns"], t["rows"]) == ("ok", ["id"], 2, 2)
    assert (t["newest_commit_ms"], t["destinations"]) == (1_795_000_009_000, ["shop"])
    assert (t["files"], t["bytes"] > 500, t["last_batch_ms"] > 0) == (1, True, True)
    assert (found["u"]["state"], found["u"]["error"]) == ("waiting", KeyChanged.__name__)
    assert (found["x"]["state"], found["x"]["error"]) == ("unreadable", "ForeignTable")
    lines = list(table_lines(found.values()))
    assert lines[0].startswith("shop.t: ok key=id columns=2 rows=2 files=1 size=")
    assert " newest=2026-11-18T" in lines[0]
    assert lines[1].startswith("shop.u: waiting (KeyChanged) key=id columns=2 rows=2 ")

    # Delta does without the checksum files, and some writers make none.
    for file in Path(warehouse.path, "shop", "t", "_delta_log").glob("*.crc"):
        file.unlink()
    again = {one["table"]: one for one in listed_tables(warehouse.kept)}
    assert again["t"] == t
    counted = {one["table"]: one for one in listed_tables(warehouse.kept, count=True)}
    assert (counted["t"]["live"], counted["t"]["deleted"]) == (1, 1)
    assert " rows=1 deleted=1 " in next(table_lines(counted.values()))

    head = list(status_lines(warehouse.kept))[:2]
    assert head[0].endswith(", number 1, 1 records")
    assert head[1] == "tables: 3; waiting: 1"


def test_an_empty_warehouse_has_no_tables() -> None:
    empty = MemoryWarehouse()
    assert listed_tables(empty) == []
    assert list(status_lines(empty)) == ["last batch applied: never", "tables: 0; waiting: 0"]
