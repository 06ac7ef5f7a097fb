"""What the sink has applied, kept in the warehouse beside the tables it is about.

Law: a batch is written here after all its tables are merged, so the ledger never claims more than
the tables hold; and from it alone a sink that lost its checkpoint knows where to go on. Floors go
first: a truncate keeps older rows out even if the sink dies before it has removed them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.errors import DataLost, WarehouseBehind
from spark_sink.names import FLOORS, LEDGER
from spark_sink.source.offsets import Offsets
from spark_sink.spark.files import Files
from spark_sink.warehouse.delta_log import DeltaLog

_LEDGER_COLUMNS: Final = (
    "query_id STRING, batch_id BIGINT, topic STRING, partition INT, from_offset BIGINT, "
    "until_offset BIGINT, records BIGINT, applied_at_ms BIGINT"
)
_FLOOR_COLUMNS: Final = (
    "database STRING, `table` STRING, destination STRING, epoch BIGINT, seq BIGINT, ts_ms BIGINT"
)

_FLOOR_SOURCE: Final = "source_database STRING, source_table STRING"
"""Of a mapped table's truncates; NULL, or not there, where the source table has the table's own name."""

EARLIEST: Final = -2
EVERY: Final = 200
"""Commits between two rewrites; and batches that stay listed, beside the last of each partition."""
_FILES_OF_A_COMMIT: Final = 3
_RETENTION_SECONDS: Final = 300
"""Of files and log entries of the sink's own tables, which are read within seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One partition's part of one batch; offsets are [from, until)."""

    query_id: str
    batch_id: int
    topic: str
    partition: int
    from_offset: int
    until_offset: int
    records: int
    applied_at_ms: int


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """A real table of a destination, one of those that fill a table of the warehouse."""

    destination: str
    database: str
    table: str


Floors = Mapping[Source, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """A truncate: rows of the table from `source` below (epoch, seq) are gone for good."""

    database: str
    table: str
    source: Source
    epoch: int
    seq: int
    ts_ms: int

    @property
    def is_mapped(self) -> bool:
        """Whether the source table has another name than the warehouse's."""
        return (self.source.database, self.source.table) != (self.database, self.table)

    @property
    def place(self) -> tuple[int, int]:
        """What it is compared by."""
        return self.epoch, self.seq


def spans(start: Offsets, end: Offsets) -> dict[tuple[str, int], tuple[int, int]]:
    """[from, until) of each partition that moved; a partition new in the batch starts at 0."""
    return {at: (start.get(at, 0), until) for at, until in end.items() if until > start.get(at, 0)}


def starting_offsets(applied: Offsets, earliest: Offsets, latest: Offsets) -> str:
    """Kafka's `startingOffsets` for a sink that has a ledger but no checkpoint.

    Raises DataLost where Kafka no longer holds what comes next.
    """
    start: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(applied.keys() - latest.keys()):
        raise DataLost(
            f"the ledger has topic {topic}, partition {partition}, which is not in Kafka",
            advice="If the topic was removed on purpose, add it to exclude",
        )
    for (topic, partition), end in sorted(latest.items()):
        offset = applied.get((topic, partition), EARLIEST)
        first = earliest[topic, partition]
        if offset != EARLIEST and not first <= offset <= end:
            raise DataLost(
                f"topic {topic}, partition {partition}: the ledger ends at {offset}, "
                f"Kafka holds {first} to {end}",
                advice="Reload the tables of that topic",
            )
        start.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(start)


def check_not_behind(applied: Offsets, checkpoint: Offsets, initial: Offsets) -> None:
    """Refuses a checkpoint that claims more than the warehouse holds (a backup put back)."""
    for at, offset in sorted(checkpoint.items()):
        if offset > applied.get(at, initial.get(at, 0)):
            raise WarehouseBehind(
                f"topic {at[0]}, partition {at[1]}: the checkpoint is at {offset}, the ledger at "
                f"{applied.get(at, 'nothing')}",
                advice="Remove the checkpoint folder; the sink then starts from the ledger",
            )


class Ledger:
    """The ledger's two Delta tables in a warehouse.

    Each holds what matters and a bounded past: it is rewritten after every `every` commits of its own.
    """

    def __init__(
        self,
        spark: SparkSession,
        warehouse: str,
        *,
        every: int = EVERY,
        retention_seconds: int = _RETENTION_SECONDS,
    ) -> None:
        self._every = every
        self._retention = min(retention_seconds, _RETENTION_SECONDS)
        self._commits: Counter[str] = Counter()
        self._spark = spark
        self._files = Files(spark)
        self._ledger = f"{warehouse}/{LEDGER}"
        self._floors = f"{warehouse}/{FLOORS}"

    def applied(self) -> dict[tuple[str, int], int]:
        """Up to where each partition has been applied."""
        if not self._exists(self._ledger):
            return {}
        ledger = self._spark.read.format("delta").load(self._ledger)
        rows = ledger.groupBy("topic", "partition").agg(f.max("until_offset").alias("until"))
        return {(row.topic, row.partition): row.until for row in rows.collect()}

    def newest_ms(self) -> int:
        """When the last batch was applied; 0 where there is none."""
        if not self._exists(self._ledger):
            return 0
        ledger = self._spark.read.format("delta").load(self._ledger)
        (row,) = ledger.agg(f.max("applied_at_ms").alias("newest")).collect()
        return int(row.newest or 0)

    def floors(self) -> list[Floor]:
        """The highest floor of each table and source."""
        if not self._exists(self._floors):
            return []
        floors = self._spark.read.format("delta").load(self._floors)
        mapped = [name for name in _SOURCE_NAMES if name in floors.columns]
        rows = floors.groupBy("database", "table", "destination", *mapped).agg(
            f.max(f.struct("epoch", "seq", "ts_ms")).alias("top")
        )
        return [_floor(row.asDict()) for row in rows.collect()]

    def append(self, entries: Iterable[Entry]) -> None:
        """Notes a batch as applied."""
        self._write(self._ledger, _LEDGER_COLUMNS, [asdict(entry) for entry in entries])
        if self._due(self._ledger):
            self._compact_ledger()

    def raise_floors(self, floors: Iterable[Floor]) -> None:
        """Notes truncates, before they are applied."""
        new = list(floors)
        if new:
            columns, rows = _floor_rows(new)
            wider = columns != _FLOOR_COLUMNS
            appended(self._spark, self._floors, columns, rows, is_wider=wider)
        if new and self._due(self._floors):
            self._compact_floors()

    def _due(self, path: str) -> bool:
        """Whether a table is to be rewritten: after so many commits, at a start after so many files."""
        self._commits[path] += 1
        if self._commits[path] == 1:
            return len(self._files.names(f"{path}/_delta_log")) > _FILES_OF_A_COMMIT * self._every
        return self._commits[path] % self._every == 0

    def _compact_ledger(self) -> None:
        ledger = self._spark.read.format("delta").load(self._ledger)
        times = ledger.select("applied_at_ms").distinct().orderBy(f.desc("applied_at_ms"))
        last = times.limit(self._every).collect()[-1].applied_at_ms
        order = "row_number() OVER (PARTITION BY topic, `partition` ORDER BY until_offset DESC)"
        kept = ledger.selectExpr("*", f"{order} AS nth").where(
            f"nth = 1 OR applied_at_ms >= {last}"
        )
        self._rewrite(self._ledger, kept.drop("nth"))

    def _compact_floors(self) -> None:
        rows = literal_rows(self._spark, *_floor_rows(self.floors()))
        self._rewrite(self._floors, rows)

    def _rewrite(self, path: str, rows: DataFrame) -> None:
        """Puts rows in place of a table's own in one commit, then removes what that makes needless."""
        log = DeltaLog(self._spark, path)
        log.settle_retention(self._retention)
        rows.coalesce(1).write.format("delta").mode("overwrite").save(path)
        log.vacuum()
        log.forget()

    def _exists(self, path: str) -> bool:
        return bool(self._files.names(f"{path}/_delta_log"))

    def _write(self, path: str, columns: str, rows: Sequence[Mapping[str, object]]) -> None:
        if rows:
            appended(self._spark, path, columns, rows)


_SOURCE_NAMES: Final = ("source_database", "source_table")


def _floor(row: Mapping[str, Any]) -> Floor:
    """A floor as it is stored, by this version or by one that knew no mapped tables."""
    database, table = row["database"], row["table"]
    own = row.get("source_database") or database, row.get("source_table") or table
    top = row["top"]
    source = Source(row["destination"], *own)
    return Floor(
        database=database, table=table, source=source, epoch=top.epoch, seq=top.seq, ts_ms=top.ts_ms
    )


def _floor_rows(floors: Sequence[Floor]) -> tuple[str, list[dict[str, object]]]:
    """Columns and rows to store; those of the source are only there where a mapped table needs them."""
    rows = [_floor_row(floor) for floor in floors]
    if not any(floor.is_mapped for floor in floors):
        return _FLOOR_COLUMNS, rows
    for row, floor in zip(rows, floors, strict=True):
        if floor.is_mapped:
            row |= {"source_database": floor.source.database, "source_table": floor.source.table}
    return f"{_FLOOR_COLUMNS}, {_FLOOR_SOURCE}", rows


def _floor_row(floor: Floor) -> dict[str, object]:
    return {
        "database": floor.database,
        "table": floor.table,
        "destination": floor.source.destination,
        "epoch": floor.epoch,
        "seq": floor.seq,
        "ts_ms": floor.ts_ms,
    }


def appended(
    spark: SparkSession,
    path: str,
    columns: str,
    rows: Sequence[Mapping[str, object]],
    *,
    is_wider: bool = False,
) -> None:
    """Adds a handful of rows to one of the sink's own tables, in one commit.

    `is_wider` says that a table of an earlier version may lack some of the columns.
    """
    write = literal_rows(spark, columns, rows).write.format("delta").mode("append")
    write.option("mergeSchema", is_wider).save(path)


def literal_rows(
    spark: SparkSession, columns: str, rows: Sequence[Mapping[str, object]]
) -> DataFrame:
    """A handful of rows as a table."""
    # One JSON literal: no Python worker is started for them.
    parsed = f.from_json(f.lit(json.dumps(rows)), f"array<struct<{_colons(columns)}>>")
    return spark.range(1, numPartitions=1).select(f.inline(parsed))


def _colons(columns: str) -> str:
    return ", ".join(column.strip().replace(" ", ": ", 1) for column in columns.split(","))
