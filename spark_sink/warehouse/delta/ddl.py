"""SQL statements that create, widen and replace a Delta table.

Invariant: each statement may be repeated, also after other ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f

from spark_sink.text.quoting import quoted
from spark_sink.warehouse.common.own_tables import SEARCHED
from spark_sink.warehouse.common.statements import (
    altering_sql,
    casts_sql,
    changed_columns,
    columns_sql,
    comment_sql,
    made_property,
    properties_sql,
    recording_sql,
    renaming_sql,
    set_sql,
    shape_properties,
    table_comment_sql,
)
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.table_rules import NO_LAYOUT, Layout, among

_MAPPED: Final = {"delta.columnMapping.mode": "name"}
_LOCAL_TIME: Final = "timestamp_ntz"
_LOCAL_TIMES: Final = {"delta.feature.timestampNtz": "supported"}
_VECTORS: Final = "delta.enableDeletionVectors"
_STATISTICS: Final = "delta.dataSkippingStatsColumns"
_SEARCHED: Final = ("__destination", "__epoch", "__seq", "__ts_ms")
_FIRST: Final = 32
"""The columns of which Delta keeps statistics unless some are named; the sink's columns follow the source's."""
_WITHOUT: Final = ("boolean", "binary", "struct", "array", "map")
"""Types of which Delta keeps no statistics."""


def delta(path: str) -> str:
    """The Delta table at a path, as Spark SQL names it."""
    return f"delta.{quoted(path)}"


def create_sql(path: str, shape: Shape, layout: Layout = NO_LAYOUT) -> str:
    """The statement that creates a table of `shape`."""
    properties = properties_sql(_own_properties(shape, layout))
    return (
        f"CREATE TABLE IF NOT EXISTS {delta(path)} ({columns_sql(shape)}) USING delta"
        f"{layout_sql(shape, layout)}{table_comment_sql(shape)} TBLPROPERTIES ({properties})"
    )


def make_sql(
    path: str, shape: Shape, layout: Layout = NO_LAYOUT, *, source: str, is_hard: bool = False
) -> str:
    """The statement that creates a table with the rows of the view `source`, and fails if there is one.

    The view has the columns of `commented`. With `is_hard`, deleted rows leave no markers.
    """
    properties = properties_sql(_own_properties(shape, layout))
    names = ", ".join(quoted(name) for name, _ in shape.all_columns)
    unless = " WHERE NOT __deleted" if is_hard else ""
    laid = f"USING delta{layout_sql(shape, layout)}{table_comment_sql(shape)}"
    table = f"CREATE TABLE {delta(path)} {laid} TBLPROPERTIES ({properties})"
    return f"{table} AS SELECT {names} FROM {quoted(source)}{unless}"  # noqa: S608 - every name is quoted


def commented(shape: Shape) -> list[Column]:
    """All columns of rows, with types and comments, which a table that is created from them takes over."""
    comments = dict(shape.comments)
    return [
        f.expr(f"CAST({quoted(name)} AS {kind})").alias(
            name, metadata={"comment": comments[name]} if comments.get(name) else {}
        )
        for name, kind in shape.all_columns
    ]


def replace_sql(
    path: str, shape: Shape, layout: Layout = NO_LAYOUT, *, source: str, more: Mapping[str, str]
) -> str:
    """The statement that replaces a table with the rows of the view `source`, in one commit."""
    properties = properties_sql({**_own_properties(shape, layout), **more})
    laid = f"USING delta{layout_sql(shape, layout)}"
    table = f"CREATE OR REPLACE TABLE {delta(path)} {laid} TBLPROPERTIES ({properties})"
    return f"{table} AS SELECT {casts_sql(shape)} FROM {quoted(source)}"  # noqa: S608 - every name is quoted


def layout_sql(shape: Shape, layout: Layout) -> str:
    """The clause with a table's layout; empty without one. Columns that the table lacks are omitted."""
    there = [name for name, _ in shape.columns]
    if partitions := among(layout.partition_by, there):
        return f" PARTITIONED BY ({', '.join(map(quoted, partitions))})"
    if clusters := among(layout.cluster_by, there):
        return f" CLUSTER BY ({', '.join(map(quoted, clusters))})"
    return ""


def cluster_sql(path: str, columns: Sequence[str]) -> str:
    """The statement that sets the columns by which the files written from now on are clustered."""
    by = f"({', '.join(map(quoted, columns))})" if columns else "NONE"
    return f"ALTER TABLE {delta(path)} CLUSTER BY {by}"


def letters_sql(path: str, columns: str) -> str:
    """The statement that creates the table of dead letters."""
    properties = properties_sql({_STATISTICS: ",".join(SEARCHED)})
    return f"CREATE TABLE IF NOT EXISTS {delta(path)} ({columns}) USING delta TBLPROPERTIES ({properties})"


def _own_properties(shape: Shape, layout: Layout) -> dict[str, str]:
    return {
        **shape_properties(shape),
        **(_MAPPED if shape.mapped else {}),
        **_statistics(shape, layout),
        # Delta adds this feature by itself only to new tables, and a table that is replaced may not have it.
        **(_LOCAL_TIMES if any(kind == _LOCAL_TIME for _, kind in shape.columns) else {}),
        # Stated in both cases, as a session may have another default.
        _VECTORS: str(layout.has_vectors).lower(),
    }


def _statistics(shape: Shape, layout: Layout) -> dict[str, str]:
    """The property that names the columns with statistics, if a needed column has none by default.

    A MERGE finds the files that it reads by the key or, in a table without a key, by the position. Delta
    refuses to name partitioning columns, and to cluster by a column without statistics.
    """
    if shape.history:
        return {_STATISTICS: ",".join(_SEARCHED)}
    kinds = dict(shape.all_columns)
    clusters = among(layout.cluster_by, [name for name, _ in shape.columns])
    without = {*among(layout.partition_by, kinds)}
    without |= {name for name, kind in kinds.items() if kind.startswith(_WITHOUT)}
    first = [*kinds][:_FIRST]
    more = {*shape.key, *_SEARCHED, *clusters}.difference(first, without)
    kept = [name for name in kinds if name in more or (name in first and name not in without)]
    return {_STATISTICS: ",".join(map(quoted, kept))} if more else {}


def alter_sql(path: str, held: Shape, wanted: Shape, *, is_made: bool = True) -> list[str]:
    """The statements that turn `held` into `wanted`, in order; each may be run twice.

    Without `is_made`, they record the columns in any case.
    """
    new, wider = changed_columns(held, wanted)
    properties: dict[str, str] = {}
    if wanted.mapped and not held.mapped:
        properties |= _MAPPED
    if any(kind == _LOCAL_TIME for _, kind in (*new, *wider)):
        properties |= _LOCAL_TIMES
    if wider:
        properties["delta.enableTypeWidening"] = "true"
    if new or wider:
        properties |= made_property(held, coming=wanted)
    return [
        *([set_sql(delta(path), properties)] if properties else []),
        *altering_sql(delta(path), new, wider),
        *comment_sql(delta(path), held, wanted),
        *recording_sql(delta(path), held, wanted, is_made=is_made and not (new or wider)),
    ]


def rename_sql(path: str, held: Shape, renamed: Shape, names: Mapping[str, str]) -> list[str]:
    """The statements that rename columns, in order; the key is set last."""
    return renaming_sql(delta(path), held, renamed, names, first={} if held.mapped else _MAPPED)
