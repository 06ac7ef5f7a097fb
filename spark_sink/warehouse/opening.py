"""The choice of the warehouse's format, made only here.

Invariant: a warehouse is opened in the format in which it was made. A warehouse in Iceberg has a note that
names its format and the type of its catalog, written before its first table; without that note, it is in Delta.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Literal

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from spark_sink.errors import ForeignWarehouse
from spark_sink.settings.model import Metastore
from spark_sink.spark.bucket_advice import unusable
from spark_sink.spark.files import Files
from spark_sink.text.quoting import FLOORS, FORMAT, LEDGER, LOG, ORIGIN, RECENT, WAITS
from spark_sink.warehouse.delta.hive import HiveMetastore
from spark_sink.warehouse.delta.warehouse import DeltaWarehouse
from spark_sink.warehouse.iceberg.catalog import NAME, kind
from spark_sink.warehouse.iceberg.warehouse import IcebergWarehouse
from spark_sink.warehouse.log import EVERY, KEEP_SECONDS
from spark_sink.warehouse.protocol import Warehouse
from spark_sink.warehouse.table_rules import Layouts, no_layout

Format = Literal["delta", "iceberg"]
_SIGNS: Final = frozenset({LOG, LEDGER, FLOORS, ORIGIN, RECENT, WAITS})
"""What a sink leaves in the folder from its start on."""


def open_warehouse(
    spark: SparkSession,
    root: str,
    *,
    table_format: Format | None = None,
    catalog: Mapping[str, str] | None = None,
    every: int = EVERY,
    retention_seconds: int = KEEP_SECONDS,
    layouts: Layouts = no_layout,
) -> Warehouse[DataFrame]:
    """Return the warehouse in a folder; `every` and `retention_seconds` bound the history it keeps.

    Without `table_format`, the format is the warehouse's own, or Delta if there is no warehouse yet. `catalog`
    has the properties of Iceberg's catalog; `layouts` returns the layouts of tables in Delta. Raise
    ForeignWarehouse and WarehouseUnusable.
    """
    try:
        made, of_catalog, named = _made(Files(spark), root.rstrip("/"))
    except Py4JError as fault:
        raise unusable(root, fault) from fault
    if made and table_format and made != table_format:
        raise ForeignWarehouse(
            f"{root} is in {made}, and {table_format} is wanted",
            advice=f"Set format: {made}, or name another folder",
        )
    if (table_format or made or "delta") == "delta":
        return DeltaWarehouse(
            spark, root, every=every, retention_seconds=retention_seconds, layouts=layouts
        )
    properties = catalog or {}
    if of_catalog and of_catalog != kind(properties):
        raise ForeignWarehouse(
            f"the tables of {root} are in a catalog of type {of_catalog}, not {kind(properties)}",
            advice="Set catalog as the sink that made the warehouse has it",
        )
    if of_catalog and named != properties.get(NAME, ""):
        raise ForeignWarehouse(
            f"the tables of {root} are in a catalog with the name {named or 'of no setting'}",
            advice="Set the name in catalog as the sink that made the warehouse has it",
        )
    return IcebergWarehouse(
        spark,
        root,
        catalog=properties,
        every=every,
        retention_seconds=retention_seconds,
    )


def _made(files: Files, root: str) -> tuple[Format | None, str, str]:
    """The format of an existing warehouse, and its catalog's type and name; None if there is no warehouse."""
    text = files.read(f"{root}/{FORMAT}")
    if text is None:
        return ("delta" if _SIGNS.intersection(files.names(root)) else None), "", ""
    note: dict[str, Any] = {}
    with suppress(ValueError):
        note = json.loads(text)
    if note.get("version") != 1:
        raise ForeignWarehouse(
            f"{root}/{FORMAT} cannot be read by this version",
            advice="Use the version of the sink that made it",
        )
    return note["format"], note["catalog"], note.get(NAME, "")


def open_metastore(spark: SparkSession, settings: Metastore) -> HiveMetastore:
    """Return the metastore in which the tables are registered; it connects at its first request."""
    return HiveMetastore(spark, settings)
