"""The addition of a batch's changes to the histories of tables.

Invariant: each change is in the history once, however often its batch is applied, also if its row was changed
again in the same batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch.compact import once, standing
from spark_sink.batch.contents import TablePart
from spark_sink.batch.table_merge import few, local
from spark_sink.source.envelope import of_table
from spark_sink.source.schemas import TableVersion
from spark_sink.text.quoting import literal, quoted
from spark_sink.warehouse.history import history_shape
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.moves import Event
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.table_rules import TableRules


@dataclass(slots=True, kw_only=True)
class Histories:
    """The histories that are switched on."""

    warehouse: Warehouse[DataFrame]
    rules: TableRules
    _known: dict[Name, Shape] = field(default_factory=dict)

    def forget(self, name: Name) -> None:
        """Drop what is remembered of a table's history, which may have been removed."""
        self._known.pop(name, None)

    def add(self, batch: DataFrame, part: TablePart, versions: list[TableVersion]) -> None:
        """Add the changes that a batch has for a table; do nothing if it has no history."""
        if not self.rules.has_history(part.name):
            return
        tables = self.warehouse.histories.tables
        held = self._known.get(part.name) or tables.shape(*part.name)
        if held is None and not versions:
            # No row of the table was ever published, so its columns are not known.
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

    def truncate(self, name: Name, source: Source, event: Event, session: SparkSession) -> None:
        """Add that a statement removed the rows of a source table; do nothing if the table has no history."""
        tables = self.warehouse.histories.tables
        if not self.rules.has_history(name) or (shape := tables.shape(*name)) is None:
            return
        values = {
            "__destination": literal(source.destination),
            "__epoch": str(event.epoch),
            "__seq": str(event.seq),
            "__deleted": "true",
            "__schema": "0",
            "__ts_ms": str(event.ts_ms),
            "__op": "'t'",
            "__source_database": literal(source.database),
            "__source_table": literal(source.table),
        }
        tables.merge(shape, session.range(1).selectExpr(*_columns(values, shape)))


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
    own = batch.where(f"{of_table((shape.database, shape.table))} AND op = 't' AND reason IS NULL")
    return own.selectExpr(*_columns(values, shape))


def _columns(values: Mapping[str, str], shape: Shape) -> list[str]:
    """All columns of a table, with these expressions; NULL in the others."""
    return [
        f"CAST({values.get(name, 'NULL')} AS {kind}) AS {quoted(name)}"
        for name, kind in shape.all_columns
    ]
