"""Maintenance of Iceberg tables: small files rewritten, snapshots expired, orphans and markers removed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from spark_sink.warehouse.iceberg.catalog import Catalog, IcebergTable, Place
from spark_sink.warehouse.iceberg.conflict import conflicts_by_name
from spark_sink.warehouse.iceberg.own_table import kept_for
from spark_sink.warehouse.iceberg.tables import IcebergTables
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.sql.statements import old_markers_sql, properties_sql

_SMALL_FILES: Final = {"min_input_files": "2"}
_DATA_FILES: Final = {
    **_SMALL_FILES,
    # Also a large file of which so many parts are deleted that readers pay for it.
    "delete_file_threshold": "5",
    "remove_dangling_deletes": "true",
}


@dataclass(slots=True, kw_only=True)
class IcebergUpkeep:
    """See protocol.Upkeep."""

    spark: SparkSession
    tables: IcebergTables

    def retain(self, name: Name, seconds: int) -> None:
        """See protocol.Upkeep."""
        wanted = kept_for(seconds)
        held = self._table(name).properties()
        if any(held.get(key) != value for key, value in wanted.items()):
            with conflicts_by_name():
                self.spark.sql(
                    f"ALTER TABLE {self._sql_name(name)} SET TBLPROPERTIES ({properties_sql(wanted)})"
                )

    def sources_if_old(self, name: Name, before: int) -> Collection[str]:
        """See protocol.Upkeep."""
        rows = self.spark.table(self._sql_name(name))
        if rows.where(old_markers_sql(before)).isEmpty():
            return ()
        return {row[0] for row in rows.select("__destination").distinct().collect()}

    def purge(self, name: Name, before: int) -> None:
        """See protocol.Upkeep."""
        table, old = self._sql_name(name), old_markers_sql(before)
        with conflicts_by_name():
            if not self.spark.table(table).where(old).isEmpty():
                self.spark.sql(f"DELETE FROM {table} WHERE {old}")  # noqa: S608 - a number

    def compact(self, name: Name) -> None:
        """See protocol.Upkeep."""
        place = self._place(name)
        with conflicts_by_name():
            self._call("rewrite_data_files", place, _DATA_FILES)
            self._call("rewrite_position_delete_files", place, _SMALL_FILES)
            self._call("rewrite_manifests", place)

    def remove_unused(self, name: Name) -> None:
        """See protocol.Upkeep."""
        with conflicts_by_name():
            self._table(name).remove_unused()

    def version(self, name: Name, *, at_least: bool = False) -> int:  # noqa: ARG002 - it is cheap to read
        """See protocol.Upkeep. -1 without the table."""
        found = self._catalog.table(self._place(name))
        return -1 if found is None else found.version()

    def _call(
        self,
        procedure: str,
        place: Place,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.spark.sql(self._catalog.call(procedure, place, options))

    def _table(self, name: Name) -> IcebergTable:
        return self._catalog.existing(self._place(name))

    def _sql_name(self, name: Name) -> str:
        return self._catalog.sql_name(self._place(name))

    def _place(self, name: Name) -> Place:
        return self.tables.place(*name)

    @property
    def _catalog(self) -> Catalog:
        return self.tables.catalog
