"""A warehouse of Delta tables in one folder, with the facts that their logs have.

A commit's checksum file has the table's metadata and, for a table of few files, all files with their
statistics: then only small files of the log are read for the facts. For other tables, Delta reads its log in
one job. Invariant: no row is read for facts unless rows are to be counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from spark_sink.spark.files import Files
from spark_sink.text.quoting import (
    DELETED_KEYS,
    HISTORY,
    LETTERS,
    LOG,
    MOVING,
    RECENT,
    RELOAD,
    quoted,
)
from spark_sink.warehouse.common.own_tables import TableLetters
from spark_sink.warehouse.delta.foreign_commits import DeltaCommits
from spark_sink.warehouse.delta.log import DeltaLog, checksum, entries, shape_at
from spark_sink.warehouse.delta.maintenance import DeltaUpkeep
from spark_sink.warehouse.delta.own_tables import DeltaLetters, DeltaRecent
from spark_sink.warehouse.delta.tables import DeltaTables, physical_names
from spark_sink.warehouse.log import EVERY, KEEP_SECONDS, SinkLog
from spark_sink.warehouse.notes import FileNotes
from spark_sink.warehouse.protocol import LastMerge, Name, RowCount, Space, TableFacts
from spark_sink.warehouse.seen_rows import row_count
from spark_sink.warehouse.table_rules import Layouts, no_layout
from wire.warehouse_folders import table_path


class DeltaWarehouse:
    """See protocol.Warehouse."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        *,
        every: int = EVERY,
        retention_seconds: int = KEEP_SECONDS,
        layouts: Layouts = no_layout,
    ) -> None:
        root = root.rstrip("/")

        def space(folder: str) -> Space[DataFrame]:
            beside = f"{root}/{folder}"
            return Space(
                tables=DeltaTables(spark, beside),
                upkeep=DeltaUpkeep(spark, beside),
                commits=DeltaCommits(spark, beside),
            )

        self.tables = DeltaTables(spark, root, layouts=layouts)
        self.stage = DeltaTables(spark, f"{root}/{RELOAD}")
        self.facts = DeltaFacts(spark, root)
        self.commits = DeltaCommits(spark, root)
        self.moving = DeltaTables(spark, f"{root}/{MOVING}")
        seconds = min(retention_seconds, KEEP_SECONDS)
        letters = DeltaLetters(spark, f"{root}/{LETTERS}", retention_seconds=seconds)
        self.letters = TableLetters(letters, every=every)
        # Readers of consistent cuts go back as far in recent changes as in the tables.
        self.recent = DeltaRecent(spark, f"{root}/{RECENT}", retention_seconds=retention_seconds)
        self.upkeep = DeltaUpkeep(spark, root, layouts=layouts)
        self.deleted = space(DELETED_KEYS)
        self.histories = space(HISTORY)
        conf = dict(spark.sparkContext.getConf().getAll())
        self.notes = FileNotes(Files(spark), root, excludes=excludes_writers(root, conf))
        self.log = SinkLog(
            notes=self.notes,
            where=f"{root}/{LOG}",
            every=every,
            keep_seconds=retention_seconds,
            earlier=_Earlier(spark, root),
        )


def current(
    spark: SparkSession, warehouse: str, database: str, table: str, *, bookkeeping: bool = False
) -> DataFrame:
    """The current rows of a table, without deleted ones; `bookkeeping` adds the bookkeeping columns.

    `spark` needs Delta's two session settings (docs/sink/tables.md). For a table without a primary key,
    each row is repeated as often as the source has it, and its only bookkeeping column is
    `__unrepresentable`. Raise UnknownTable.
    """
    return DeltaTables(spark, warehouse).current(database, table, bookkeeping=bookkeeping)


_S3: Final = ("s3", "s3a", "s3n")
_OF_ONE_DRIVER: Final = "S3SingleDriverLogStore"


def excludes_writers(root: str, conf: Mapping[str, str]) -> bool:
    """Whether two processes may write tables below `root`, by Spark's options for Delta's log store.

    A log store that is set for S3, other than Delta's default, is trusted.

    Delta writes a commit as a file that must not exist yet. On HDFS, Azure, GCS and a disk, the store refuses
    the second of two such files. For S3, Delta first looks whether the file exists and then writes it, under a
    lock of its own JVM: one of two processes replaces what the other has committed, and neither notices.
    """
    scheme, colon, _ = root.partition(":")
    if not colon or scheme not in _S3:
        return True
    of_scheme = conf.get(f"spark.delta.logStore.{scheme}.impl", "")
    store = of_scheme or conf.get("spark.delta.logStore.class", "")
    return bool(store) and not store.endswith(_OF_ONE_DRIVER)


@dataclass(frozen=True, slots=True)
class _Earlier:
    """See EarlierTables."""

    spark: SparkSession
    root: str

    def version(self, name: str) -> str:
        return max(entries(Files(self.spark), f"{self.root}/{name}"), default="")

    def rows(self, name: str) -> list[dict[str, Any]]:
        rows = self.spark.read.format("delta").load(f"{self.root}/{name}")
        return [row.asDict(recursive=True) for row in rows.collect()]

    def remove(self, name: str) -> None:
        Files(self.spark).delete(f"{self.root}/{name}")


_COMMITS: Final = 10
"""The number of commits that are searched for the last MERGE: maintenance makes a few after a MERGE."""
_LONGEST_STATISTIC: Final = 32
"""Characters of a text in Delta's statistics; a longer text is cut."""


class DeltaFacts:
    """See protocol.Facts."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root
        self._files = Files(spark)

    def of(self, name: Name) -> TableFacts | None:
        path = table_path(self._root, *name)
        last = self._last_commit(path)
        if last is None:
            return None
        noted = checksum(self._files, path, last)
        metadata, files = noted.get("metadata"), noted.get("allFiles")
        if metadata is None:
            metadata = DeltaLog(self._spark, path).metadata()
        schema = StructType.fromJson(json.loads(metadata["schemaString"]))
        comment = metadata.get("description") or ""
        shape = shape_at(path, name, metadata["configuration"], schema, comment)
        physical = physical_names(metadata["schemaString"])
        totals = self._computed(path, physical) if files is None else _totals(files, physical)
        written, merged = self._commits(path, last)
        return TableFacts(shape=shape, written_ms=written, last_merge=merged, **totals)

    def size(self, name: Name) -> int:
        """See protocol.Facts. The size is known if the last version has a checksum file."""
        path = table_path(self._root, *name)
        last = self._last_commit(path)
        return (
            0 if last is None else int(checksum(self._files, path, last).get("tableSizeBytes", 0))
        )

    def count(self, name: Name) -> RowCount:
        """See protocol.Facts. Reads three columns of all rows."""
        rows = self._spark.read.format("delta").load(table_path(self._root, *name))
        return row_count(rows)

    def last_merge(self, name: Name) -> LastMerge | None:
        path = table_path(self._root, *name)
        last = self._last_commit(path)
        return None if last is None else self._commits(path, last)[1]

    def _last_commit(self, path: str) -> int | None:
        names = self._files.names(f"{path}/_delta_log")
        numbers = [int(one[:20]) for one in names if one[20:] == ".json" and one[:20].isdigit()]
        return max(numbers, default=None)

    def _commits(self, path: str, last: int) -> tuple[int, LastMerge | None]:
        """The time of the last commit (ms), and the last merge among the last few commits."""
        written = 0
        for version in range(last, max(-1, last - _COMMITS), -1):
            text = self._files.read(f"{path}/_delta_log/{version:020}.json")
            if text is None:
                break
            info = _commit_info(text)
            written = written or int(info.get("timestamp", 0))
            if found := _MERGES.get(info.get("operation", "")):
                return written, found(info)
        return written, None

    def _computed(self, path: str, physical: dict[str, str]) -> dict[str, Any]:
        """The totals of a table of many files, in one job."""
        time, destination = quoted(physical["__ts_ms"]), quoted(physical["__destination"])
        schema = (
            f"numRecords BIGINT, minValues STRUCT<{destination}: STRING>, "
            f"maxValues STRUCT<{destination}: STRING, {time}: BIGINT>"
        )
        files: DataFrame = DeltaLog(self._spark, path).files()
        parsed = files.withColumn("s", f.from_json("stats", schema))
        ends = ", ".join(f"s.{end}.{destination}" for end in ("minValues", "maxValues"))
        (row,) = parsed.agg(
            f.expr("count(*)").alias("files"),
            f.expr("coalesce(sum(size), 0)").alias("bytes"),
            f.expr("sum(s.numRecords - coalesce(deletionVector.cardinality, 0))").alias("rows"),
            f.expr("count_if(s.numRecords IS NULL)").alias("unknown"),
            f.expr(f"max(s.maxValues.{time})").alias("newest"),
            f.expr(f"flatten(collect_set(array({ends})))").alias("ends"),
        ).collect()
        return {
            "files": row.files,
            "bytes": row.bytes,
            "rows": None if row.unknown else row.rows or 0,
            "newest_ms": row.newest,
            "destinations": _whole(row.ends),
        }


def _totals(files: list[dict[str, Any]], physical: dict[str, str]) -> dict[str, Any]:
    statistics = [json.loads(file.get("stats") or "{}") for file in files]
    time, destination = physical["__ts_ms"], physical["__destination"]
    rows = [
        one["numRecords"] - (file.get("deletionVector") or {}).get("cardinality", 0)
        for file, one in zip(files, statistics, strict=True)
        if "numRecords" in one
    ]
    times = [one.get("maxValues", {}).get(time) for one in statistics]
    ends = [
        one.get(end, {}).get(destination)
        for one in statistics
        for end in ("minValues", "maxValues")
    ]
    return {
        "files": len(files),
        "bytes": sum(file["size"] for file in files),
        "rows": sum(rows) if len(rows) == len(files) else None,
        "newest_ms": max((time for time in times if time is not None), default=None),
        "destinations": _whole(ends),
    }


def _whole(ends: list[str | None]) -> tuple[str, ...]:
    """The names that are complete in the statistics."""
    return tuple(sorted({end for end in ends if end and len(end) < _LONGEST_STATISTIC}))


def _commit_info(text: str) -> dict[str, Any]:
    """What a commit states about itself, in its first line."""
    first = text.partition("\n")[0]
    try:
        info: dict[str, Any] = json.loads(first).get("commitInfo") or {}
    except ValueError:
        info = {}
    return info


def _last_merge(info: dict[str, Any]) -> LastMerge:
    metrics = info.get("operationMetrics") or {}

    def number(name: str) -> int:
        return int(metrics.get(name, 0))

    return LastMerge(
        at_ms=int(info["timestamp"]),
        scan_ms=number("scanTimeMs"),
        rewrite_ms=number("rewriteTimeMs"),
        rows_folded=number("numSourceRows"),
        rows_inserted=number("numTargetRowsInserted"),
        rows_updated=number("numTargetRowsUpdated"),
        rows_copied=number("numTargetRowsCopied"),
        files_added=number("numTargetFilesAdded"),
        files_removed=number("numTargetFilesRemoved"),
    )


def _first_merge(info: dict[str, Any]) -> LastMerge:
    """The merge that created the table: it searched nothing, and each of its rows was new."""
    metrics = info.get("operationMetrics") or {}
    rows = int(metrics.get("numOutputRows", 0))
    return LastMerge(
        at_ms=int(info["timestamp"]),
        scan_ms=0,
        rewrite_ms=None,
        rows_folded=rows,
        rows_inserted=rows,
        rows_updated=0,
        rows_copied=0,
        files_added=int(metrics.get("numFiles", 0)),
        files_removed=0,
    )


_MERGES: Final = {"MERGE": _last_merge, "CREATE TABLE AS SELECT": _first_merge}
"""The functions that read a merge from Delta's log, by the operation of its commit."""
