"""What registers the tables of a warehouse, from the sink's settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from spark_sink.jobs.metastore.keeper import MetastoreKeeper
from spark_sink.jobs.metastore.registration import Registrar
from spark_sink.settings.model import Metastore, Settings
from spark_sink.warehouse.opening import open_metastore
from spark_sink.warehouse.protocol import Warehouse
from spark_sink.warehouse.shape import Shape


def keeper(
    registrar: Callable[[], Registrar],
    settings: Metastore,
    *,
    shapes: Callable[[], frozenset[Shape]],
    moved: Callable[[], int],
) -> MetastoreKeeper | None:
    """What keeps the metastore up to date beside a sink; None without a metastore."""
    if not settings.uri:
        return None
    return MetastoreKeeper(registrar=registrar, shapes=shapes, moved=moved, clock=time.monotonic)


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
