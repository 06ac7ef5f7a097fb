"""A warehouse of Iceberg tables: in one folder, or in a catalog, with the sink's own texts in the folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_sink.spark.files import Files
from spark_sink.text.quoting import FORMAT, LOG, WAITS
from spark_sink.warehouse.common.own_tables import TableLetters
from spark_sink.warehouse.iceberg.catalog import (
    HADOOP,
    NAME,
    Catalog,
    IcebergTable,
    Place,
    digest,
    kind,
    registered,
)
from spark_sink.warehouse.iceberg.foreign_commits import IcebergCommits
from spark_sink.warehouse.iceberg.maintenance import IcebergUpkeep
from spark_sink.warehouse.iceberg.own_tables import IcebergLetters, IcebergRecent
from spark_sink.warehouse.iceberg.tables import IcebergTables
from spark_sink.warehouse.log import EVERY, KEEP_SECONDS, SinkLog
from spark_sink.warehouse.notes import FileNotes
from spark_sink.warehouse.protocol import LastMerge, Name, RowCount, Space, TableFacts
from spark_sink.warehouse.seen_rows import row_count

_OWN = "__aqueduct"


class IcebergWarehouse:
    """See protocol.Warehouse."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        *,
        catalog: Mapping[str, str],
        every: int = EVERY,
        retention_seconds: int = KEEP_SECONDS,
    ) -> None:
        root = root.rstrip("/")
        files, is_folder = Files(spark), kind(catalog) == HADOOP
        # Other warehouses may be in the same catalog.
        own = _OWN if is_folder else f"{_OWN}_{digest(root)}"
        note = {"version": 1, "format": "iceberg", "catalog": kind(catalog), "namespace": own}
        note |= {NAME: catalog[NAME]} if NAME in catalog else {}
        # A Hadoop catalog commits by renaming a file. Only on HDFS does that fail if another process was first.
        excludes = not is_folder or root.startswith("hdfs:")
        self.notes = FileNotes(files, root, first={FORMAT: json.dumps(note)}, excludes=excludes)
        own = json.loads(self.notes.read(FORMAT) or "{}").get("namespace", own)
        made = Catalog(
            spark=spark,
            name=registered(spark, root, catalog),
            kind=kind(catalog),
            prepare=self.notes.make,
        )

        folder = root if is_folder else None

        def space(name: str) -> Space[DataFrame]:
            tables = IcebergTables(spark=spark, catalog=made, root=folder, prefix=f"{own}_{name}_")
            return Space(
                tables=tables,
                upkeep=IcebergUpkeep(spark=spark, tables=tables),
                commits=IcebergCommits(tables=tables, notes=self.notes),
            )

        self.tables = IcebergTables(spark=spark, catalog=made, root=folder)
        self.deleted, self.histories = space("deleted"), space("history")
        self.facts = IcebergFacts(spark=spark, tables=self.tables)
        self.commits = IcebergCommits(tables=self.tables, notes=self.notes)
        self.moving = IcebergTables(spark=spark, catalog=made, root=folder, prefix=f"{own}_moving_")
        self.stage = IcebergTables(spark=spark, catalog=made, root=folder, prefix=f"{own}_reload_")
        letters = IcebergLetters(
            spark=spark,
            catalog=made,
            place=(own, "dead_letters"),
            retention_seconds=min(retention_seconds, KEEP_SECONDS),
        )
        self.letters = TableLetters(letters, every=every)
        self.log = SinkLog(
            notes=self.notes,
            where=f"{root}/{LOG}",
            every=every,
            keep_seconds=retention_seconds,
            earlier=_Earlier(catalog=made, files=files, root=root, own=own),
        )
        # Readers of consistent cuts go back as far in recent changes as in the tables.
        self.recent = IcebergRecent(
            spark=spark, catalog=made, place=(own, "recent"), retention_seconds=retention_seconds
        )
        self.upkeep = IcebergUpkeep(spark=spark, tables=self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Earlier:
    """See EarlierTables."""

    catalog: Catalog
    files: Files
    root: str
    own: str
    """The namespace of the sink's own tables."""

    def version(self, name: str) -> str:
        if name == WAITS:
            return max(self._waits(), default="")
        held = self.catalog.table(self._place(name))
        return "" if held is None else str(held.snapshot() or "none")

    def rows(self, name: str) -> list[dict[str, Any]]:
        if name == WAITS:
            texts = (self.files.read(f"{self.root}/{WAITS}/{one}") for one in self._waits())
            return [json.loads(text) for text in texts if text]
        rows = self.catalog.spark.table(self.catalog.sql_name(self._place(name)))
        return [row.asDict(recursive=True) for row in rows.collect()]

    def remove(self, name: str) -> None:
        if name == WAITS:
            self.files.delete(f"{self.root}/{WAITS}")
        else:
            self.catalog.drop(self._place(name))

    def _place(self, name: str) -> Place:
        return self.own, name.strip("_")

    def _waits(self) -> list[str]:
        # There is one file for each row; a file that was being written has a leading dot.
        return [one for one in self.files.names(f"{self.root}/{WAITS}") if not one.startswith(".")]


_COMMITS: Final = 10
"""The number of commits that are searched for the last MERGE: maintenance makes a few after a MERGE."""
_MERGED: Final = "spark.merge-into.num-target-rows-"
_PATH: Final = 2147483546
"""The number, in Iceberg's format, of the column with the data file's path in a file of deletes."""
_DELETED: Final = (
    f"SELECT CAST(lower_bounds[{_PATH}] AS STRING) AS path, record_count AS rows FROM {{files}} "  # noqa: S608 - a number
    f"WHERE content = 1 AND lower_bounds[{_PATH}] = upper_bounds[{_PATH}]"
)
"""Files of deletes for a single data file. A compaction may leave those of a data file that it has replaced."""


@dataclass(slots=True, kw_only=True)
class IcebergFacts:
    """See protocol.Facts.

    Invariant: no row is read unless rows are to be counted.
    """

    spark: SparkSession
    tables: IcebergTables

    def of(self, name: Name) -> TableFacts | None:
        shape = self.tables.shape(*name)
        if shape is None:
            return None
        found = self._table(name)
        written = next((at for at, _ in found.summaries(1)), 0)
        return TableFacts(
            shape=shape, written_ms=written, last_merge=_last_merge(found), **self._totals(name)
        )

    def size(self, name: Name) -> int:
        found = self.tables.catalog.table(self.tables.place(*name))
        return 0 if found is None else found.size()

    def count(self, name: Name) -> RowCount:
        """See protocol.Facts. Reads three columns of all rows."""
        return row_count(self.spark.table(self._sql_name(name)))

    def last_merge(self, name: Name) -> LastMerge | None:
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
