"""Files, markers and the ledger stay bounded however many batches came, and readers see no difference."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bench import sink_age
from spark_sink.delta_log import DeltaLog
from spark_sink.ledger import Entry, Floor, Ledger
from spark_sink.maintenance import Maintenance
from spark_sink.settings import Maintenance as Plan
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
NAME = ("shop", "t")
long = pytest.mark.skipif(
    os.environ.get("SINK") != "all", reason="takes long: make test-sink runs it"
)


def entry(batch: int, partition: int) -> Entry:
    return Entry(
        query_id="q",
        batch_id=batch,
        topic="aq.shop.t",
        partition=partition,
        from_offset=batch * 10,
        until_offset=batch * 10 + 10,
        records=10,
        applied_at_ms=1_000 + batch,
    )


def test_the_ledger_keeps_the_last_batches_and_the_last_of_each_partition(
    spark: SparkSession, tmp_path: Path
) -> None:
    ledger = Ledger(spark, str(tmp_path), every=4)
    ledger.append([entry(0, 7)])
    for batch in range(1, 9):
        ledger.append([entry(batch, 0)])
        ledger.raise_floors(
            [Floor(database="s", table="t", destination="d", epoch=1, seq=batch, ts_ms=batch)]
        )
    again = Ledger(spark, str(tmp_path), every=4)
    assert again.applied() == {("aq.shop.t", 7): 10, ("aq.shop.t", 0): 90}
    assert again.newest_ms() == 1_008
    assert [floor.place for floor in again.floors()] == [(1, 8)]
    rows = spark.read.format("delta").load(f"{tmp_path}/__ledger")
    assert sorted(row.batch_id for row in rows.collect()) == [0, 4, 5, 6, 7, 8]
    assert spark.read.format("delta").load(f"{tmp_path}/__floors").count() == 1


def test_old_markers_go_where_no_older_change_can_come_and_rows_stay(warehouse: Warehouse) -> None:
    now = int(time.time() * 1000)
    hour = 3_600_000
    columns = (("id", "int"), ("v", "int"))
    warehouse.schemas = [schema(*columns), schema(*columns, destination="crm")]

    def gone(seq: int, ts_ms: int) -> Change:
        return Change(op="d", seq=seq, before={"id": seq, "v": seq}, ts_ms=ts_ms)

    kept = Change(op="c", seq=9, after={"id": 9, "v": 9}, ts_ms=now - 50 * hour)
    warehouse.take(gone(1, now - 30 * hour), gone(2, now - 20 * hour), kept)
    warehouse.take(gone(3, now - 1 * hour))
    plan = Plan(every=2, retention_hours=0.001, purge_deleted_hours=10)
    complete = [now / 1000]
    keeping = Maintenance(
        spark=warehouse.spark,
        warehouse=warehouse.path,
        plan=plan,
        complete_until=lambda: complete[0],
        busy_since=lambda: None,
        merged=warehouse.applier.merged,
    )

    def markers() -> list[int]:
        rows = warehouse.spark.read.format("delta").load(f"{warehouse.path}/shop/t")
        return sorted(row.id for row in rows.where("__deleted").collect())

    assert keeping.due() == NAME
    # A sink that has not applied what Kafka holds purges by the time up to which it has.
    complete[0] = (now - 15 * hour) / 1000
    keeping.maintain(NAME)
    assert markers() == [2, 3]
    assert keeping.due() is None
    # Another source of the same table is late: what it has not yet passed stays.
    warehouse.take(
        Change(op="c", seq=1, after={"id": 8, "v": 8}, ts_ms=now - 25 * hour, destination="crm")
    )
    complete[0] = now / 1000
    keeping.maintain(NAME)
    assert markers() == [2, 3]
    warehouse.take(
        Change(op="c", seq=2, after={"id": 7, "v": 7}, ts_ms=now, destination="crm"),
        Change(op="c", seq=10, after={"id": 10, "v": 10}, ts_ms=now),
    )
    keeping.maintain(NAME)
    assert markers() == [3]
    assert sorted(row["id"] for row in warehouse.rows()) == [7, 8, 9, 10]
    detail = warehouse.spark.sql(f"DESCRIBE DETAIL delta.`{warehouse.path}/shop/t`").collect()[0]
    assert detail.numFiles == 1


def test_a_reader_of_an_old_snapshot_finishes_within_the_retention_and_never_reads_less(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "v": 1}))

    def maintained(*, retention_hours: float) -> None:
        keeping = Maintenance(
            spark=warehouse.spark,
            warehouse=warehouse.path,
            plan=Plan(every=1, retention_hours=retention_hours, purge_deleted_hours=0),
            complete_until=time.time,
            busy_since=lambda: None,
            merged=warehouse.applier.merged,
        )
        keeping.maintain(NAME)

    # A long query holds the files that the table had when it began.
    path = f"{warehouse.path}/shop/t"
    version = DeltaLog(warehouse.spark, path).version()
    pinned = warehouse.spark.read.format("delta").option("versionAsOf", version)
    reader = pinned.load(path)
    warehouse.take(Change(op="u", seq=2, before={"id": 1, "v": 1}, after={"id": 1, "v": 2}))
    maintained(retention_hours=1)
    assert [(row.id, row.v) for row in reader.collect()] == [(1, 1)]
    warehouse.take(Change(op="d", seq=3, before={"id": 1, "v": 2}))
    (held,) = (Path(urlsplit(uri).path) for uri in reader.inputFiles())
    while held.exists():
        maintained(retention_hours=0.0003)
    with pytest.raises(Py4JJavaError, match="FILE_NOT_EXIST"):
        reader.collect()
    assert warehouse.rows() == []


def test_files_of_a_batch_that_is_not_committed_yet_stay(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "v": 1}))
    two_hours_ago = time.time() - 7200
    uncommitted = Path(warehouse.path, "shop/t/part-00000-uncommitted.snappy.parquet")
    uncommitted.write_bytes(b"rows of a long MERGE")
    os.utime(uncommitted, (two_hours_ago, two_hours_ago))
    began: list[float | None] = [two_hours_ago]
    keeping = Maintenance(
        spark=warehouse.spark,
        warehouse=warehouse.path,
        plan=Plan(every=1),
        complete_until=time.time,
        busy_since=lambda: began[0],
        merged=warehouse.applier.merged,
    )
    keeping.maintain(NAME)
    assert uncommitted.exists()
    began[0] = None
    keeping.maintain(NAME)
    assert not uncommitted.exists()


def test_a_table_that_batches_write_to_all_the_time_is_compacted_all_the_same(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    for seq in (1, 2):
        warehouse.take(Change(op="c", seq=seq, after={"id": seq, "v": seq}))
    gate, seen = threading.Lock(), []

    class Contended:
        """Spark, where a batch commits within each OPTIMIZE that does not keep batches out."""

        def __getattr__(self, name: str) -> Any:
            return getattr(warehouse.spark, name)

        def sql(self, text: str) -> Any:
            if text.startswith("OPTIMIZE"):
                seen.append(gate.locked())
                if not gate.locked():
                    raise PySparkException("[DELTA_CONCURRENT_APPEND] a batch was first")
            return warehouse.spark.sql(text)

    Maintenance(
        spark=cast("SparkSession", Contended()),
        warehouse=warehouse.path,
        plan=Plan(every=1),
        complete_until=time.time,
        busy_since=lambda: None,
        gate=gate,
        merged=warehouse.applier.merged,
    ).maintain(NAME)
    assert seen == [False, True]
    assert not gate.locked()
    detail = warehouse.spark.sql(f"DESCRIBE DETAIL delta.`{warehouse.path}/shop/t`").collect()[0]
    assert detail.numFiles == 1


@long
def test_how_many_batches_came_since_is_known_after_a_restart(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    for seq in range(1, 11):
        warehouse.take(Change(op="c", seq=seq, after={"id": seq, "v": seq}))

    def started() -> Maintenance:
        return Maintenance(
            spark=warehouse.spark,
            warehouse=warehouse.path,
            plan=Plan(every=10),
            complete_until=time.time,
            busy_since=lambda: None,
            merged=Counter({NAME: 1}),
        )

    first = started()
    assert first.due() == NAME
    first.maintain(NAME)
    assert started().due() is None


@long
def test_many_batches_leave_start_batch_and_folder_flat(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = sink_age.aged(spark, tmp_path, batches=24, every=4, look_every=8)
    early, *_, late = found
    assert late.ledger_rows <= early.ledger_rows
    assert late.table_files <= early.table_files + 4
    assert late.markers <= early.markers
    assert late.live_rows == early.live_rows
