"""``python -m spark_sink.training JARS OPTION...``: a short run whose JVM loads the classes that a sink needs.

The JVM is started with the given options, one of which makes it archive its classes when it ends. No server is
needed: changes are merged from memory into a temporary folder.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch.apply import Applier
from spark_sink.errors import KafkaUnreachable
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings
from spark_sink.source.kafka import KafkaTopics
from spark_sink.source.schemas import SchemaBook
from spark_sink.spark import session
from spark_sink.spark.jobs import MANY
from spark_sink.views.recent.follower import stored
from spark_sink.views.recent.reading import fresh
from spark_sink.warehouse.common.own_tables import joined, texts
from spark_sink.warehouse.coverage import Cut
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.waiting_tables import Waits
from wire.records import WIRE_VERSION

_TOPIC: Final = ("aq.shop.t", 0)
_SECONDS_TO_WRITE: Final = 300.0
_NOWHERE: Final = "127.0.0.1:1"
_SCHEMA: Final = json.dumps(
    {
        "destination": "shop",
        "database": "shop",
        "table": "t",
        "version": 1,
        "columns": [
            {"name": "id", "type": "int", "nullable": False},
            {"name": "price", "type": "decimal(12,2)", "nullable": True},
            {"name": "at", "type": "datetime(3)", "nullable": True},
            {"name": "v", "type": "varchar(50)", "nullable": True},
        ],
        "primary_key": ["id"],
        "wire": WIRE_VERSION,
    }
)
_VALUE: Final = (
    "to_json(struct(op, struct(CAST(id % 500 AS STRING) AS id, '1.25' AS price, "
    "'2026-01-02 03:04:05.678' AS at, 'text' AS v) AS after, "
    "struct('shop' AS name, 'shop' AS db, 't' AS `table`, 1 AS ts_ms, id AS seq, 1 AS epoch, "
    "1 AS `schema`, 1 AS wire) AS source))"
)


def main() -> int:
    """Run once; return the process's exit status."""
    jars, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            prefix="aq",
            bootstrap_servers=_NOWHERE,
            warehouse=f"{folder}/warehouse",
            jars=Path(jars),
            kafka_options={"default.api.timeout.ms": "1000", "request.timeout.ms": "500"},
        )
        spark = session.start(settings, options)
        try:
            _work(spark, settings)
        finally:
            session.close(spark, seconds=_SECONDS_TO_WRITE)
    return 0


def _work(spark: SparkSession, settings: Settings) -> None:
    held = open_warehouse(spark, settings.warehouse)
    applier = Applier(
        book=SchemaBook(lambda: [_SCHEMA]),
        warehouse=held,
        waits=Waits(held.log, time.time),
        metrics=Metrics(),
        pace=session.pace(settings),
    )
    # One batch of few rows and one of many: Spark executes them in different ways.
    first, second = 1_000, 1_000 + 2 * MANY
    for number, (start, end) in enumerate(((0, first), (first, second))):
        moved = {_TOPIC: start}, {_TOPIC: end}
        applier.apply(changes(spark, start, end), number, query_id="training", moved=moved)
    cut = Cut(since={_TOPIC: second}, until={_TOPIC: second + 10}, at_ms=1)
    recent = stored(changes(spark, second, second + 10), "aq.__schemas", "aq.__ddl.")
    held.recent.begin(joined(recent, texts(recent, "version", [_SCHEMA])), cut)
    fresh(spark, settings.warehouse, "shop", "t").collect()
    with suppress(KafkaUnreachable):
        KafkaTopics(spark, settings).ends()


def changes(spark: SparkSession, start: int, end: int) -> DataFrame:
    """Made-up inserts with `seq` from `start` to `end`, in the columns of Spark's Kafka source."""
    rows = spark.range(start, end, numPartitions=1).selectExpr("id", "'c' AS op")
    return rows.selectExpr("id", f"CAST({_VALUE} AS BINARY) AS value").selectExpr(
        f"'{_TOPIC[0]}' AS topic",
        "0 AS partition",
        "id AS offset",
        "CAST(NULL AS BINARY) AS key",
        "value",
        "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
        "current_timestamp() AS timestamp",
    )


if __name__ == "__main__":
    sys.exit(main())
