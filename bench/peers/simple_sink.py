"""The simple job that the sink is compared with: one ``foreachBatch``, one aggregation, one MERGE.

``python -m bench.peers.simple_sink W1|W2 TOPIC BOOTSTRAP PATH SHUFFLE_PARTITIONS`` brings one topic into one
Delta table, prints ``RESULT seconds=… rows=… ids=…``, and ends. ``… count PATH`` prints the last two of the
sink's tables in a folder. ``… MANY PATTERN BOOTSTRAP PATH SHUFFLE_PARTITIONS BATCH`` brings the topics of many
tables, with the columns of `bench.sink_topics`, into one Delta table each: one MERGE for each of a batch.

Invariant: it does what a careful user writes in an afternoon: typed parsing of the envelope, the last change of
each id by offset, one MERGE of up to 100,000 records. It has no versions, no types beyond JSON's, no checks and
no ledger.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

_JARS: Final = Path(__file__).parents[2] / ".cache/jars/spark"
_DELTA: Final = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
BATCH: Final = 100_000
ROWS: Final = {
    "W1": "id BIGINT, k INT, c STRING, pad STRING",
    "W2": (
        "id BIGINT, customer_id INT, status STRING, amount STRING, note STRING, flags STRING, created BIGINT, "
        "updated STRING, doc STRING, qty INT, ratio DOUBLE, blobv STRING"
    ),
}


def started(shuffle: str) -> SparkSession:
    """A session of two cores and 4 GiB."""
    chosen = {
        "spark.master": "local[2]",
        "spark.driver.memory": "4g",
        "spark.jars": ",".join(map(str, sorted(_JARS.glob("*.jar")))),
        "spark.sql.extensions": _DELTA,
        "spark.sql.catalog.spark_catalog": _CATALOG,
        "spark.sql.shuffle.partitions": shuffle,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.appName("simple sink")
    for name, value in chosen.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run(workload: str, topic: str, bootstrap: str, path: str, shuffle: str) -> None:
    """Bring the whole topic into a new table."""
    spark = started(shuffle)
    columns = ROWS[workload]
    spark.sql(f"CREATE TABLE delta.`{path}/table` ({columns}) USING delta")

    def merged(records: DataFrame, _batch: int) -> None:
        merge(parsed(records, columns), f"{path}/table", columns)

    _drain(spark, ("subscribe", topic), bootstrap, path, BATCH, merged)


def run_many(pattern: str, bootstrap: str, path: str, shuffle: str, batch: str) -> None:
    """Bring the topics of many tables into a new table each."""
    spark = started(shuffle)
    columns = "id BIGINT, v STRING"
    known: set[str] = set()

    def merged(records: DataFrame, _batch: int) -> None:
        changes = parsed(records, columns, "e.source.table AS of_table").persist()
        for row in changes.select("of_table").distinct().collect():
            target = f"{path}/tables/{row.of_table}"
            if row.of_table not in known:
                known.add(row.of_table)
                spark.sql(f"CREATE TABLE delta.`{target}` ({columns}) USING delta")
            merge(changes.where(f.col("of_table") == row.of_table), target, columns)
        changes.unpersist()

    _drain(spark, ("subscribePattern", pattern), bootstrap, path, int(batch), merged)


def parsed(records: DataFrame, columns: str, *more: str) -> DataFrame:
    """The offset, key, op and row of each record."""
    members = "source STRUCT<table: STRING>, " if more else ""
    envelope = f"{members}op STRING, before STRUCT<id BIGINT>, after STRUCT<{_members(columns)}>"
    text = records.where("value IS NOT NULL").selectExpr("offset", "CAST(value AS STRING) AS text")
    found = text.select("offset", f.from_json("text", envelope).alias("e"))
    return found.selectExpr(
        "offset", "coalesce(e.after.id, e.before.id) AS key", "e.op", "e.after", *more
    )


def merge(changes: DataFrame, path: str, columns: str) -> None:
    """One MERGE of the last change of each key."""
    names = [one.split()[0] for one in columns.split(", ")]
    last = changes.groupBy("key").agg(f.expr("max_by(struct(op, after), offset) AS x"))
    last.selectExpr("key", "x.op", "x.after").createOrReplaceTempView("changed")
    assigned = ", ".join(f"t.{name} = s.after.{name}" for name in names)
    values = ", ".join(f"s.after.{name}" for name in names)
    changes.sparkSession.sql(
        f"MERGE INTO delta.`{path}` AS t USING changed AS s ON t.id = s.key "
        f"WHEN MATCHED AND s.op = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET {assigned} "
        f"WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({', '.join(names)}) VALUES ({values})"
    )


def _drain(
    spark: SparkSession,
    topics: tuple[str, str],
    bootstrap: str,
    path: str,
    batch: int,
    merged: Callable[[DataFrame, int], None],
) -> None:
    """Read all that the topics have, in batches, and print what the tables hold then."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    stream = (
        reader.option(*topics)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch)
        .load()
    )
    began = time.monotonic()
    query: Any = (
        stream.writeStream.foreachBatch(merged)
        .option("checkpointLocation", f"{path}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.monotonic() - began
    tables = [f"{path}/table"] if topics[0] == "subscribe" else Path(f"{path}/tables").iterdir()
    rows, ids = _summed(spark, map(str, tables))
    sys.stdout.write(f"RESULT seconds={seconds:.3f} rows={rows} ids={ids}\n")
    spark.stop()


def count(folder: str) -> None:
    """Print the number of rows of the sink's tables in a folder, and the sum of their ids."""
    spark = started("2")
    tables = [str(one) for one in Path(folder).iterdir()]
    rows, ids = _summed(spark, tables, "NOT __deleted")
    sys.stdout.write(f"RESULT rows={rows} ids={ids}\n")
    spark.stop()


def _summed(spark: SparkSession, tables: Iterable[str], which: str = "true") -> tuple[int, int]:
    # Of the default 50 partitions of each table's log, the count of 500 tables would take ten minutes.
    spark.conf.set("spark.databricks.delta.snapshotPartitions", "1")
    rows = ids = 0
    for path in tables:
        held = spark.read.format("delta").load(path).where(which)
        found = held.selectExpr("count(*) AS n", "coalesce(sum(id), 0) AS ids").collect()[0]
        rows, ids = rows + int(found.n), ids + int(found.ids)
    return rows, ids


def _members(columns: str) -> str:
    return ", ".join(": ".join(one.split()) for one in columns.split(", "))


if __name__ == "__main__":
    if sys.argv[1] == "count":
        count(sys.argv[2])
    elif sys.argv[1] == "MANY":
        run_many(*sys.argv[2:])
    else:
        run(*sys.argv[1:])
