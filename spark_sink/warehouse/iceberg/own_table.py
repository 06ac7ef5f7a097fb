"""A small Iceberg table for the sink's own records. See `sql.own_table`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.text.names import quoted
from spark_sink.warehouse.iceberg.catalog import RETENTION, Catalog, IcebergTable, Place
from spark_sink.warehouse.iceberg.conflict import again_on_conflict, conflicts_by_name
from spark_sink.warehouse.iceberg.snapshots import at_snapshot
from spark_sink.warehouse.iceberg.statements import PROPERTIES
from spark_sink.warehouse.protocol import CommitConflict
from spark_sink.warehouse.sql.own_table import few_rows
from spark_sink.warehouse.sql.statements import properties_sql

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class IcebergOwnTable:
    """A small table, due for a rewrite after every `every` commits of this process."""

    spark: SparkSession
    catalog: Catalog
    place: Place
    every: int
    retention_seconds: int
    _commits: int = 0
    _columns: Sequence[tuple[str, str]] = ()
    _read: threading.local = field(default_factory=threading.local)
    """The snapshot that each thread has read last."""

    def read(self) -> DataFrame | None:
        held = self.catalog.table(self.place)
        return None if held is None else self._rows_of(held)

    def rows(self) -> DataFrame:
        return self._rows_of(self.catalog.existing(self.place))

    def _rows_of(self, held: IcebergTable) -> DataFrame:
        table, snapshot = self.catalog.sql_name(self.place), held.snapshot()
        self._read.snapshot = snapshot
        return (
            self.spark.table(table)
            if snapshot is None
            else at_snapshot(self.spark, table, snapshot)
        )

    def append(
        self, columns: str, rows: Sequence[Mapping[str, object]], *, is_wider: bool = False
    ) -> None:
        new = self.literal(columns, rows)
        known = {name for name, _ in self._columns}
        if not known or (is_wider and not known.issuperset(new.columns)):
            self._make(columns, new)
        missing = [
            f.lit(None).cast(kind).alias(name)
            for name, kind in self._columns
            if name not in new.columns
        ]
        new.select("*", *missing).writeTo(self.catalog.sql_name(self.place)).append()

    def literal(self, columns: str, rows: Sequence[Mapping[str, object]]) -> DataFrame:
        return few_rows(self.spark, columns, rows)

    def due(self) -> bool:
        """See sql.own_table.OwnTable. At the first commit, due if the table lists many snapshots."""
        self._commits += 1
        if self._commits == 1:
            held = self.catalog.table(self.place)
            return held is not None and held.kept_snapshots() > self.every
        return self._commits % self.every == 0

    def rewrite(self, rows: DataFrame) -> None:
        """See sql.own_table.OwnTable. `rows` are made of those that this thread has read last."""
        writer = rows.coalesce(1).writeTo(self.catalog.sql_name(self.place))
        snapshot = getattr(self._read, "snapshot", None)
        if snapshot is not None:
            # Else Iceberg would also remove what another sink has added since.
            writer = writer.option("isolation-level", "serializable")
            writer = writer.option("validate-from-snapshot-id", snapshot)
        try:
            with conflicts_by_name():
                writer.overwrite(f.lit(True))
                self.catalog.existing(self.place).remove_unused()
        except CommitConflict:
            _log.debug("not rewritten, another sink committed first table=%s.%s", *self.place)

    def compact(self) -> None:
        statement = self.catalog.call("rewrite_data_files", self.place, {"min_input_files": "2"})
        again_on_conflict(lambda: self.spark.sql(statement))
        again_on_conflict(lambda: self.catalog.existing(self.place).remove_unused())

    def create(self, columns: str, more: Mapping[str, str] | None = None) -> None:
        """Makes the table with these columns if it does not exist; `more` are further properties."""
        self.catalog.make_namespace(self.place[0])
        properties = {**PROPERTIES, **kept_for(self.retention_seconds), **(more or {})}
        table = self.catalog.sql_name(self.place)
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING iceberg "
            f"TBLPROPERTIES ({properties_sql(properties)})"
        )

    def _make(self, columns: str, rows: DataFrame) -> None:
        """Makes the table, or adds columns that one of an earlier version lacks."""
        table = self.catalog.sql_name(self.place)
        held = self.catalog.table(self.place)
        if held is None:
            self.create(columns)
            held = self.catalog.table(self.place)
        fields = held.schema().fields if held else ()
        self._columns = [(one.name, one.dataType.simpleString()) for one in fields]
        names = {name for name, _ in self._columns}
        new = [one for one in rows.schema.fields if one.name not in names]
        if new:
            added = ", ".join(f"{quoted(one.name)} {one.dataType.simpleString()}" for one in new)
            again_on_conflict(lambda: self.spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({added})"))
            self._columns = [*self._columns, *((x.name, x.dataType.simpleString()) for x in new)]


def kept_for(seconds: int) -> dict[str, str]:
    """The property of how long snapshots are kept."""
    return {RETENTION: str(seconds * 1000)}
