"""Files, markers and the ledger stay bounded however many batches came, and readers see no difference."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from bench import sink_age
from spark_sink.settings.model import Maintenance as Plan
from spark_sink.warehouse.delta import maintenance as delta_maintenance
from spark_sink.warehouse.delta.log import DeltaLog
from spark_sink.warehouse.ledger import Entry, Floor, Source
from spark_sink.warehouse.maintenance_schedule import Maintenance, Sources
from spark_sink.warehouse.protocol import OutOfTime
from tests.unit.spark_sink.conftest import Warehouse, of_delta
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
NAME = ("shop", "t")
_SMALL_STEPS = delta_maintenance._SMALL_STEPS


def kept(warehouse: Warehouse, plan: Plan, **other: Any) -> Maintenance:
    """A sink's maintenance, of a warehouse that is complete up to now."""
    applier = warehouse.applier
    parts: dict[str, Any] = {
        "complete_until": time.time,
        "busy_since": lambda: None,
        "merged": applier.merged,
        "waits": applier.waits.waiting,
        "sources": Sources(
            notes=warehouse.kept.notes,
            of_table=applier.book.sources,
            newest=applier.newest,
        ),
    }
    return Maintenance(warehouse=warehouse.kept, plan=plan, **(parts | other))


def conflict(warehouse: Warehouse) -> Exception:
    """The error that Delta raises if a commit has read files that OPTIMIZE replaced meanwhile."""
    spark, path = warehouse.spark, f"{warehouse.path}/shop/t"
    jvm: Any = spark._jvm
    delta = jvm.org.apache.spark.sql.delta
    late = delta.DeltaLog.forTable(spark._jsparkSession, path).startTransaction()
    late.readWholeTable()
    spark.sql(f"OPTIMIZE delta.`{path}`")
    file = {"path": "new.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1}
    added = jvm.java.util.ArrayList()
    added.add(delta.actions.Action.fromJson(json.dumps({"add": {**file, "dataChange": True}})))
    actions = jvm.scala.jdk.javaapi.CollectionConverters.asScala(added).toSeq()
    operation = getattr(delta, "DeltaOperations$ManualUpdate$")
    with pytest.raises(Exception, match="DELTA_CONCURRENT") as fault:
        late.commit(actions, getattr(operation, "MODULE$"))
    return fault.value


def entry(batch: int, partition: int) -> Entry:
    return Entry(
        query_id="q",
        batch_id=batch,
        topic="aq.shop.t",
        partition=partition,
        from_offset=batch * 10,
        until_offset=batch * 10 + 10,
        records=10,
        # Further apart than the ledger's retention.
        applied_at_ms=1_000_000 * (batch + 1),
    )


def floor(seq: int) -> Floor:
    source = Source("d", "s", "t")
    return Floor(database="s", table="t", source=source, epoch=1, seq=seq, ts_ms=seq)


@pytest.mark.long("the contract purges markers, test_marker_purge.py has the rules")
def test_old_markers_go_where_no_older_change_can_come_and_rows_stay(warehouse: Warehouse) -> None:
    now = int(time.time() * 1000)
    hour = 3_600_000
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]

    def gone(seq: int, ts_ms: int) -> Change:
        return Change(op="d", seq=seq, before={"id": seq, "v": seq}, ts_ms=ts_ms)

    row = Change(op="c", seq=9, after={"id": 9, "v": 9}, ts_ms=now - 50 * hour)
    warehouse.take(gone(1, now - 30 * hour), gone(2, now - 20 * hour), row)
    warehouse.take(gone(3, now - 1 * hour))
    plan = Plan(every=2, retention_hours=0.001, purge_deleted_hours=10)
    complete = [now / 1000]
    keeping = kept(warehouse, plan, complete_until=lambda: complete[0])

    def markers() -> list[int]:
        rows = warehouse.stored()
        return sorted(row.id for row in rows.where("__deleted").collect())

    assert keeping.due() == NAME
    # A sink that has not applied what Kafka holds purges by the time up to which it has.
    complete[0] = (now - 15 * hour) / 1000
    keeping.maintain(NAME)
    assert markers() == [2, 3]
    assert keeping.due() is None
    complete[0] = now / 1000
    keeping.maintain(NAME)
    assert markers() == [3]
    assert [row["id"] for row in warehouse.rows()] == [9]
    assert warehouse.files() == 1


@pytest.mark.long("test_sources has the rule")
def test_a_late_source_without_a_row_left_brings_no_deleted_row_back(warehouse: Warehouse) -> None:
    now, hour = int(time.time() * 1000), 3_600_000
    columns = (("id", "int"), ("v", "int"))
    warehouse.schemas = [schema(*columns), schema(*columns, destination="crm")]

    def written(seq: int, key: int, hours: int, destination: str = "shop") -> Change:
        image = {"id": key, "v": seq}
        ts_ms = now - hours * hour
        return Change(op="c", seq=seq, after=image, ts_ms=ts_ms, destination=destination)

    # crm's only row is replaced; then shop deletes a row that crm, which is late, has written before.
    warehouse.take(written(1, 1, hours=60, destination="crm"))
    warehouse.take(
        written(1, 1, hours=50),
        Change(op="d", seq=2, before={"id": 2, "v": 2}, ts_ms=now - 40 * hour),
    )
    ahead = [0.0]
    plan = Plan(every=1, retention_hours=0.001, purge_deleted_hours=10)
    keeping = kept(warehouse, plan, complete_until=lambda: time.time() + ahead[0])

    def markers() -> int:
        keeping.due()
        # All that Kafka has held since then is applied.
        ahead[0] += 1000
        keeping.due()
        keeping.maintain(NAME)
        rows = warehouse.stored()
        return rows.where("__deleted").count()

    assert markers() == 1
    warehouse.take(written(2, 2, hours=45, destination="crm"))
    assert markers() == 1
    assert [row["id"] for row in warehouse.rows()] == [1]
    # Once both are past the delete, and only then, the marker goes.
    warehouse.take(written(3, 3, hours=30, destination="crm"), written(3, 4, hours=20))
    assert markers() == 0
    assert sorted(row["id"] for row in warehouse.rows()) == [1, 3, 4]


@of_delta
def test_neither_a_reader_of_an_old_snapshot_nor_a_batch_that_is_not_committed_loses_its_files(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "v": 1}))
    path = f"{warehouse.path}/shop/t"
    two_hours_ago, begun = time.time() - 7200, time.monotonic() - 7200
    uncommitted = Path(path, "part-00000-uncommitted.snappy.parquet")
    uncommitted.write_bytes(b"rows of a long MERGE")
    os.utime(uncommitted, (two_hours_ago, two_hours_ago))

    def maintained(*, retention_hours: float, busy_since: float | None) -> None:
        plan = Plan(every=1, retention_hours=retention_hours, purge_deleted_hours=0)
        kept(warehouse, plan, busy_since=lambda: busy_since).maintain(NAME)

    # A long query holds the files that the table had when it began.
    version = DeltaLog(warehouse.spark, path).version()
    pinned = warehouse.spark.read.format("delta").option("versionAsOf", version)
    reader = pinned.load(path)
    warehouse.take(Change(op="u", seq=2, before={"id": 1, "v": 1}, after={"id": 1, "v": 2}))
    maintained(retention_hours=1, busy_since=begun)
    assert uncommitted.exists()
    assert [(row.id, row.v) for row in reader.collect()] == [(1, 1)]
    warehouse.take(Change(op="d", seq=3, before={"id": 1, "v": 2}))
    (held,) = (Path(urlsplit(uri).path) for uri in reader.inputFiles())
    while held.exists():
        maintained(retention_hours=0.0003, busy_since=None)
    assert not uncommitted.exists()
    with pytest.raises(Py4JJavaError, match="FILE_NOT_EXIST"):
        reader.collect()
    assert warehouse.rows() == []


@of_delta
@pytest.mark.long("the contract has conflicts of commits")
def test_a_batch_and_a_compaction_that_lose_to_one_another_are_tried_again(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    for seq in (1, 2):
        warehouse.take(Change(op="c", seq=seq, after={"id": seq, "v": seq}))
    fault, gate, real = conflict(warehouse), threading.Lock(), SparkSession.sql
    merges, compactions = [], []

    def late(self: SparkSession, text: str, **more: Any) -> Any:
        if text.startswith("MERGE"):
            merges.append(text)
            if len(merges) == 1:
                raise fault
        if text.startswith("OPTIMIZE"):
            compactions.append(gate.locked())
            if not gate.locked():
                raise fault
        return real(self, text, **more)

    monkeypatch.setattr(SparkSession, "sql", late)
    warehouse.take(Change(op="c", seq=3, after={"id": 3, "v": 3}))
    assert len(merges) == 2
    # A table that every batch writes to is compacted while the next batch waits.
    kept(warehouse, Plan(every=1), gate=gate).maintain(NAME)
    assert compactions == [False, True]
    assert not gate.locked()
    assert sorted(row["id"] for row in warehouse.rows()) == [1, 2, 3]
    assert warehouse.files() == 1


@pytest.mark.long("jobs/test_maintain.py has what remains for the next round")
def test_a_compaction_that_is_out_of_time_keeps_what_it_has_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, files, rows = f"{tmp_path}/shop/t", 12, 60_000
    # Enough of them that a joined file is as large as both together, and none is joined again.
    spark.range(rows).repartition(files).write.format("delta").save(path)
    size = DeltaLog(spark, path).size() // files
    # In the sink's own session a step is of 64 MiB.
    monkeypatch.setattr(
        delta_maintenance, "_SMALL_STEPS", dict.fromkeys(_SMALL_STEPS, str(size * 5 // 2))
    )
    upkeep = delta_maintenance.DeltaUpkeep(spark, str(tmp_path))

    def joined() -> list[int]:
        """The number of files that each commit has joined."""
        history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").where("operation = 'OPTIMIZE'")
        metrics = [row.operationMetrics for row in history.collect()]
        return [int(one["numRemovedFiles"]) for one in metrics]

    with pytest.raises(OutOfTime):
        upkeep.compact(NAME, seconds=0)
    assert sum(joined()) < files
    upkeep.compact(NAME, seconds=600)
    assert max(joined()) < 4
    assert sum(joined()) == files, "and nothing is done twice"
    kept = spark.read.format("delta").load(path).selectExpr("count(DISTINCT id)", "sum(id)")
    assert tuple(kept.collect()[0]) == (rows, rows * (rows - 1) // 2)


@pytest.mark.long("the markers' test has what is due in one process")
def test_how_many_batches_came_since_is_known_after_a_restart(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    for seq in range(1, 11):
        warehouse.take(Change(op="c", seq=seq, after={"id": seq, "v": seq}))

    def started() -> Maintenance:
        return kept(warehouse, Plan(every=10), merged=Counter({NAME: 1}))

    first = started()
    assert first.due() == NAME
    first.maintain(NAME)
    assert started().due() is None


@pytest.mark.long("the ledger's test and that of compaction have the parts")
def test_many_batches_leave_start_batch_and_folder_flat(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = sink_age.aged(spark, tmp_path, batches=24, every=4, look_every=8)
    early, *_, late = found
    # The batches of the retention time are kept, with one partition each.
    assert late.ledger_rows <= 24
    assert late.table_files <= early.table_files + 4
    assert late.markers <= early.markers
    assert late.live_rows == early.live_rows


@of_delta
def test_a_note_of_delta_that_a_crash_has_torn_does_not_prevent_maintenance(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "v": 1}))
    log = Path(warehouse.path, "shop", "t", "_delta_log")
    for torn in ("", '{"version":1,"si', "[]"):
        (log / "._last_checkpoint.crc").unlink(missing_ok=True)
        (log / "_last_checkpoint").write_text(torn)
        keeping = kept(warehouse, Plan(every=1))
        keeping.merged[NAME] = 1
        assert keeping.due() == NAME
        assert keeping.maintain(NAME) == ""
    assert [row["id"] for row in warehouse.rows()] == [1]
