"""Costs of a sink by age: start, batch and folder after some batches, without Kafka, for a test.

Batches of a fixed size are applied to one table, with inserts and deletes, and a sink's
maintenance.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.batch.apply import Applier
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Maintenance as Plan
from spark_sink.source.schemas import SchemaBook
from spark_sink.warehouse.maintenance_schedule import Maintenance, Sources
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.waiting_tables import Waits

NAME: Final = ("shop", "t")
TOPIC: Final = ("aq.shop.t", 0)
_NEW: Final = 10
_LIVE: Final = 50
_RETENTION_SECONDS: Final = 60
_SCHEMA: Final = json.dumps(
    {
        "destination": "shop",
        "database": "shop",
        "table": "t",
        "version": 1,
        "columns": [{"name": "id", "type": "int"}, {"name": "v", "type": "varchar(50)"}],
        "primary_key": ["id"],
        "wire": 1,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The measurements of the sink after some batches."""

    batches: int
    batch_seconds: float
    """The median of the batches since the last measurement, without maintenance."""
    start_seconds: float
    """Seconds in which a start reads the ledger."""
    ledger_rows: int
    table_files: int
    folder_files: int
    folder_bytes: int
    markers: int
    live_rows: int


def aged(
    spark: SparkSession, folder: Path, *, batches: int, every: int, look_every: int
) -> list[Look]:
    """Apply batches; measure the sink after each `look_every` of them."""
    return list(_aged(spark, folder, batches=batches, every=every, look_every=look_every))


def _aged(
    spark: SparkSession, folder: Path, *, batches: int, every: int, look_every: int
) -> Iterator[Look]:
    root = str(folder)
    warehouse = open_warehouse(spark, root, every=every, retention_seconds=_RETENTION_SECONDS)
    applier = Applier(
        book=SchemaBook(lambda: [_SCHEMA]),
        warehouse=warehouse,
        waits=Waits(warehouse.log, time.time),
        metrics=Metrics(),
    )
    plan = Plan(every=every, retention_hours=_RETENTION_SECONDS / 3600, purge_deleted_hours=1)
    keeping = Maintenance(
        warehouse=warehouse,
        plan=plan,
        complete_until=time.time,
        merged=applier.merged,
        busy_since=lambda: None,
        sources=Sources(
            notes=warehouse.notes,
            of_table=applier.book.sources,
            newest=applier.newest,
        ),
    )
    offsets, seconds = itertools.count(), []
    for batch in range(1, batches + 1):
        records = [_record(next(offsets), value) for value in _values(batch)]
        start, end = {TOPIC: records[0]["offset"]}, {TOPIC: records[-1]["offset"] + 1}
        began = time.perf_counter()
        applier.apply(_frame(spark, records), batch, query_id="q", moved=(start, end))
        seconds.append(time.perf_counter() - began)
        while (name := keeping.due()) is not None:
            keeping.maintain(name)
        if batch % look_every == 0:
            yield _look(spark, folder, batch, seconds)
            seconds.clear()


def _values(batch: int) -> Iterator[dict[str, Any]]:
    """New rows, and deletes of rows of an earlier batch; all committed two hours ago."""
    for n in range(_NEW):
        new = batch * _NEW + n
        yield {"op": "c", "seq": 2 * new, "after": {"id": new, "v": "x" * 20}}
        if new >= _LIVE + _NEW:
            old = {"id": new - _LIVE, "v": "x" * 20}
            yield {"op": "d", "seq": 2 * new + 1, "before": old}


def _record(offset: int, change: dict[str, Any]) -> dict[str, Any]:
    then = int((time.time() - 7200) * 1000)
    source = {"name": "shop", "db": "shop", "table": "t", "ts_ms": then, "epoch": 1}
    body = {
        "before": change.get("before"),
        "after": change.get("after"),
        "op": change["op"],
        "source": {**source, "seq": change["seq"], "schema": 1, "wire": 1},
    }
    return {"topic": TOPIC[0], "partition": 0, "offset": offset, "value": json.dumps(body)}


def _frame(spark: SparkSession, records: list[dict[str, Any]]) -> DataFrame:
    kind = (
        "array<struct<topic: string, partition: int, offset: bigint, value: string, "
        "headers: array<struct<key: string, value: binary>>>>"
    )
    parsed = f.from_json(f.lit(json.dumps(records)), kind)
    return spark.range(1, numPartitions=1).select(f.inline(parsed))


def _look(spark: SparkSession, folder: Path, batches: int, seconds: list[float]) -> Look:
    began = time.perf_counter()
    fresh = open_warehouse(spark, str(folder))
    fresh.log.applied()
    fresh.log.newest_ms()
    fresh.log.floors()
    start = time.perf_counter() - began
    table = spark.read.format("delta").load(f"{folder}/shop/t")
    sizes = list(_sizes(folder))
    return Look(
        batches=batches,
        batch_seconds=statistics.median(seconds),
        start_seconds=start,
        ledger_rows=len(fresh.log.batches()),
        table_files=len(table.inputFiles()),
        folder_files=len(sizes),
        folder_bytes=sum(sizes),
        markers=table.where("__deleted").count(),
        live_rows=table.where("NOT __deleted").count(),
    )


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        # Files may be deleted during the count.
        with suppress(FileNotFoundError):
            if path.is_file():
                yield path.stat().st_size
