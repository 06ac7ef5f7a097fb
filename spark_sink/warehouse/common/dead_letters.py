"""The dead letters as a table of a format. It only grows: removing rows is up to an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.source.envelope import of_table
from spark_sink.source.positions import At, Offsets, within_sql
from spark_sink.spark.jobs import temporary_view
from spark_sink.text.quoting import quoted
from spark_sink.warehouse.common.own_table import OwnTable
from spark_sink.warehouse.dead_letters import COLUMNS, Letter
from spark_sink.warehouse.protocol import Name

_COLUMNS: Final = ", ".join(f"{quoted(name)} {kind}" for name, kind in COLUMNS)
_SAME: Final = " AND ".join(f"t.{name} = s.{name}" for name in ("topic", "partition", "offset"))
SEARCHED: Final = ("topic", "partition", "offset", "at")
"""The columns to keep statistics of; keys and values may be large."""


class TableLetters:
    """See protocol.DeadLetters."""

    def __init__(
        self,
        table: OwnTable,
        name: str,
        *,
        create: Callable[[SparkSession, str], None],
        again: Callable[[Callable[[], object]], None],
        of_held: str = "",
    ) -> None:
        """`name` is the table's name in Spark SQL; `of_held`, a further clause for letters that it already has.

        `create` makes the table with the given columns if it does not exist, and `again` retries a commit.
        """
        self.table = table
        self._name = name
        self._create = create
        self._again = again
        self._of_held = of_held

    def add(self, rows: DataFrame) -> None:
        session = rows.sparkSession
        self._create(session, _COLUMNS)
        with temporary_view(rows) as view:
            self._again(lambda: session.sql(_insert_sql(self._name, view, self._of_held)))
        if self.table.due():
            self.table.compact()

    def within(self, start: Offsets, until: Offsets) -> set[At]:
        letters = self.table.read() if until else None
        if letters is None:
            return set()
        found = letters.where(within_sql(start, until)).select("topic", "partition", "offset")
        return {(row.topic, row.partition, row.offset) for row in found.collect()}

    def since(self, at_ms: int) -> int:
        letters = self.table.read()
        return 0 if letters is None else letters.where(f"at >= timestamp_millis({at_ms})").count()

    def newest(self, most: int, name: Name | None = None) -> list[Letter]:
        letters = self.table.read()
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


def _insert_sql(table: str, view: str, of_held: str) -> str:
    names = ", ".join(quoted(name) for name, _ in COLUMNS)
    values = ", ".join(f"s.{quoted(name)}" for name, _ in COLUMNS)
    merge = f"MERGE INTO {table} AS t USING {quoted(view)} AS s ON {_SAME}{of_held}"
    return f"{merge} WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"  # noqa: S608 - the names are ours
