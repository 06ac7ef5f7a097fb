"""A small Delta table for the sink's own records. See `sql.own_table`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark_sink.spark.files import Files
from spark_sink.warehouse.delta.conflict import again_on_conflict, conflicts_by_name
from spark_sink.warehouse.delta.log import DeltaLog, entries
from spark_sink.warehouse.delta.statements import delta
from spark_sink.warehouse.protocol import CommitConflict
from spark_sink.warehouse.sql.own_table import few_rows

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

    def log_files(self) -> list[str]:
        """The names of the log's files; empty if there is no table."""
        return entries(self._files, self._path)

    def read(self) -> DataFrame | None:
        """The rows; None if there is no table."""
        return self.rows() if self.log_files() else None

    def rows(self) -> DataFrame:
        """The rows of an existing table."""
        return self._spark.read.format("delta").load(self._path)

    def append(
        self, columns: str, rows: Sequence[Mapping[str, object]], *, is_wider: bool = False
    ) -> None:
        """Appends a few rows in one commit.

        `is_wider` means that a table made by an earlier version may lack some of the columns.
        """
        write = self.literal(columns, rows).write.format("delta").mode("append")
        # Another sink may make the table, or set its retention, just then.
        again_on_conflict(lambda: write.option("mergeSchema", is_wider).save(self._path))

    def literal(self, columns: str, rows: Sequence[Mapping[str, object]]) -> DataFrame:
        return few_rows(self._spark, columns, rows)

    def due(self) -> bool:
        """Counts a commit and returns whether a rewrite is due.

        It is due after every `every` commits, and at the first one if the log has many files.
        """
        self._commits += 1
        if self._commits == 1:
            return len(self.log_files()) > _FILES_OF_A_COMMIT * self._every
        return self._commits % self._every == 0

    def rewrite(self, rows: DataFrame) -> None:
        """Replaces all rows in one commit, then removes unused files and log entries.

        Does nothing if another sink does it just then.
        """
        log = DeltaLog(self._spark, self._path)
        try:
            with conflicts_by_name():
                log.settle_retention(self._retention)
                rows.coalesce(1).write.format("delta").mode("overwrite").save(self._path)
                log.vacuum()
                log.forget()
        except CommitConflict:
            _log.debug("not rewritten, another sink committed first path=%s", self._path)

    def compact(self) -> None:
        """Compacts many small files into few, then removes unused files and log entries."""
        log = DeltaLog(self._spark, self._path)
        again_on_conflict(lambda: log.settle_retention(self._retention))
        again_on_conflict(lambda: self._spark.sql(f"OPTIMIZE {delta(self._path)}"))
        log.vacuum()
        log.forget()
