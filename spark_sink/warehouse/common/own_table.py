"""A table of the sink's own that only grows, and is compacted regularly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


class OwnTable(Protocol):
    """A table that is due for compaction after a number of commits of this process."""

    def read(self) -> DataFrame | None:
        """The rows; None if there is no table."""

    def due(self) -> bool:
        """Count a commit and return whether the table is to be compacted."""

    def compact(self) -> None:
        """Compact many small files into few, then remove unused files and log entries."""


def few_rows(spark: SparkSession, columns: str, rows: Sequence[Mapping[str, object]]) -> DataFrame:
    """A few rows as a DataFrame, with `columns` as in a CREATE TABLE."""
    # One JSON literal: it starts no Python worker.
    parsed = f.from_json(f.lit(json.dumps(rows)), f"array<struct<{_colons(columns)}>>")
    return spark.range(1, numPartitions=1).select(f.inline(parsed))


def _colons(columns: str) -> str:
    return ", ".join(column.strip().replace(" ", ": ", 1) for column in columns.split(","))
