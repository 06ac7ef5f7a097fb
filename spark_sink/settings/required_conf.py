"""Spark settings that the sink sets itself: exactness and fast small batches need them under any master.

Invariant: if the operator gives a different value, the setting is refused by name, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BY_FORMAT: Final[Mapping[str, Mapping[str, str]]] = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    # Iceberg's catalog is set when the warehouse is opened; the sink's SQL needs none of its extensions.
    "iceberg": {},
}

COMMIT_MARK: Final = "aqueduct"
"""The mark that each commit of the sink has."""
ICEBERG_MARK: Final = "aqueduct.sink"
"""The key of that mark in the summary of an Iceberg snapshot."""
MARKS: Final = {
    "spark.databricks.delta.commitInfo.userMetadata": COMMIT_MARK,
    f"spark.sql.iceberg.snapshot-property.{ICEBERG_MARK}": COMMIT_MARK,
}

_ALWAYS: Final = {
    **MARKS,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.datetime.java8API.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false",
    "spark.sql.streaming.stopTimeout": "10s",
    "spark.ui.showConsoleProgress": "false",
    # Otherwise Spark substitutes ${…} in names of tables and columns, also by environment variables.
    "spark.sql.variable.substitute": "false",
}


def required(table_format: str) -> dict[str, str]:
    """The settings that the sink needs with a warehouse in this format."""
    return {**BY_FORMAT[table_format], **_ALWAYS}
