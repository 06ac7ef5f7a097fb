"""Rows of a table as of a snapshot, in the columns of its time or of a later shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.text.quoting import quoted
from spark_sink.warehouse.shape import Shape

GONE: Final = ("Cannot find snapshot with ID", "Not an iceberg table", "NotFoundException")
"""What Iceberg's errors contain if a snapshot or its files were removed meanwhile."""


def at_snapshot(session: SparkSession, table: str, snapshot: int) -> DataFrame:
    """The rows as of a snapshot, in the columns of its time."""
    return session.sql(f"SELECT * FROM {table} VERSION AS OF {snapshot}")  # noqa: S608 - a quoted name and a number


def fitted(
    rows: DataFrame, shape: Shape, names: Mapping[str, str | None] | None = None
) -> DataFrame:
    """Rows in the columns and types of a later shape of their table; a column that they lack is NULL.

    `names` are the names that the table's columns have in the rows, None for a column that the rows lack. Given
    these, a column of the shape that the table lacks is Spark's own error: another process has renamed it.
    """
    if names is None:
        there = set(rows.columns)
        names = {name: name if name in there else None for name, _ in shape.all_columns}
    named = rows.select(*(_column(own).alias(name) for name, own in names.items()))
    return named.select(*(_column(name).cast(kind).alias(name) for name, kind in shape.all_columns))


def _column(name: str | None) -> Column:
    # As a column, not as SQL: in a reader's own session, Spark may substitute variables in a name's ${…}.
    return f.lit(None) if name is None else f.col(quoted(name))
