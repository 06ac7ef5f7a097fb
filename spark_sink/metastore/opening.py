"""What registers the tables of a warehouse, from the sink's settings."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

from spark_sink.metastore.registration import Registrar
from spark_sink.settings import Settings
from spark_sink.warehouse.opening import open_metastore
from spark_sink.warehouse.protocol import Warehouse


def registrar(spark: SparkSession, settings: Settings, warehouse: Warehouse[Any]) -> Registrar:
    """Returns it; the metastore is first asked when tables are registered."""
    return Registrar(
        metastore=open_metastore(spark, settings.metastore),
        tables=warehouse.tables,
        notes=warehouse.notes,
        root=settings.warehouse,
        databases=settings.metastore.databases,
        views=settings.metastore.views,
        clock=time.time,
    )
