"""Maintenance of Iceberg tables: purges old markers, joins files, removes snapshots and files without a use."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from spark_sink.warehouse.common.conflicts import limited
from spark_sink.warehouse.common.statements import old_markers_sql, properties_sql, sources_if_old
from spark_sink.warehouse.iceberg.catalog import (
    Catalog,
    IcebergTable,
    Place,
    conflicts_by_name,
    is_partial,
)
from spark_sink.warehouse.iceberg.own_tables import kept_for
from spark_sink.warehouse.iceberg.tables import IcebergTables
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.spark_failures import FAILURES

_SMALL_FILES: Final = {"min_input_files": "2"}
_DATA_FILES: Final = {
    **_SMALL_FILES,
    # Also rewrite a large file that has so many files of deletes that readers pay for them.
    "delete_file_threshold": "5",
    "remove_dangling_deletes": "true",
}
_STEPWISE: Final = {
    "partial_progress.enabled": "true",
    # Each group of files is a commit of its own, and none may fail unseen.
    "partial_progress.max_commits": "100000",
    "partial_progress.max_failed_commits": "0",
    "max_file_group_size_bytes": str(512 * 1024 * 1024),
}
_SMALL_STEPS: Final = {"max_file_group_size_bytes": str(64 * 1024 * 1024)}
"""Joining files of this size takes some seconds."""


@dataclass(slots=True, kw_only=True)
class IcebergUpkeep:
    """See protocol.Upkeep."""

    spark: SparkSession
    tables: IcebergTables

    def retain(self, name: Name, seconds: int) -> None:
        wanted = kept_for(seconds)
        held = self._table(name).properties()
        if any(held.get(key) != value for key, value in wanted.items()):
            with conflicts_by_name():
                self.spark.sql(
                    f"ALTER TABLE {self._sql_name(name)} SET TBLPROPERTIES ({properties_sql(wanted)})"
                )

    def sources_if_old(self, name: Name, before: int) -> Collection[str]:
        return sources_if_old(self.spark.table(self._sql_name(name)), before)

    def purge(self, name: Name, before: int, *, seconds: float | None = None) -> None:
        table, old = self._sql_name(name), old_markers_sql(before)
        with conflicts_by_name(), limited(self.spark, seconds):
            if not self.spark.table(table).where(old).isEmpty():
                self.spark.sql(f"DELETE FROM {table} WHERE {old}")  # noqa: S608 - a number

    def compact(self, name: Name, *, seconds: float | None = None) -> None:
        place, options = self._place(name), {**_DATA_FILES, **_STEPWISE}
        if seconds is not None:
            options |= _SMALL_STEPS
        with conflicts_by_name(), limited(self.spark, seconds):
            try:
                self._call("rewrite_data_files", place, options)
            except FAILURES as failure:
                if not is_partial(failure) or seconds is None:
                    raise
                # No batch commits meanwhile, so the reason may be another one: this call raises it.
                self._call("rewrite_data_files", place, {**_DATA_FILES, **_SMALL_STEPS})
            self._call("rewrite_position_delete_files", place, _SMALL_FILES)
            self._call("rewrite_manifests", place)

    def remove_unused(self, name: Name) -> None:
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
