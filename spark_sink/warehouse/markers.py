"""The markers of deleted rows that are stored beside a table from which these are removed.

Invariant: readers see no change that is older than the marker of its key, unless the table still has the row of
that key. In that case, the batch that stored the marker was not merged, and is applied again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.text.quoting import quoted
from spark_sink.warehouse.identity import NEWER, same_key
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.shape import Shape


def markers_of(warehouse: Warehouse[DataFrame], name: Name, shape: Shape) -> DataFrame | None:
    """The present markers beside a table, in the columns of `shape`; None if none are stored with its key."""
    tables = warehouse.deleted.tables
    held = tables.shape(*name)
    if held is None or held.key != shape.key:
        return None
    return in_columns(tables.rows(held, fixed=True), held, shape)


def in_columns(rows: DataFrame, held: Shape, shape: Shape) -> DataFrame:
    """Rows of one shape in the columns of another, by the columns' names in any case."""
    own = {name.lower(): quoted(name) for name, _ in held.all_columns}
    return rows.selectExpr(
        *(
            f"CAST({own.get(name.lower(), 'NULL')} AS {kind}) AS {quoted(name)}"
            for name, kind in shape.all_columns
        )
    )


def in_force(markers: DataFrame, rows: DataFrame, shape: Shape) -> DataFrame:
    """The markers of keys of which the table has no row: the others are of a batch that was not merged.

    That batch deletes its rows when it is applied again; until then, its markers have no effect.
    """
    return markers.alias("s").join(rows.alias("t"), f.expr(same_key(shape)), "left_anti")


def newer(markers: DataFrame, rows: DataFrame, shape: Shape) -> DataFrame:
    """The markers that are newer than the change of their key."""
    older = f.expr(f"{same_key(shape)} AND {NEWER}")
    return markers.alias("s").join(rows.alias("t"), older, "left_semi")


def not_known(changes: DataFrame, markers: DataFrame, shape: Shape) -> DataFrame:
    """The changes that are newer than the marker of their key, or have none."""
    known = f.expr(f"{same_key(shape)} AND NOT ({NEWER})")
    return changes.alias("s").join(markers.alias("t"), known, "left_anti")


def without_older(rows: DataFrame, markers: DataFrame, shape: Shape) -> DataFrame:
    """The rows of changes without those that are older than the marker of their key."""
    newer = f.expr(f"{same_key(shape)} AND {NEWER}")
    return rows.alias("t").join(markers.alias("s"), newer, "left_anti")
