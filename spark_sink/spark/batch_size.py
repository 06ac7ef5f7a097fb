"""How many offsets a batch may have: by the memory of the processes that hold it.

With a local master that is the driver. On a cluster the executors hold the batch, and the driver only plans it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from spark_sink.settings.model import Settings, limit_for
from spark_sink.spark.java import java_class
from spark_sink.spark.session import submitted

_MEMORY = "1g"
"""Spark's default for the driver's memory."""


def batch_limit(spark: SparkSession, settings: Settings) -> int:
    """The most offsets of a batch: as set, or as the memory allows that Spark has now.

    Executors that register later are not counted: a batch is then smaller than it could be.
    """
    is_own = settings.master.startswith("local") and not submitted()
    if settings.max_offsets_per_trigger or is_own:
        return settings.batch_limit
    return limit_for(memory(spark))


def memory(spark: SparkSession) -> int:
    """The memory of the driver, with a local master, or of all executors; in MiB."""
    conf = spark.sparkContext.getConf()
    context: Any = spark.sparkContext._jsc.sc()
    if context.isLocal():
        size = java_class(spark._jvm, "org.apache.spark.network.util.JavaUtils")
        return int(size.byteStringAsMb(conf.get("spark.driver.memory", _MEMORY)))
    # The driver is among them.
    registered = int(context.getExecutorMemoryStatus().size()) - 1
    asked_for = int(conf.get("spark.executor.instances", "1") or "1")
    return max(registered, asked_for) * int(context.executorMemory())
