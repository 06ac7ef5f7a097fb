"""A small table for the sink's own records: each batch appends to it, and it is rewritten regularly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


class OwnTable(Protocol):
    """A small table, due for a rewrite after a number of commits of this process."""

    def read(self) -> DataFrame | None:
        """The rows; None if there is no table."""

    def rows(self) -> DataFrame:
        """The rows of an existing table."""

    def append(
        self, columns: str, rows: Sequence[Mapping[str, object]], *, is_wider: bool = False
    ) -> None:
        """Appends a few rows in one commit.

        `is_wider` means that a table made by an earlier version may lack some of the columns.
        """

    def literal(self, columns: str, rows: Sequence[Mapping[str, object]]) -> DataFrame:
        """A few rows as a DataFrame."""

    def due(self) -> bool:
        """Counts a commit and returns whether a rewrite is due."""

    def rewrite(self, rows: DataFrame) -> None:
        """Replaces all rows in one commit, then removes unused files and log entries.

        Does nothing if another sink does it just then.
        """

    def compact(self) -> None:
        """Compacts many small files into few, then removes unused files and log entries."""


def few_rows(spark: SparkSession, columns: str, rows: Sequence[Mapping[str, object]]) -> DataFrame:
    """A few rows as a DataFrame, with `columns` as in a CREATE TABLE."""
    # One JSON literal: it starts no Python worker.
    parsed = f.from_json(f.lit(json.dumps(rows)), f"array<struct<{_colons(columns)}>>")
    return spark.range(1, numPartitions=1).select(f.inline(parsed))


def _colons(columns: str) -> str:
    return ", ".join(column.strip().replace(" ", ": ", 1) for column in columns.split(","))
