"""A small Delta table for the sink's own records. See `common.own_table`."""

from __future__ import annotations

import logging
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark_sink.spark.files import Files
from spark_sink.warehouse.delta.conflict import again_on_conflict
from spark_sink.warehouse.delta.ddl import delta
from spark_sink.warehouse.delta.log import DeltaLog, entries

_log = logging.getLogger(__name__)
_FILES_OF_A_COMMIT: Final = 3


class OwnTable:
    """A small table, due for a rewrite after every `every` commits of this process."""

    def __init__(
        self, spark: SparkSession, path: str, *, every: int = 0, retention_seconds: int = 0
    ) -> None:
        self._spark = spark
        self._files = Files(spark)
        self._path = path
        self._every = every
        self._retention = retention_seconds
        self._commits = 0

    def read(self) -> DataFrame | None:
        """The rows; None if there is no table."""
        there = entries(self._files, self._path)
        return self._spark.read.format("delta").load(self._path) if there else None

    def due(self) -> bool:
        """Count a commit and return whether a rewrite is due.

        It is due after every `every` commits, and at the first one if the log has many files.
        """
        self._commits += 1
        if self._commits == 1:
            return len(entries(self._files, self._path)) > _FILES_OF_A_COMMIT * self._every
        return self._commits % self._every == 0

    def compact(self) -> None:
        """Compact many small files into few, then remove unused files and log entries."""
        log = DeltaLog(self._spark, self._path)
        again_on_conflict(lambda: log.settle_retention(self._retention))
        again_on_conflict(lambda: self._spark.sql(f"OPTIMIZE {delta(self._path)}"))
        log.vacuum()
        log.forget()
