"""The dead letters as a Delta table, which only grows: its rows are an operator's to remove."""

from __future__ import annotations

from itertools import count
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.names import literal, quoted
from spark_sink.source.envelope import of_table
from spark_sink.source.offsets import Offsets
from spark_sink.source.positions import At, within_sql
from spark_sink.warehouse.delta.conflict import again_on_conflict
from spark_sink.warehouse.delta.own_table import OwnTable
from spark_sink.warehouse.delta.statements import delta
from spark_sink.warehouse.letters import COLUMNS, Letter
from spark_sink.warehouse.protocol import Name

_SAME: Final = " AND ".join(f"t.{name} = s.{name}" for name in ("topic", "partition", "offset"))
_PROPERTIES: Final = {
    # Of what is searched by; keys and values may be large.
    "delta.dataSkippingStatsColumns": "topic,partition,offset,at",
}


class DeltaLetters:
    """See protocol.DeadLetters."""

    def __init__(self, spark: SparkSession, path: str, table: OwnTable) -> None:
        self._spark = spark
        self._path = path
        self._table = table
        self._views = count()

    def add(self, rows: DataFrame) -> None:
        """See protocol.DeadLetters."""
        session, view = rows.sparkSession, f"aqueduct_letters_{next(self._views)}"
        again_on_conflict(lambda: session.sql(_create_sql(self._path)))
        rows.createOrReplaceTempView(view)
        try:
            again_on_conflict(lambda: session.sql(_insert_sql(self._path, view)))
        finally:
            session.catalog.dropTempView(view)
        if self._table.due():
            self._table.compact()

    def within(self, start: Offsets, until: Offsets) -> set[At]:
        """See protocol.DeadLetters."""
        letters = self._table.read() if until else None
        if letters is None:
            return set()
        found = letters.where(within_sql(start, until)).select("topic", "partition", "offset")
        return {(row.topic, row.partition, row.offset) for row in found.collect()}

    def since(self, at_ms: int) -> int:
        """See protocol.DeadLetters."""
        letters = self._table.read()
        return 0 if letters is None else letters.where(f"at >= timestamp_millis({at_ms})").count()

    def newest(self, most: int, name: Name | None = None) -> list[Letter]:
        """See protocol.DeadLetters."""
        letters = self._table.read()
        if letters is None:
            return []
        if name is not None:
            letters = letters.where(of_table(name))
        order = (f.desc(column) for column in ("at", "topic", "partition", "offset"))
        shown = [column for column in Letter.__dataclass_fields__ if column != "at_ms"]
        rows = (
            letters.orderBy(*order).limit(most).select(*shown, f.expr("unix_millis(at) AS at_ms"))
        )
        return [Letter(**row.asDict()) for row in rows.collect()]


def _create_sql(path: str) -> str:
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in COLUMNS)
    properties = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in _PROPERTIES.items())
    return f"CREATE TABLE IF NOT EXISTS {delta(path)} ({columns}) USING delta TBLPROPERTIES ({properties})"


def _insert_sql(path: str, view: str) -> str:
    names = ", ".join(quoted(name) for name, _ in COLUMNS)
    values = ", ".join(f"s.{quoted(name)}" for name, _ in COLUMNS)
    merge = f"MERGE INTO {delta(path)} AS t USING {quoted(view)} AS s ON {_SAME}"
    return f"{merge} WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"  # noqa: S608 - the names are ours
