"""The newest changes that a table's rows hold."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.warehouse.milestones import Position


def newest_of(rows: DataFrame) -> dict[str, Position]:
    """The newest change of each destination in a table's rows; its transaction is not known."""
    newest = f.max(f.struct("__epoch", "__seq", "__ts_ms")).alias("top")
    found = rows.groupBy("__destination").agg(newest).collect()
    return {row["__destination"]: Position(*row.top) for row in found}
