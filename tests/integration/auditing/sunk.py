"""A warehouse in one Spark session: brought up to date with Kafka, dumped, damaged, and dumped again.

``python -m tests.integration.auditing.sunk SETTINGS DUMP DUMP [STATEMENT ...]``; ``{shop.t}`` in a statement is
a table.
"""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path

from spark_sink.jobs.stream import Sink
from spark_sink.metrics import Metrics
from spark_sink.settings.model import read
from spark_sink.spark import session
from spark_sink.warehouse.delta.ddl import delta
from spark_sink.warehouse.dump import dump, written
from spark_sink.warehouse.opening import open_warehouse
from wire.warehouse_folders import table_path


def main(config: Path, right: Path, spoiled: Path, statements: list[str]) -> None:
    settings = read(config, mode="available-now")
    spark = session.start(settings)
    try:
        Sink(spark, settings, Metrics()).run(threading.Event())
        with written(right) as file:
            dump(open_warehouse(spark, settings.warehouse), settings.warehouse, file)
        for statement in statements:
            spark.sql(
                re.sub(
                    r"\{(\w+)\.(\w+)\}",
                    lambda name: delta(table_path(settings.warehouse, name[1], name[2])),
                    statement,
                )
            )
        with written(spoiled) as file:
            dump(open_warehouse(spark, settings.warehouse), settings.warehouse, file)
    finally:
        session.close(spark)


if __name__ == "__main__":
    config, right, spoiled = map(Path, sys.argv[1:4])
    main(config, right, spoiled, sys.argv[4:])
