"""The history of a table: all of its changes, one row each, and the columns that it needs for them.

Invariant: nothing in a history is changed or removed, so its columns are only added and widened. A column has
the name that it had at the source when the change was made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from spark_sink.errors import UnknownTable
from spark_sink.source.schemas import TableVersion
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.shape import Shape, needs_mapping
from wire.warehouse_types import widened


def history(
    spark: SparkSession,
    warehouse: str,
    database: str,
    table: str,
    *,
    catalog: Mapping[str, str] | None = None,
) -> DataFrame:
    """All changes of a table that were merged since its history was switched on.

    `spark` needs the settings and jars of the warehouse's format (docs/sink/tables.md). Raise UnknownTable.
    """
    tables = open_warehouse(spark, warehouse, catalog=catalog).histories.tables
    if (shape := tables.shape(database, table)) is None:
        raise UnknownTable(f"the history of {database}.{table}")
    return tables.rows(shape)


def history_shape(
    held: Shape | None, versions: Iterable[TableVersion], *, name: Name, is_apart: bool
) -> tuple[Shape, list[TableVersion]]:
    """The shape of a history with room for the versions, and the versions, placed in its columns.

    A source column whose type no longer fits gets another column, `<name>__<type>`.
    """
    columns = dict(held.columns) if held is not None else {}
    spelled = {column.lower(): column for column in columns}
    placed = []
    for version in sorted(versions, key=lambda one: one.key):
        own = [
            (_room(columns, spelled, column.name, column.reading.type), column)
            for column in version.columns
        ]
        placed.append(replace(version, placed=tuple(own)))
    shape = Shape(
        *name,
        tuple(columns.items()),
        (),
        mapped=needs_mapping(columns) or (held is not None and held.mapped),
        apart=is_apart or (held is not None and held.apart),
        history=True,
    )
    return shape, placed


def _room(columns: dict[str, str], spelled: dict[str, str], name: str, kind: str) -> str:
    """The name of the column that takes values of a type; widens or adds it where necessary."""
    wanted = name
    while True:
        own = spelled.setdefault(wanted.lower(), wanted)
        wide = widened(columns.get(own, kind), kind)
        if wide is not None:
            columns[own] = wide
            return own
        suffix = re.sub(r"[^a-z0-9]+", "_", kind).strip("_")
        wanted = f"{name}__{suffix}" if wanted == name else f"{wanted}_"
