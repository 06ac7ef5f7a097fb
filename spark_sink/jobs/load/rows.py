"""The rows of a source table in the columns of the warehouse's table, as an unread plan of Spark.

Invariant: columns are parsed, checked and placed by the projections that records in a topic go through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch.compact import steps
from spark_sink.jobs.load.cursor import SourceCursor
from spark_sink.jobs.load.mysql_sql import identifier, whole_name
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.jobs.load.select_list import Selected, selected
from spark_sink.source.schemas import TableVersion
from spark_sink.text.names import literal, quoted
from spark_sink.warehouse.shape import Shape

_COLUMN: Final = "__aqueduct_"
_PROJECTIONS_OF_RECORDS: Final = 3
"""The first projections of `compact.steps` take an image apart; here there is none."""


def selected_rows(
    spark: SparkSession,
    source: SourceTable,
    version: TableVersion,
    shape: Shape,
    low: SourceCursor,
    conditions: Sequence[str],
    options: dict[str, str],
) -> DataFrame:
    """The rows by each condition, which is read by a task and a connection of its own.

    `version` has the source's published columns as `shape` names them. Raises UnsupportedType.
    """
    columns = [selected(column.mysql_type) for column in version.columns]
    real = {published: name for published, name, _ in source.columns}
    names = [real[column.name] for column in version.columns]
    frame = spark.read.jdbc(
        options["url"],
        derived_table(source, names, columns),
        # Spark gives each condition to one task.
        predicates=list(conditions),
        properties={
            **{name: value for name, value in options.items() if name != "url"},
            "customSchema": ", ".join(
                f"{_COLUMN}{number} {column.spark_type}" for number, column in enumerate(columns)
            ),
        },
    )
    kept = _kept(source, version, shape, low)
    raw = ", ".join(
        f"{column.raw.format(value=f'{_COLUMN}{number}')} AS {quoted(own.name)}"
        for number, (own, column) in enumerate(zip(version.columns, columns, strict=True))
    )
    typed = ", ".join(
        f"{column.typed.format(text=f'r.{quoted(own.name)}')} AS {quoted(own.name)}"
        for own, column in zip(version.columns, columns, strict=True)
    )
    rows = frame.selectExpr(*kept, "true AS whole", f"struct({raw}) AS r")
    rows = rows.selectExpr("*", "CAST(NULL AS MAP<STRING, STRING>) AS m", f"struct({typed}) AS v")
    for expressions in steps(shape, version.columns, version.present)[_PROJECTIONS_OF_RECORDS:]:
        rows = rows.selectExpr(*expressions)
    return rows


def derived_table(source: SourceTable, names: Sequence[str], columns: Sequence[Selected]) -> str:
    """The derived table, which the server merges into the SELECT around it, so that ranges are of the index."""
    listed = [*(identifier(name) for name in source.key)]
    listed += [
        f"{column.sql.format(column=identifier(name))} AS {_COLUMN}{number}"
        for number, (name, column) in enumerate(zip(names, columns, strict=True))
    ]
    table = whole_name(source.real)
    return f"(SELECT {', '.join(listed)} FROM {table}) AS t"  # noqa: S608 - quoted names


def _kept(source: SourceTable, version: TableVersion, shape: Shape, low: SourceCursor) -> list[str]:
    """What a row keeps of its record, were it one: see `compact.steps`."""
    values: dict[str, Any] = {
        "topic": literal(f"{source.database}.{source.table} at the source"),
        "partition": "0",
        "offset": "CAST(0 AS BIGINT)",
        "op": "'r'",
        "destination": literal(source.destination),
        "epoch": f"CAST({low.epoch} AS BIGINT)",
        "seq": f"CAST({low.seq} AS BIGINT)",
        "version": f"{version.key.version}",
        "ts_ms": f"CAST({low.written_ms} AS BIGINT)",
        "absent": "CAST(NULL AS ARRAY<STRING>)",
        "moved": "false",
        "sign": "1",
    }
    if shape.apart:
        values |= {
            "source_database": literal(source.database),
            "source_table": literal(source.table),
        }
    return [f"{value} AS {name}" for name, value in values.items()]
