"""SQL statements that create, widen and replace a Delta table.

Invariant: each may be repeated, in any mixture with the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_sink.names import quoted
from spark_sink.source.schemas import SOURCE_COLUMNS
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.sql.letters import SEARCHED
from spark_sink.warehouse.sql.statements import (
    casts_sql,
    columns_sql,
    properties_sql,
    shape_properties,
)


def delta(path: str) -> str:
    """The Delta table at a path, as Spark SQL names it."""
    return f"delta.{quoted(path)}"


def create_sql(path: str, shape: Shape) -> str:
    """The statement that creates a table of `shape`."""
    return (
        f"CREATE TABLE IF NOT EXISTS {delta(path)} ({columns_sql(shape)}) USING delta "
        f"TBLPROPERTIES ({properties_sql(_own_properties(shape))})"
    )


def replace_sql(path: str, shape: Shape, *, source: str, more: Mapping[str, str]) -> str:
    """The statement that replaces a table with the rows of the view `source`, in one commit."""
    properties = properties_sql({**_own_properties(shape), **more})
    table = f"CREATE OR REPLACE TABLE {delta(path)} USING delta TBLPROPERTIES ({properties})"
    return f"{table} AS SELECT {casts_sql(shape)} FROM {quoted(source)}"  # noqa: S608 - every name is quoted


def letters_sql(path: str, columns: str) -> str:
    """The statement that creates the table of dead letters."""
    properties = properties_sql({"delta.dataSkippingStatsColumns": ",".join(SEARCHED)})
    return f"CREATE TABLE IF NOT EXISTS {delta(path)} ({columns}) USING delta TBLPROPERTIES ({properties})"


def _own_properties(shape: Shape) -> dict[str, str]:
    properties = shape_properties(shape)
    if shape.mapped:
        properties["delta.columnMapping.mode"] = "name"
    return properties


def alter_sql(path: str, held: Shape, wanted: Shape) -> list[str]:
    """The statements that turn `held` into `wanted`, in order; each may be run twice."""
    before = dict(held.columns)
    new = [(name, kind) for name, kind in wanted.columns if name not in before]
    if wanted.apart and not held.apart:
        new += SOURCE_COLUMNS
    wider = [(n, kind) for n, kind in wanted.columns if n in before and before[n] != kind]
    properties = {}
    if wanted.mapped and not held.mapped:
        properties["delta.columnMapping.mode"] = "name"
    if any(kind == "timestamp_ntz" for _, kind in (*new, *wider)):
        properties["delta.feature.timestampNtz"] = "supported"
    if wider:
        properties["delta.enableTypeWidening"] = "true"
    table = f"ALTER TABLE {delta(path)}"
    statements = [f"{table} SET TBLPROPERTIES ({properties_sql(properties)})"] if properties else []
    if new:
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in new)
        statements.append(f"{table} ADD COLUMNS ({columns})")
    statements += [f"{table} ALTER COLUMN {_altered(name, kind)}" for name, kind in wider]
    return statements


def _altered(name: str, kind: str) -> str:
    """A column with its new type; of a geometry only the SRID is ever widened."""
    if kind.startswith("struct<srid"):
        return f"{quoted(name)}.srid TYPE bigint"
    return f"{quoted(name)} TYPE {kind}"
