"""Dead letters and recent changes, each in one Iceberg table.

Each batch of recent changes is one commit, with a row for what all commits cover. Merged records are marked as
deleted in one commit, and files are joined in another. Iceberg allows batches to be added meanwhile, as both
commits change only files that existed when they began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark_sink.text.quoting import literal
from spark_sink.warehouse.common.conflicts import gone_by_name
from spark_sink.warehouse.common.own_tables import (
    SEARCHED,
    joined,
    ordered,
    read_recent,
    texts,
    with_cut,
)
from spark_sink.warehouse.common.statements import properties_sql
from spark_sink.warehouse.coverage import Cut
from spark_sink.warehouse.iceberg.catalog import (
    GONE,
    RETENTION,
    Catalog,
    Place,
    again_on_conflict,
    at_snapshot,
    conflicts_by_name,
)
from spark_sink.warehouse.iceberg.ddl import METRICS, NEVER_HELD, PROPERTIES
from spark_sink.warehouse.protocol import Recent, VersionGone


def kept_for(seconds: int) -> dict[str, str]:
    """The property that sets how long snapshots are kept."""
    return {RETENTION: str(seconds * 1000)}


_METRICS: Final = {
    "write.metadata.metrics.default": "none",
    **{f"{METRICS}{name}": "full" for name in SEARCHED},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergLetters:
    """See own_tables.LettersTable."""

    spark: SparkSession
    catalog: Catalog
    place: Place
    retention_seconds: int
    of_held: str = NEVER_HELD

    @property
    def name(self) -> str:
        return self.catalog.sql_name(self.place)

    def create(self, session: SparkSession, columns: str) -> None:  # noqa: ARG002 - the catalog is in its own
        again_on_conflict(partial(self._create, columns))

    def _create(self, columns: str) -> None:
        self.catalog.make_namespace(self.place[0])
        properties = {**PROPERTIES, **kept_for(self.retention_seconds), **_METRICS}
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING iceberg "
            f"TBLPROPERTIES ({properties_sql(properties)})"
        )

    def again(self, act: Callable[[], object]) -> None:
        again_on_conflict(act)

    def read(self) -> DataFrame | None:
        held = self.catalog.table(self.place)
        return None if held is None else self.spark.table(self.name)

    def is_long(self, commits: int) -> bool:
        held = self.catalog.table(self.place)
        return held is not None and held.kept_snapshots() > commits

    def compact(self) -> None:
        statement = self.catalog.call("rewrite_data_files", self.place, {"min_input_files": "2"})
        again_on_conflict(lambda: self.spark.sql(statement))
        again_on_conflict(lambda: self.catalog.existing(self.place).remove_unused())


_PROPERTIES: Final = {
    **PROPERTIES,
    # A removal of merged records does not fail because a batch was added: the batch has none of them.
    "write.delete.isolation-level": "snapshot",
    # Statistics of the columns by which readers skip files.
    "write.metadata.metrics.default": "none",
    "write.metadata.metrics.column.kind": "full",
    "write.metadata.metrics.column.database": "full",
    "write.metadata.metrics.column.table": "full",
}
_ALL_SMALL: Final = {
    "min_input_files": "2",
    # Also rewrite a single file in which anything is deleted.
    "delete_file_threshold": "1",
    "remove_dangling_deletes": "true",
}


@dataclass(slots=True, kw_only=True)
class IcebergRecent:
    """See protocol.RecentLog."""

    spark: SparkSession
    catalog: Catalog
    place: Place
    retention_seconds: int

    def begin(self, rows: DataFrame, cut: Cut, *, markers: Iterable[str] = ()) -> None:
        self.catalog.make_namespace(self.place[0])
        first = texts(rows, "marker", markers)
        first_rows = ordered(with_cut(joined(rows, first), cut))
        writer = first_rows.writeTo(self._sql_name).using("iceberg")
        for key, value in {**_PROPERTIES, **kept_for(self.retention_seconds)}.items():
            writer = writer.tableProperty(key, value)
        writer.createOrReplace()

    def add(self, rows: DataFrame, cut: Cut) -> None:
        ordered(with_cut(rows, cut)).writeTo(self._sql_name).append()

    def tidy(self, cut: Cut) -> None:
        held = self.spark.table(self._sql_name).where("kind = 'cut'").select("text").collect()
        newest_ms = max((Cut.of(row.text).at_ms for row in held), default=0)
        with conflicts_by_name():
            self.spark.sql(f"DELETE FROM {self._sql_name} WHERE {_merged_sql(cut, newest_ms)}")  # noqa: S608 - a quoted name
            self.spark.sql(self.catalog.call("rewrite_data_files", self.place, _ALL_SMALL))

    def remove_unused(self) -> None:
        if (table := self.catalog.table(self.place)) is not None:
            table.remove_unused()

    def newest(self) -> Recent[DataFrame] | None:
        version = self.version()
        return None if version is None else self.at(version)

    def version(self) -> int | None:
        table = self.catalog.table(self.place)
        return None if table is None else table.version() or None

    def at(self, version: int) -> Recent[DataFrame]:
        name = f"recent changes, version {version}"
        table = self.catalog.table(self.place)
        snapshot = None if table is None else table.snapshot_at(version)
        if snapshot is None:
            raise VersionGone(name)
        with gone_by_name(name, GONE):
            held = at_snapshot(self.spark, self._sql_name, snapshot)
        found = read_recent(held, place=name, gone=GONE)
        assert found is not None
        return found

    @property
    def _sql_name(self) -> str:
        return self.catalog.sql_name(self.place)


def _merged_sql(cut: Cut, newest_ms: int) -> str:
    """The condition that a row is a record from before `cut.since`, or a cut from before a time (ms)."""
    below = " OR ".join(
        f"(topic = {literal(topic)} AND partition = {number} AND offset < {first})"
        for (topic, number), first in sorted(cut.since.items())
    )
    # Cuts are compared by time: a cut that is added meanwhile is newer.
    older = f"kind = 'cut' AND try_cast(get_json_object(text, '$.at_ms') AS BIGINT) < {newest_ms}"
    return f"(kind = 'record' AND ({below or 'false'})) OR ({older})"
