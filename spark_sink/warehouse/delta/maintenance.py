"""Maintenance of Delta tables: purges old markers, joins and clusters files, removes those without a use."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from typing import Final

from pyspark.sql import SparkSession

from spark_sink.spark.files import Files
from spark_sink.spark.jobs import LARGE, copied, for_many_rows
from spark_sink.warehouse.common.conflicts import limited
from spark_sink.warehouse.common.statements import old_markers_sql, sources_if_old
from spark_sink.warehouse.delta.ddl import cluster_sql, delta
from spark_sink.warehouse.delta.log import DeltaLog, conflicts_by_name
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.table_rules import Layouts, among, no_layout
from wire.warehouse_folders import table_path

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
            return sources_if_old(rows, before)

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
        try:
            return int(json.loads(text or "{}").get("version", 0))
        except (ValueError, AttributeError, TypeError):
            # A crash has left the file incomplete; Delta does not depend on it either, and reads the log.
            return self._delta_log(name).version()

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
