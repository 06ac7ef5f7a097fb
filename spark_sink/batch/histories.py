"""The changes of a batch, added to the histories of their tables.

Invariant: each change is in the history once, however often its batch is applied, also if its row was changed
again in the same batch.

The history of a table: all of its changes, one row each, and which columns it needs for them.
Invariant: nothing in a history is changed or removed, so its columns are only added and widened. A
column has the name that it had at the source when the change was made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch.compact import once, standing
from spark_sink.batch.contents import TablePart
from spark_sink.batch.merging import few, local
from spark_sink.errors import UnknownTable
from spark_sink.source.envelope import of_table
from spark_sink.source.schemas import TableVersion
from spark_sink.text.names import quoted
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.shape import Shape, needs_mapping
from spark_sink.warehouse.table_rules import TableRules
from wire.warehouse import widened


@dataclass(slots=True, kw_only=True)
class Histories:
    """The histories that are switched on."""

    warehouse: Warehouse[DataFrame]
    rules: TableRules
    _known: dict[Name, Shape] = field(default_factory=dict)

    def add(self, batch: DataFrame, part: TablePart, versions: list[TableVersion]) -> None:
        """Adds the changes that a batch has for a table; does nothing if it has no history."""
        if not self.rules.has_history(part.name):
            return
        tables = self.warehouse.histories.tables
        held = self._known.get(part.name) or tables.shape(*part.name)
        if held is None and not versions:
            # A table of which no row was ever published; its columns are not known.
            return
        wanted, placed = history_shape(held, versions, name=part.name, is_apart=part.is_apart)
        if held != wanted:
            tables.evolve(held, wanted)
        self._known[part.name] = wanted
        rows = _truncates(batch, wanted)
        if part.has_rows:
            rows = standing(batch, wanted, placed, floors={}).unionByName(rows)
        rows = once(rows, wanted)
        at_hand = few(rows=part.ops.total(), size=part.size)
        tables.merge(wanted, local(rows) if at_hand else rows.localCheckpoint(eager=False))


def _truncates(batch: DataFrame, shape: Shape) -> DataFrame:
    """The truncates of a table, which have no image."""
    values = {
        "__destination": "destination",
        "__epoch": "epoch",
        "__seq": "seq",
        "__deleted": "true",
        "__schema": "version",
        "__ts_ms": "ts_ms",
        "__op": "op",
        "__source_database": "source_database",
        "__source_table": "source_table",
    }
    columns = (
        f"CAST({values.get(name, 'NULL')} AS {kind}) AS {quoted(name)}"
        for name, kind in shape.all_columns
    )
    name = shape.database, shape.table
    return batch.where(f"{of_table(name)} AND op = 't' AND reason IS NULL").selectExpr(*columns)


def history(
    spark: SparkSession,
    warehouse: str,
    database: str,
    table: str,
    *,
    catalog: Mapping[str, str] | None = None,
) -> DataFrame:
    """All changes of a table that were merged since its history was switched on.

    `spark` needs the settings and jars of the warehouse's format (docs/sink/tables.md). Raises UnknownTable.
    """
    tables = open_warehouse(spark, warehouse, catalog=catalog).histories.tables
    if (shape := tables.shape(database, table)) is None:
        raise UnknownTable(f"the history of {database}.{table}")
    return tables.rows(shape)


def history_shape(
    held: Shape | None, versions: Iterable[TableVersion], *, name: Name, is_apart: bool
) -> tuple[Shape, list[TableVersion]]:
    """The shape of a history with room for the versions, and these by its columns.

    A column whose type no longer fits is another column, `<name>__<type>`.
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
