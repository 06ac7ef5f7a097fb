"""What only reading the rows of a table can show."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.warehouse.milestones import Position
from spark_sink.warehouse.protocol import RowCount


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
