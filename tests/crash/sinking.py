"""A process with Spark, which applies topics to a warehouse and then reports the tables' contents.

Invariant: the sink is the product's own, started as its command starts it; tables are read as by any reader of
the warehouse. ``python -m tests.crash.sinking PORT [MUTANT]``; it ends when its listener does.
"""

from __future__ import annotations

import os
import sys
import threading
from multiprocessing.connection import Client
from typing import Any

from pyspark.sql import SparkSession

from devstack.ports import HOST
from spark_sink.errors import SinkError, UnknownTable
from spark_sink.jobs.stream import Sink
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings
from spark_sink.spark import session
from spark_sink.warehouse.delta import current
from tests.crash.sinks import KEY_VARIABLE, Done, Order


def main(port: int, mutant: str | None) -> None:
    """Do one order after another."""
    if mutant is not None:
        from tests.crash.mutated_sink import PATCHES

        PATCHES[mutant]()
    key = os.environ.pop(KEY_VARIABLE).encode()
    spark: SparkSession | None = None
    with Client((HOST, port), authkey=key) as orders:
        try:
            while True:
                order: Order = orders.recv()
                settings = Settings(
                    prefix=order.prefix,
                    bootstrap_servers=order.bootstrap,
                    warehouse=order.warehouse,
                    mode="available-now",
                    exclude=order.exclude,
                )
                spark = spark or session.start(settings)
                orders.send(_done(spark, settings, order))
        except EOFError:
            pass
        finally:
            if spark is not None:
                session.close(spark)


def _done(spark: SparkSession, settings: Settings, order: Order) -> Done:
    try:
        Sink(spark, settings, Metrics()).run(threading.Event())
    except SinkError as error:
        return Done({}, f"{type(error).__name__}: {error}")
    return Done({table: _rows(spark, order, table) for table in order.tables})


def _rows(spark: SparkSession, order: Order, table: str) -> list[dict[str, Any]]:
    try:
        held = current(spark, order.warehouse, order.database, table)
    except UnknownTable:
        return []
    return [row.asDict() for row in held.collect()]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
