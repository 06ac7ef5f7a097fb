"""Dead letters and recent changes, each in one Delta table.

Each batch of recent changes is one commit, with a row for what all commits cover. The table's partitions are
generations. Each has the records and cuts of some batches; once all of these are merged, it is removed as a
whole, by a commit of the log alone. Delta allows batches to be added meanwhile, as they belong to another
generation; it would allow no other removal. Versions, markers and statements are in generation 0, which stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameWriter

from spark_sink.spark.files import Files
from spark_sink.warehouse.common.own_tables import joined, ordered, read_recent, texts, with_cut
from spark_sink.warehouse.coverage import Cut
from spark_sink.warehouse.delta.ddl import delta, letters_sql
from spark_sink.warehouse.delta.log import (
    GONE,
    DeltaLog,
    again_on_conflict,
    conflicts_by_name,
    entries,
)
from spark_sink.warehouse.protocol import Recent

_FILES_OF_A_COMMIT: Final = 3


class DeltaLetters:
    """See own_tables.LettersTable."""

    of_held = ""
    again = staticmethod(again_on_conflict)

    def __init__(self, spark: SparkSession, path: str, *, retention_seconds: int) -> None:
        self._spark = spark
        self._path = path
        self._retention = retention_seconds

    @property
    def name(self) -> str:
        return delta(self._path)

    def create(self, session: SparkSession, columns: str) -> None:
        again_on_conflict(lambda: session.sql(letters_sql(self._path, columns)))

    def read(self) -> DataFrame | None:
        there = entries(Files(self._spark), self._path)
        return self._spark.read.format("delta").load(self._path) if there else None

    def is_long(self, commits: int) -> bool:
        return len(entries(Files(self._spark), self._path)) > _FILES_OF_A_COMMIT * commits

    def compact(self) -> None:
        log = DeltaLog(self._spark, self._path)
        again_on_conflict(lambda: log.settle_retention(self._retention))
        again_on_conflict(lambda: self._spark.sql(f"OPTIMIZE {delta(self._path)}"))
        log.vacuum()
        log.forget()


_OPTIONS: Final = {
    # Each tidying writes a checkpoint; a reader lists the few commits since.
    "delta.checkpointInterval": "1000",
    # Statistics of the columns by which readers skip files.
    "delta.dataSkippingStatsColumns": "kind,database,`table`",
}


class DeltaRecent:
    """See protocol.RecentLog."""

    def __init__(self, spark: SparkSession, path: str, *, retention_seconds: int) -> None:
        self._spark = spark
        self._path = path
        self._retention = retention_seconds
        self._generation = 1

    def begin(self, rows: DataFrame, cut: Cut, *, markers: Iterable[str] = ()) -> None:
        first = texts(rows, "marker", markers)
        self._generation += 1
        self._replace(self._of_generation(with_cut(joined(rows, first), cut)))
        # The table may have been made by an earlier version of the sink, or with other settings.
        DeltaLog(rows.sparkSession, self._path).settle_retention(self._retention)

    def add(self, rows: DataFrame, cut: Cut) -> None:
        self._write(self._of_generation(with_cut(rows, cut)), "append").save(self._path)

    def tidy(self, cut: Cut) -> None:
        closed = self._generation
        self._generation += 1
        held = self._spark.read.format("delta").load(self._path)
        ends: dict[int, Cut] = {}
        for row in held.where("kind = 'cut'").select("generation", "text").collect():
            one = Cut.of(row.text)
            if row.generation not in ends or ends[row.generation].at_ms < one.at_ms:
                ends[row.generation] = one
        merged = [
            number for number, end in ends.items() if number <= closed and cut.begins_after(end)
        ]
        with conflicts_by_name():
            if merged:
                numbers = ", ".join(map(str, merged))
                self._spark.sql(f"DELETE FROM {delta(self._path)} WHERE generation IN ({numbers})")  # noqa: S608 - numbers
            if closed not in merged:
                self._spark.sql(f"OPTIMIZE {delta(self._path)} WHERE generation = {closed}")
        DeltaLog(self._spark, self._path).checkpoint()

    def remove_unused(self) -> None:
        log = DeltaLog(self._spark, self._path)
        log.vacuum()
        log.forget()

    def newest(self) -> Recent[DataFrame] | None:
        version = self.version()
        return None if version is None else self.at(version)

    def version(self) -> int | None:
        if not entries(Files(self._spark), self._path):
            return None
        return DeltaLog(self._spark, self._path).version()

    def at(self, version: int) -> Recent[DataFrame]:
        held = DeltaLog(self._spark, self._path).rows(version)
        found = read_recent(held, place=f"{self._path}, version {version}", gone=GONE)
        assert found is not None
        return found

    def _replace(self, rows: DataFrame) -> None:
        # Set when the table is made: altering them later would fail a batch that commits at that moment.
        kept = f"interval {self._retention} seconds"
        retention = dict.fromkeys(("deletedFileRetentionDuration", "logRetentionDuration"), kept)
        writer = self._write(rows, "overwrite").option("overwriteSchema", True).options(**_OPTIONS)
        writer.options(**{f"delta.{name}": value for name, value in retention.items()}).save(
            self._path
        )

    def _write(self, rows: DataFrame, mode: str) -> DataFrameWriter:
        return ordered(rows).write.format("delta").mode(mode).partitionBy("generation")

    def _of_generation(self, rows: DataFrame) -> DataFrame:
        """The rows with the generation that they belong to."""
        generation = f"if(kind IN ('record', 'cut'), {self._generation}, 0) AS generation"
        return rows.selectExpr("*", generation)
