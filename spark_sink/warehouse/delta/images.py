"""A table without a key, which is a log of signed images, as the rows that its readers see."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.names import quoted
from spark_sink.source.schemas import SOURCE_COLUMNS
from spark_sink.warehouse.identity import SOURCES
from spark_sink.warehouse.shape import Shape

_SOURCES_OF = tuple(f"{name}_of" for name in SOURCES)


def standing_images(images: DataFrame, shape: Shape, *, bookkeeping: bool) -> DataFrame:
    """The rows of a log: each distinct image as often as its signs add up to."""
    columns = [quoted(name) for name, _ in shape.columns]
    # A map cannot be grouped by; its sorted entries can.
    entries = f.expr("array_sort(map_entries(__unrepresentable))").alias("__entries")
    # An image that one source has removed is not another's.
    named = zip(SOURCE_COLUMNS, (shape.database, shape.table), strict=True)
    own = [f.coalesce(name, f.lit(value)).alias(f"{name}_of") for (name, _), value in named]
    sources = [f.col("__destination").alias("__destination_of"), *own] if shape.apart else []
    sums = (
        images.select(*columns, entries, *sources, "__delta")
        .groupBy(*columns, "__entries", *_SOURCES_OF[: len(sources)])
        .agg(f.sum("__delta").cast("int").alias("__n"))
        .where("__n > 0")
    )
    # As columns, not as SQL: in a reader's own session, Spark may put variables for a name's ${…}.
    back = f.expr("map_from_entries(__entries)").alias("__unrepresentable")
    each = f.expr("explode(sequence(1, __n))").alias("__nth")
    repeated = sums.select(*columns, back, each).drop("__nth")
    return repeated if bookkeeping else repeated.drop("__unrepresentable")
