"""The rows of a source table in the columns of the warehouse's table, as a Spark plan that reads nothing yet.

Invariant: columns are parsed, checked and placed by the same projections as records in a topic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch.compact import steps
from spark_sink.jobs.load.cursor import SourceCursor
from spark_sink.jobs.load.mysql_sql import identifier, whole_name
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.source.column_reading import Reading, reading
from spark_sink.source.schemas import TableVersion
from spark_sink.text.quoting import literal, quoted
from spark_sink.warehouse.shape import Shape

_COLUMN: Final = "__aqueduct_"
_PROJECTIONS_OF_RECORDS: Final = 3
"""The first projections of `compact.steps` take an image apart; selected rows have no image."""


def selected_rows(
    spark: SparkSession,
    source: SourceTable,
    version: TableVersion,
    shape: Shape,
    low: SourceCursor,
    conditions: Sequence[str],
    options: dict[str, str],
) -> DataFrame:
    """Return the rows that meet the conditions; each condition has a task and a connection of its own.

    `version` has the source's published columns as `shape` names them. Raise UnsupportedType.
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
    """Return the derived table; the server merges it into the outer SELECT, so that ranges use the index."""
    listed = [*(identifier(name) for name in source.key)]
    listed += [
        f"{column.sql.format(column=identifier(name))} AS {_COLUMN}{number}"
        for number, (name, column) in enumerate(zip(names, columns, strict=True))
    ]
    table = whole_name(source.real)
    return f"(SELECT {', '.join(listed)} FROM {table}) AS t"  # noqa: S608 - quoted names


def _kept(source: SourceTable, version: TableVersion, shape: Shape, low: SourceCursor) -> list[str]:
    """What a row would keep of its record, if it had one: see `compact.steps`."""
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


_TEXT: Final = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
)
_APPROXIMATE: Final = frozenset({"float", "double", "real"})
_BYTES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})


def _number(place: str) -> str:
    """The four bytes from a position on, as a number; the first byte is the least significant."""
    digits = ", ".join(f"hex(substring({{text}}, {place} + {byte}, 1))" for byte in (3, 2, 1, 0))
    return f"CAST(conv(concat({digits}), 16, 10) AS BIGINT)"


_SRID: Final = _number("1")
_GEOMETRY: Final = (
    f"if({{text}} IS NULL, NULL, named_struct('srid', {_SRID}, 'wkb', substring({{text}}, 5)))"
)
"""MySQL's own form of a geometry is its SRID in four bytes, the least significant first, then its WKB."""
_MANTISSA: Final = "(b & 8388607)"
_EXPONENT: Final = "(shiftright(b, 23) & 255)"
_FLOAT: Final = (
    f"CASE WHEN {_EXPONENT} = 0 THEN {_MANTISSA} * power(2D, -149) "
    f"WHEN {_EXPONENT} < 255 THEN ({_MANTISSA} + 8388608) * power(2D, {_EXPONENT} - 150) "
    f"WHEN {_MANTISSA} = 0 THEN CAST('Infinity' AS DOUBLE) ELSE CAST('NaN' AS DOUBLE) END"
)
"""The number of a float's bits `b` without their sign. DOUBLE holds this number and each intermediate result
exactly."""
_VECTOR: Final = (
    "if(length({text}) = 0, array(), transform(transform(sequence(1, length({text}) - 3, 4), "
    f"at -> {_number('at')}), b -> CAST(if(b > 2147483647, -1D, 1D) * {_FLOAT} AS FLOAT)))"
)
"""MySQL's own form of a vector is its floats, each in four bytes. As text, the server rounds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """A column of the SELECT list. `sql` is for MySQL, over `{column}`; the others are for Spark.

    `spark_type` is the type of the result; `raw` is what the row's image has of it, over `{value}`, and `typed`
    the value of the warehouse's type, over `{text}`: both are formats.

    Invariant: a selected row becomes exactly the row that its record in the topic would become. Numbers, text
    and times come as text and are read like the wire's texts; bytes come as they are. Nothing depends on the
    driver's own conversions, nor on the server's time zone.
    """

    sql: str
    spark_type: str
    raw: str
    typed: str


def selected(mysql_type: str) -> Selected:
    """Return the column of a type, as the schemas topic states it. Raise UnsupportedType."""
    base = re.match(r"[a-z]*", mysql_type.strip().lower())
    name = base[0] if base else ""
    read = reading(mysql_type)
    if name == "vector":
        return _binary("UNHEX(HEX({column}))", _VECTOR)
    if name in _BYTES:
        return _binary("{column}", "{text}")
    if name == "bit":
        width = re.search(r"\((\d+)\)", mysql_type)
        digits = (int(width[1]) + 7) // 8 * 2 if width else 2
        # HEX prints a BIT as a number, without leading zeros.
        return _binary(f"UNHEX(LPAD(HEX({{column}}), {digits}, '0'))", "{text}")
    if read.type.startswith("struct<srid"):
        return _binary("UNHEX(HEX({column}))", _GEOMETRY)
    if name in _TEXT:
        return _text("CONVERT({column} USING utf8mb4)", read)
    if name in _APPROXIMATE:
        # As text, MySQL rounds a FLOAT to six digits, and a DOUBLE to the digits that distinguish it. A sum
        # instead of a product would lose the sign of -0.
        return _text("{column} * 1e0", read)
    if name in ("decimal", "numeric"):
        # Without the sum, the text would have the zeros of ZEROFILL.
        return _text("CAST({column} + 0 AS CHAR)", read)
    if name == "timestamp":
        # The session's time zone is UTC. The zero timestamp is no time of any zone.
        return _text(
            "CAST({column} AS CHAR)",
            read,
            raw="if({value} LIKE '0000-%', {value}, concat({value}, 'Z'))",
        )
    return _text("CAST({column} AS CHAR)", read)


def _text(sql: str, read: Reading, *, raw: str = "{value}") -> Selected:
    return Selected(sql=sql, spark_type="string", raw=raw, typed=read.sql)


def _binary(sql: str, typed: str) -> Selected:
    return Selected(sql=sql, spark_type="binary", raw="{value}", typed=typed)
