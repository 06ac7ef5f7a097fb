"""A warehouse of Delta tables in one folder."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_sink.spark.files import Files
from spark_sink.spark.jobs import LARGE, copied, for_many_rows
from spark_sink.text.quoting import (
    DELETED_KEYS,
    HISTORY,
    LETTERS,
    LOG,
    MOVING,
    RECENT,
    RELOAD,
)
from spark_sink.warehouse.common.dead_letters import TableLetters
from spark_sink.warehouse.common.statements import old_markers_sql
from spark_sink.warehouse.common.time_limit import limited
from spark_sink.warehouse.delta.commits import DeltaCommits
from spark_sink.warehouse.delta.conflict import again_on_conflict, conflicts_by_name
from spark_sink.warehouse.delta.ddl import cluster_sql, delta, letters_sql
from spark_sink.warehouse.delta.facts import DeltaFacts
from spark_sink.warehouse.delta.log import DeltaLog, entries
from spark_sink.warehouse.delta.own_table import OwnTable
from spark_sink.warehouse.delta.recent import DeltaRecent
from spark_sink.warehouse.delta.tables import DeltaTables
from spark_sink.warehouse.layout import Layouts, among, no_layout
from spark_sink.warehouse.log import EVERY, KEEP_SECONDS, SinkLog
from spark_sink.warehouse.notes import FileNotes
from spark_sink.warehouse.protocol import Name, Space
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
        path, seconds = f"{root}/{LETTERS}", min(retention_seconds, KEEP_SECONDS)
        own = OwnTable(spark, path, every=every, retention_seconds=seconds)
        self.letters = letters(path, own)
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


def letters(path: str, table: OwnTable) -> TableLetters:
    """The dead letters in a Delta table."""

    def create(session: SparkSession, columns: str) -> None:
        again_on_conflict(lambda: session.sql(letters_sql(path, columns)))

    return TableLetters(table, delta(path), create=create, again=again_on_conflict)


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


_log = logging.getLogger(__name__)
_STEP: Final = str(64 * 1024 * 1024)
_SMALL_STEPS: Final = {
    "spark.databricks.delta.optimize.maxFileSize": _STEP,
    "spark.databricks.delta.optimize.batchSize": _STEP,
    # In a clustered table, only new files are joined: all files that are in no cube yet would be one commit.
    "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.threshold": _STEP,
    "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize": _STEP,
}
"""Joining files of this size takes some seconds."""


class DeltaUpkeep:
    """See protocol.Upkeep."""

    def __init__(self, spark: SparkSession, root: str, *, layouts: Layouts = no_layout) -> None:
        self._spark = spark
        self._root = root
        self._layouts = layouts

    def retain(self, name: Name, seconds: int) -> None:
        with conflicts_by_name():
            self._delta_log(name).settle_retention(seconds)

    def sources_if_old(self, name: Name, before: int) -> Collection[str]:
        with conflicts_by_name():
            rows = self._spark.read.format("delta").load(self._path(name))
            if rows.where(old_markers_sql(before)).isEmpty():
                return ()
            return {row[0] for row in rows.select("__destination").distinct().collect()}

    def purge(self, name: Name, before: int, *, seconds: float | None = None) -> None:
        path = self._path(name)
        with conflicts_by_name(), limited(self._spark, seconds):
            session = self._session(name)
            rows = session.read.format("delta").load(path)
            if not rows.where(old_markers_sql(before)).isEmpty():
                session.sql(f"DELETE FROM {delta(path)} WHERE {old_markers_sql(before)}")  # noqa: S608 - a number

    def compact(self, name: Name, *, seconds: float | None = None) -> None:
        """See protocol.Upkeep. Follows a changed layout first, as far as Delta can.

        Where rows are removed for good, it also removes those that deletion vectors mark.
        """
        with conflicts_by_name(), limited(self._spark, seconds):
            self._settle_layout(name)
            table, session = delta(self._path(name)), self._session(name)
            if seconds is not None:
                session = copied(session, _SMALL_STEPS)
            session.sql(f"OPTIMIZE {table}")
            if self._layouts(name).is_purged:
                # OPTIMIZE leaves a file as it is while fewer than a twentieth of its rows are marked.
                session.sql(f"REORG TABLE {table} APPLY (PURGE)")

    def remove_unused(self, name: Name) -> None:
        log = self._delta_log(name)
        with conflicts_by_name():
            log.vacuum()
            log.forget()

    def version(self, name: Name, *, at_least: bool = False) -> int:
        """See protocol.Upkeep. With `at_least`, the version of the log's last checkpoint."""
        if not at_least:
            return self._delta_log(name).version()
        text = Files(self._spark).read(f"{self._path(name)}/_delta_log/_last_checkpoint")
        return int(json.loads(text or "{}").get("version", 0))

    def _session(self, name: Name) -> SparkSession:
        """The session for what reads or writes all of a table."""
        is_large = self._delta_log(name).size() >= LARGE
        return for_many_rows(self._spark) if is_large else self._spark

    def _settle_layout(self, name: Name) -> None:
        path, layout = self._path(name), self._layouts(name)
        if not layout.is_stated:
            return
        (detail,) = self._spark.sql(f"DESCRIBE DETAIL {delta(path)}").collect()
        there = self._spark.read.format("delta").load(path).columns
        partitions, clusters = detail.partitionColumns, detail.clusteringColumns
        wanted = among(layout.cluster_by, there)
        if partitions != among(layout.partition_by, there) or (partitions and wanted):
            _log.warning(
                "its partitions are not those of the settings: reload it to write its rows again table=%s.%s",
                *name,
            )
        elif clusters != wanted:
            self._spark.sql(cluster_sql(path, wanted))
            _log.info("table clustered by %s table=%s.%s", ", ".join(wanted) or "nothing", *name)

    def _delta_log(self, name: Name) -> DeltaLog:
        return DeltaLog(self._spark, self._path(name))

    def _path(self, name: Name) -> str:
        return table_path(self._root, *name)
