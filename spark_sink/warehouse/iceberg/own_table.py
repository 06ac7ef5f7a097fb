"""A small Iceberg table for the sink's own records. See `common.own_table`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from spark_sink.warehouse.common.statements import properties_sql
from spark_sink.warehouse.iceberg.catalog import RETENTION, Catalog, Place
from spark_sink.warehouse.iceberg.conflict import again_on_conflict
from spark_sink.warehouse.iceberg.ddl import PROPERTIES

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class IcebergOwnTable:
    """A small table, due for a rewrite after every `every` commits of this process."""

    spark: SparkSession
    catalog: Catalog
    place: Place
    every: int
    retention_seconds: int
    _commits: int = 0

    def read(self) -> DataFrame | None:
        held = self.catalog.table(self.place)
        return None if held is None else self.spark.table(self.catalog.sql_name(self.place))

    def due(self) -> bool:
        """See common.own_table.OwnTable. At the first commit, due if the table lists many snapshots."""
        self._commits += 1
        if self._commits == 1:
            held = self.catalog.table(self.place)
            return held is not None and held.kept_snapshots() > self.every
        return self._commits % self.every == 0

    def compact(self) -> None:
        statement = self.catalog.call("rewrite_data_files", self.place, {"min_input_files": "2"})
        again_on_conflict(lambda: self.spark.sql(statement))
        again_on_conflict(lambda: self.catalog.existing(self.place).remove_unused())

    def create(self, columns: str, more: Mapping[str, str] | None = None) -> None:
        """Make the table with these columns if it does not exist; `more` are further properties."""
        self.catalog.make_namespace(self.place[0])
        properties = {**PROPERTIES, **kept_for(self.retention_seconds), **(more or {})}
        table = self.catalog.sql_name(self.place)
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING iceberg "
            f"TBLPROPERTIES ({properties_sql(properties)})"
        )


def kept_for(seconds: int) -> dict[str, str]:
    """The property that sets how long snapshots are kept."""
    return {RETENTION: str(seconds * 1000)}
