"""The choice of the warehouse's format, made only here."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from spark_sink.metastore.registration import Metastore
from spark_sink.settings import Metastore as MetastoreSettings
from spark_sink.warehouse.delta.hive import HiveMetastore
from spark_sink.warehouse.delta.ledger import EVERY, RETENTION_SECONDS
from spark_sink.warehouse.delta.warehouse import DeltaWarehouse
from spark_sink.warehouse.protocol import Warehouse


def open_warehouse(
    spark: SparkSession,
    root: str,
    *,
    every: int = EVERY,
    retention_seconds: int = RETENTION_SECONDS,
) -> Warehouse[DataFrame]:
    """Returns the warehouse in a folder; `every` and `retention_seconds` bound the history it keeps."""
    return DeltaWarehouse(spark, root, every=every, retention_seconds=retention_seconds)


def open_metastore(spark: SparkSession, settings: MetastoreSettings) -> Metastore:
    """Returns the metastore in which the tables are registered; connects when it is first asked."""
    return HiveMetastore(spark, settings)
