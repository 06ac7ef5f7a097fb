"""The simple job that the sink is compared with: one ``foreachBatch``, one aggregation, one MERGE.

``python -m bench.peers.simple_sink W1|W2 TOPIC BOOTSTRAP PATH SHUFFLE_PARTITIONS`` brings one topic into one
Delta table, prints ``RESULT seconds=… rows=… ids=…``, and ends. ``… count PATH`` prints the last two of a table
of the sink.

Invariant: it does what a careful user writes in an afternoon: typed parsing of the envelope, the last change of
each id by offset, one MERGE of up to 100,000 records. It has no versions, no types beyond JSON's, no checks and
no ledger.
"""

from __future__ import annotations

import sys
import time
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
    names = [one.split()[0] for one in columns.split(", ")]
    spark.sql(f"CREATE TABLE delta.`{path}/table` ({columns}) USING delta")
    envelope = f"op STRING, before STRUCT<id BIGINT>, after STRUCT<{_members(columns)}>"

    def merged(records: DataFrame, _batch: int) -> None:
        text = records.where("value IS NOT NULL").selectExpr(
            "offset", "CAST(value AS STRING) AS text"
        )
        parsed = text.select("offset", f.from_json("text", envelope).alias("e"))
        keyed = parsed.selectExpr(
            "offset", "coalesce(e.after.id, e.before.id) AS key", "e.op", "e.after"
        )
        last = keyed.groupBy("key").agg(f.expr("max_by(struct(op, after), offset) AS x"))
        last.selectExpr("key", "x.op", "x.after").createOrReplaceTempView("changed")
        assigned = ", ".join(f"t.{name} = s.after.{name}" for name in names)
        values = ", ".join(f"s.after.{name}" for name in names)
        records.sparkSession.sql(
            f"MERGE INTO delta.`{path}/table` AS t USING changed AS s ON t.id = s.key "
            f"WHEN MATCHED AND s.op = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET {assigned} "
            f"WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({', '.join(names)}) VALUES ({values})"
        )

    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    stream = (
        reader.option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", BATCH)
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
    rows, ids = _summed(spark.read.format("delta").load(f"{path}/table"))
    sys.stdout.write(f"RESULT seconds={seconds:.3f} rows={rows} ids={ids}\n")
    spark.stop()


def count(path: str) -> None:
    """Print the number of rows that a table of the sink has, and the sum of their ids."""
    spark = started("2")
    rows, ids = _summed(spark.read.format("delta").load(path).where("NOT __deleted"))
    sys.stdout.write(f"RESULT rows={rows} ids={ids}\n")
    spark.stop()


def _summed(rows: DataFrame) -> tuple[int, int]:
    found = rows.selectExpr("count(*) AS n", "coalesce(sum(id), 0) AS ids").collect()[0]
    return int(found.n), int(found.ids)


def _members(columns: str) -> str:
    return ", ".join(": ".join(one.split()) for one in columns.split(", "))


if __name__ == "__main__":
    if sys.argv[1] == "count":
        count(sys.argv[2])
    else:
        run(*sys.argv[1:])
