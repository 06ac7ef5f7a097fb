"""``python -m bench.sink_scale``: what a batch of 1,000 changes costs in tables of more and more rows.

Without Kafka: the sink's own statements, on Delta tables that are made for it. ``ROWS="1000000 10000000"``.

A batch changes either the newest rows, or rows all over the table, in one of these ways:

* rewritten: a MERGE that writes the files of changed rows again
* vectors: a MERGE that marks the changed rows in deletion vectors
* interpreted: the same without programs that Spark generates, and on one core, as suits a small table
* own: a DELETE of the changed keys with deletion vectors, then an append, without a MERGE
* recent: an append to the recent changes, which readers combine with the table
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from statistics import median
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from bench import report, session
from spark_sink.batch.table_merge import local
from spark_sink.settings.model import Settings
from spark_sink.spark import session as spark_session
from spark_sink.spark.jobs import MANY, Pace
from spark_sink.text.quoting import quoted
from spark_sink.training import changes
from spark_sink.views.recent.follower import stored
from spark_sink.warehouse.coverage import Cut
from spark_sink.warehouse.delta.ddl import delta
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.protocol import Warehouse
from spark_sink.warehouse.shape import Shape
from wire.warehouse_folders import table_path

FOLDER: Final = session.FOLDER / "sink_scale"
ROWS: Final = tuple(map(int, (os.environ.get("ROWS") or "1000000 10000000 100000000").split()))
CHANGES: Final = 1_000
ROUNDS: Final = 3
WAYS: Final = ("rewritten", "vectors", "interpreted", "own")
LARGE: Final = 100_000_000
"""Rows from which on a batch for all files is only tried in the two ways that take seconds."""
_ROOT: Final = f"{FOLDER}/warehouse"
_ROWS_PER_FILE: Final = 1_000_000
_VECTORS: Final = "delta.enableDeletionVectors"
_AT: Final = ("scale.shop.t", 0)
_PACE: Final = Pace(given={})
_batches = count()
"""Of all ways: a change must be newer than those before it, or else a merge leaves it out."""


def story() -> None:
    """Run all sizes, and print a line for each."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    settings = Settings(
        prefix="scale",
        bootstrap_servers="127.0.0.1:1",
        warehouse=_ROOT,
        driver_memory="4g",
    )
    spark = spark_session.start(settings)
    figures = {}
    try:
        held = open_warehouse(spark, settings.warehouse)
        held.notes.make()
        _warm(spark, held)
        for rows in ROWS:
            _PACE.keep(spark, MANY)
            shape = _made(spark, held, rows)
            for way in WAYS:
                _set_vectors(spark, shape, enabled=way != "rewritten")
                _PACE.keep(spark, 0 if way == "interpreted" else MANY)
                for spread in (False, True):
                    if way in ("rewritten", "interpreted") and spread and rows >= LARGE:
                        continue
                    merge = partial(_own if way == "own" else _merged, spark, held, shape)
                    act = partial(_changed, spark, shape, rows, spread, merge)
                    name = f"{rows} {way} {'spread' if spread else 'newest'}"
                    figures[name] = _measured(act, ROUNDS)
                    print(f"{name}: {figures[name]}", flush=True)
            shutil.rmtree(_folder(shape))
        figures["recent"] = _measured(partial(_recent, spark, held), ROUNDS)
    finally:
        spark_session.close(spark)
    print(f"all figures: {report.keep(session.RESULTS, 'sink_scale', figures)}")
    for name, (seconds, size) in figures.items():
        print(
            f"bench-sink-scale: {name} seconds={seconds:.2f} written={size / 1e6:.2f}MB", flush=True
        )


def _warm(spark: SparkSession, held: Warehouse[DataFrame]) -> None:
    """Run everything once: the first batch of a JVM takes many times as long as later ones."""
    shape = _made(spark, held, 10_000)
    for vectors in (False, True):
        _set_vectors(spark, shape, enabled=vectors)
        for merge in (_merged, _own) if vectors else (_merged,):
            for number in range(3):
                _changed(spark, shape, 10_000, True, partial(merge, spark, held, shape), number)
    for number in range(3):
        _recent(spark, held, number)


def _made(spark: SparkSession, held: Warehouse[DataFrame], rows: int) -> Shape:
    """A table with so many rows, whose keys are in the order in which they were inserted."""
    columns = (("id", "bigint"), ("customer", "int"), ("v", "string"))
    shape = Shape("shop", f"t{rows}", columns, ("id",))
    partitions = max(1, rows // _ROWS_PER_FILE)
    held.tables.replace(shape, _rows(spark.range(0, rows, numPartitions=partitions), shape, seq=1))
    return shape


def _set_vectors(spark: SparkSession, shape: Shape, *, enabled: bool) -> None:
    property_ = f"'{_VECTORS}' = '{str(enabled).lower()}'"
    spark.sql(f"ALTER TABLE {delta(_folder(shape))} SET TBLPROPERTIES ({property_})")


def _rows(ids: DataFrame, shape: Shape, *, seq: int) -> DataFrame:
    values = {
        "id": "id",
        "customer": "CAST(id % 1000 AS INT)",
        "v": f"concat('row ', hex(id * 2654435761 + {seq}))",
        "__destination": "'shop'",
        "__epoch": "1L",
        "__seq": f"{seq}L",
        "__deleted": "false",
        "__schema": "1",
        "__ts_ms": f"{seq}L",
    }
    made = (
        f"CAST({values.get(n, 'NULL')} AS {kind}) AS {quoted(n)}" for n, kind in shape.all_columns
    )
    return ids.selectExpr(*made)


def _changed(
    spark: SparkSession,
    shape: Shape,
    rows: int,
    spread: bool,
    merge: Callable[[DataFrame], None],
    number: int,
) -> None:
    """Change rows of a table: its newest, or rows in all of its files."""
    ids = spark.range(0, CHANGES, numPartitions=1)
    place = f"(id * {rows // CHANGES} + {number * 7}) % {rows}" if spread else f"{rows} - 1 - id"
    seq = 2 + next(_batches)
    merge(local(_rows(ids.selectExpr(f"CAST({place} AS BIGINT) AS id"), shape, seq=seq)))


def _merged(_: SparkSession, held: Warehouse[DataFrame], shape: Shape, rows: DataFrame) -> None:
    held.tables.merge(shape, rows)


def _own(spark: SparkSession, _: Warehouse[DataFrame], shape: Shape, rows: DataFrame) -> None:
    """Two commits: a reader between them lacks the rows."""
    path = _folder(shape)
    ids = ", ".join(str(row.id) for row in rows.select("id").collect())
    spark.sql(f"DELETE FROM {delta(path)} WHERE id IN ({ids})")
    rows.write.format("delta").mode("append").save(path)


def _recent(spark: SparkSession, held: Warehouse[DataFrame], number: int) -> None:
    first = number * CHANGES
    rows = stored(changes(spark, first, first + CHANGES), "scale.__schemas", "scale.__ddl.")
    cut = Cut(since={_AT: 0}, until={_AT: first + CHANGES}, at_ms=number)
    if held.recent.version() is None:
        held.recent.begin(rows, cut)
    else:
        held.recent.add(rows, cut)


def _folder(shape: Shape) -> str:
    return table_path(_ROOT, shape.database, shape.table)


def _measured(act: Callable[[int], None], rounds: int) -> tuple[float, float]:
    """The median seconds of a batch, and the bytes that it writes."""
    seconds, written = [], []
    for number in range(rounds):
        before, began = _size(), time.monotonic()
        act(number)
        seconds.append(time.monotonic() - began)
        written.append(_size() - before)
    return median(seconds), median(written)


def _size() -> int:
    """Bytes of all files: Delta adds files, and removes none before a VACUUM."""
    return sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file())


if __name__ == "__main__":
    sys.exit(session.run("bench-sink-scale", story))
