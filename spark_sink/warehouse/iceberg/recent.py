"""Recent changes in one Iceberg table: each batch is one commit, with a row for what all commits cover."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark_sink.recent.coverage import Cut
from spark_sink.warehouse.iceberg.catalog import Catalog, Place
from spark_sink.warehouse.iceberg.own_table import kept_for
from spark_sink.warehouse.iceberg.snapshots import at_snapshot, gone_by_name
from spark_sink.warehouse.iceberg.statements import PROPERTIES
from spark_sink.warehouse.protocol import Recent, VersionGone
from spark_sink.warehouse.sql.recent import from_sql, joined, ordered, read_recent, texts, with_cut

_PROPERTIES: Final = {
    **PROPERTIES,
    # Of the columns by which readers skip files.
    "write.metadata.metrics.default": "none",
    "write.metadata.metrics.column.kind": "full",
    "write.metadata.metrics.column.database": "full",
    "write.metadata.metrics.column.table": "full",
}


@dataclass(slots=True, kw_only=True)
class IcebergRecent:
    """See protocol.RecentLog."""

    spark: SparkSession
    catalog: Catalog
    place: Place
    retention_seconds: int

    def begin(
        self, rows: DataFrame, cut: Cut, *, versions: Iterable[str], markers: Iterable[str] = ()
    ) -> None:
        """See protocol.RecentLog."""
        self.catalog.make_namespace(self.place[0])
        first = joined(texts(rows, "version", versions), texts(rows, "marker", markers))
        self._replace(with_cut(joined(rows, first), cut))

    def add(self, rows: DataFrame, cut: Cut) -> None:
        """See protocol.RecentLog."""
        ordered(with_cut(rows, cut)).writeTo(self._sql_name).append()

    def rewrite(self, rows: DataFrame, cut: Cut) -> None:
        """See protocol.RecentLog."""
        held = rows.sparkSession.table(self._sql_name)
        held = held.where(f"kind <> 'cut' AND {from_sql(cut)}")
        self._replace(with_cut(joined(rows, held), cut))

    def remove_unused(self) -> None:
        """See protocol.RecentLog."""
        if (table := self.catalog.table(self.place)) is not None:
            table.remove_unused()

    def newest(self) -> Recent[DataFrame] | None:
        """See protocol.RecentLog."""
        version = self.version()
        return None if version is None else self.at(version)

    def version(self) -> int | None:
        """See protocol.RecentLog."""
        table = self.catalog.table(self.place)
        return None if table is None else table.version() or None

    def at(self, version: int) -> Recent[DataFrame]:
        """See protocol.RecentLog."""
        name = f"recent changes, version {version}"
        table = self.catalog.table(self.place)
        snapshot = None if table is None else table.snapshot_at(version)
        if snapshot is None:
            raise VersionGone(name)
        with gone_by_name(name):
            found = read_recent(at_snapshot(self.spark, self._sql_name, snapshot))
        assert found is not None
        return found

    def _replace(self, rows: DataFrame) -> None:
        writer = ordered(rows).writeTo(self._sql_name).using("iceberg")
        for key, value in {**_PROPERTIES, **kept_for(self.retention_seconds)}.items():
            writer = writer.tableProperty(key, value)
        writer.createOrReplace()

    @property
    def _sql_name(self) -> str:
        return self.catalog.sql_name(self.place)
