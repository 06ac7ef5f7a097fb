"""The rows that readers see, and what only reading a table's rows can show.

A table without a key is stored as a log of signed images.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.text.quoting import quoted
from spark_sink.warehouse.identity import SOURCES
from spark_sink.warehouse.milestones import Position
from spark_sink.warehouse.protocol import RowCount
from spark_sink.warehouse.shape import Shape
from wire.warehouse_types import SOURCE_COLUMNS

_SOURCES_OF = tuple(f"{name}_of" for name in SOURCES)


def seen_rows(rows: DataFrame, shape: Shape, *, bookkeeping: bool) -> DataFrame:
    """The rows of a table that readers see."""
    if not shape.keyed:
        return standing_images(rows, shape, bookkeeping=bookkeeping)
    columns = shape.all_columns if bookkeeping else shape.columns
    return rows.where("NOT __deleted").select(*(quoted(name) for name, _ in columns))


def standing_images(images: DataFrame, shape: Shape, *, bookkeeping: bool) -> DataFrame:
    """The rows of a log: each distinct image, repeated by the sum of its signs."""
    columns = [quoted(name) for name, _ in shape.columns]
    # A map cannot be grouped by; its sorted entries can.
    entries = f.expr("array_sort(map_entries(__unrepresentable))").alias("__entries")
    # A removal by one source does not cancel an equal image of another.
    named = zip(SOURCE_COLUMNS, (shape.database, shape.table), strict=True)
    own = [f.coalesce(name, f.lit(value)).alias(f"{name}_of") for (name, _), value in named]
    sources = [f.col("__destination").alias("__destination_of"), *own] if shape.apart else []
    sums = (
        images.select(*columns, entries, *sources, "__delta")
        .groupBy(*columns, "__entries", *_SOURCES_OF[: len(sources)])
        .agg(f.sum("__delta").cast("int").alias("__n"))
        .where("__n > 0")
    )
    # As columns, not as SQL: in a reader's own session, Spark may substitute variables in a name's ${…}.
    back = f.expr("map_from_entries(__entries)").alias("__unrepresentable")
    each = f.expr("explode(sequence(1, __n))").alias("__nth")
    repeated = sums.select(*columns, back, each).drop("__nth")
    return repeated if bookkeeping else repeated.drop("__unrepresentable")


def row_count(rows: DataFrame) -> RowCount:
    """Count a table's rows. Read three columns of all of them."""
    (row,) = rows.agg(
        f.expr("count_if(NOT __deleted)").alias("live"),
        f.expr("count_if(__deleted)").alias("deleted"),
        f.max("__ts_ms").alias("newest"),
        f.sort_array(f.collect_set("__destination")).alias("destinations"),
    ).collect()
    return RowCount(
        live=row.live,
        deleted=row.deleted,
        newest_ms=row.newest,
        destinations=tuple(row.destinations),
    )


def newest_of(rows: DataFrame) -> dict[str, Position]:
    """The newest change of each destination in a table's rows; its transaction is not known."""
    newest = f.max(f.struct("__epoch", "__seq", "__ts_ms")).alias("top")
    found = rows.groupBy("__destination").agg(newest).collect()
    return {row["__destination"]: Position(*row.top) for row in found}
