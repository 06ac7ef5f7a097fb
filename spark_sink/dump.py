"""All that the warehouse holds, as lines of JSON: for whoever compares it with the source.

Law: read-only, and what was applied is read before the tables, so that a table may be ahead of what is told of
it and never behind. Each row comes with the change that made it, deleted rows too.
"""

from __future__ import annotations

import json
from typing import Any, Final, TextIO

from pyspark.sql import SparkSession

from spark_sink.evolve import Shape
from spark_sink.ledger import Ledger
from spark_sink.names import quoted
from spark_sink.warehouse import DeltaWarehouse

FORMAT: Final = 1
_BOOKKEEPING: Final = {
    "destination": "__destination",
    "epoch": "__epoch",
    "seq": "__seq",
    "deleted": "__deleted",
    "version": "__schema",
    "unrepresentable": "__unrepresentable",
}


def dump(spark: SparkSession, warehouse: str, to: TextIO) -> int:
    """Write a line on the whole, then of each table one on it and one for each row; how many rows."""
    ledger = Ledger(spark, warehouse)
    applied = [[topic, partition, until] for (topic, partition), until in ledger.applied().items()]
    floors = [
        [one.database, one.table, one.destination, one.epoch, one.seq] for one in ledger.floors()
    ]
    _write(to, {"format": FORMAT, "applied": applied, "floors": floors})
    store, rows = DeltaWarehouse(spark, warehouse), 0
    for database, table in store.tables():
        shape = store.shape(database, table)
        if shape is None:
            continue
        columns = [name for name, _ in shape.columns]
        _write(to, {"database": database, "table": table, "columns": columns, "key": shape.key})
        for row in store.rows(shape).selectExpr(line_sql(shape)).toLocalIterator():
            to.write(row[0] + "\n")
            rows += 1
    return rows


def line_sql(shape: Shape) -> str:
    """A row as JSON: bookkeeping by name, values as a list's members would be."""
    told = [f"{quoted(own)} AS {name}" for name, own in _BOOKKEEPING.items()]
    told.append(f"{'0' if shape.keyed else '__delta'} AS delta")
    values = ", ".join(
        f"{_plain(quoted(name), kind)} AS c{at}" for at, (name, kind) in enumerate(shape.columns)
    )
    told.append(f"struct({values}) AS `values`")
    return f"to_json(struct({', '.join(told)}), map('ignoreNullFields', 'false'))"


def _plain(column: str, kind: str) -> str:
    """A value as JSON has room for it, exactly."""
    if kind.startswith("decimal") or kind in ("date", "timestamp", "timestamp_ntz"):
        return f"CAST({column} AS STRING)"
    if kind == "binary":
        return f"replace(base64({column}), '\\r\\n', '')"
    if kind.startswith("struct<srid"):
        wkb = f"replace(base64({column}.wkb), '\\r\\n', '')"
        named = f"named_struct('srid', {column}.srid, 'wkb', {wkb})"
        return f"if({column} IS NULL, NULL, {named})"
    return column


def _write(to: TextIO, told: dict[str, Any]) -> None:
    to.write(json.dumps(told) + "\n")
