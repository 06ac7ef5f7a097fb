"""The warehouse's format, chosen here and nowhere else."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from spark_sink.warehouse.delta.ledger import EVERY, RETENTION_SECONDS
from spark_sink.warehouse.delta.warehouse import DeltaWarehouse
from spark_sink.warehouse.protocol import Warehouse


def opened(
    spark: SparkSession,
    root: str,
    *,
    every: int = EVERY,
    retention_seconds: int = RETENTION_SECONDS,
) -> Warehouse[DataFrame]:
    """The warehouse in a folder; `every` and `retention_seconds` bound its own records of the past."""
    return DeltaWarehouse(spark, root, every=every, retention_seconds=retention_seconds)
