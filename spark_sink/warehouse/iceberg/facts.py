"""What the metadata of Iceberg tables says of them: files, bytes, rows, times, and how the last MERGE went.

Invariant: no row is read unless rows are to be counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from spark_sink.warehouse.iceberg.catalog import IcebergTable
from spark_sink.warehouse.iceberg.tables import IcebergTables
from spark_sink.warehouse.protocol import LastMerge, Name, RowCount, TableFacts
from spark_sink.warehouse.sql.facts import row_count

_COMMITS: Final = 10
"""Commits that are searched for the last MERGE: maintenance makes a few after one."""
_MERGED: Final = "spark.merge-into.num-target-rows-"
_PATH: Final = 2147483546
"""The column of a file of deletes that has the path of the data file, by its number in Iceberg's format."""
_DELETED: Final = (
    f"SELECT CAST(lower_bounds[{_PATH}] AS STRING) AS path, record_count AS rows FROM {{files}} "  # noqa: S608 - a number
    f"WHERE content = 1 AND lower_bounds[{_PATH}] = upper_bounds[{_PATH}]"
)
"""Files of deletes that are of one data file. A compaction may leave those of a file that it has replaced."""


@dataclass(slots=True, kw_only=True)
class IcebergFacts:
    """See protocol.Facts."""

    spark: SparkSession
    tables: IcebergTables

    def of(self, name: Name) -> TableFacts | None:
        """See protocol.Facts."""
        shape = self.tables.shape(*name)
        if shape is None:
            return None
        found = self._table(name)
        written = next((at for at, _ in found.summaries(1)), 0)
        return TableFacts(
            shape=shape, written_ms=written, last_merge=_last_merge(found), **self._totals(name)
        )

    def size(self, name: Name) -> int:
        """See protocol.Facts."""
        found = self.tables.catalog.table(self.tables.place(*name))
        return 0 if found is None else found.size()

    def count(self, name: Name) -> RowCount:
        """See protocol.Facts. Reads three columns of all rows."""
        return row_count(self.spark.table(self._sql_name(name)))

    def last_merge(self, name: Name) -> LastMerge | None:
        """See protocol.Facts."""
        found = self.tables.catalog.table(self.tables.place(*name))
        return None if found is None else _last_merge(found)

    def _totals(self, name: Name) -> dict[str, Any]:
        """The totals of the table's files, in one job."""
        files = f"{self._sql_name(name)}.files"
        held = "readable_metrics.__destination"
        (row,) = self.spark.sql(
            "SELECT count_if(content = 0) AS files, coalesce(sum(file_size_in_bytes), 0) AS bytes, "  # noqa: S608 - the names are quoted
            "coalesce(sum(IF(content = 0, record_count, 0)), 0) AS rows, "
            "coalesce(sum(d.rows), 0) AS deleted, max(readable_metrics.__ts_ms.upper_bound) AS newest, "
            "count_if(content = 1 AND NOT lower_bounds[2147483546] <=> upper_bounds[2147483546]) AS unknown, "
            f"array_sort(array_distinct(flatten(collect_set(array({held}.lower_bound, {held}.upper_bound))))) "
            f"AS ends FROM {files} AS f LEFT JOIN (SELECT path, sum(rows) AS rows FROM "
            f"({_DELETED.format(files=files)}) GROUP BY path) AS d ON f.content = 0 AND f.file_path = d.path"
        ).collect()
        return {
            "files": row.files,
            "bytes": row.bytes,
            "rows": None if row.unknown else row.rows - row.deleted,
            "newest_ms": row.newest,
            "destinations": tuple(end for end in row.ends if end),
        }

    def _table(self, name: Name) -> IcebergTable:
        return self.tables.catalog.existing(self.tables.place(*name))

    def _sql_name(self, name: Name) -> str:
        return self.tables.catalog.sql_name(self.tables.place(*name))


def _last_merge(table: IcebergTable) -> LastMerge | None:
    for at_ms, summary in table.summaries(_COMMITS):
        if f"{_MERGED}inserted" in summary:
            return _of_summary(at_ms, summary)
    return None


def _of_summary(at_ms: int, summary: Mapping[str, str]) -> LastMerge:
    def number(name: str) -> int:
        return max(0, int(summary.get(name, 0)))

    inserted, updated = number(f"{_MERGED}inserted"), number(f"{_MERGED}updated")
    return LastMerge(
        at_ms=at_ms,
        scan_ms=None,
        rewrite_ms=None,
        rows_folded=inserted + updated,
        rows_inserted=inserted,
        rows_updated=updated,
        rows_copied=number(f"{_MERGED}copied"),
        files_added=number("added-data-files") + number("added-delete-files"),
        files_removed=number("deleted-data-files") + number("removed-delete-files"),
    )
