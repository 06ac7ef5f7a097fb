"""The ledger and the floors as tables of a format, each with a bounded history."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.text.names import literal
from spark_sink.warehouse.ledger import Entry, Floor, LastBatch, Source, restated
from spark_sink.warehouse.milestones import (
    Batch,
    Share,
    Stated,
    batches,
    last_of_sinks,
    milestones_of,
)
from spark_sink.warehouse.sql.own_table import OwnTable

_LEDGER_COLUMNS: Final = (
    "query_id STRING, batch_id BIGINT, topic STRING, partition INT, from_offset BIGINT, "
    "until_offset BIGINT, records BIGINT, applied_at_ms BIGINT, milestone STRING"
)
_FLOOR_COLUMNS: Final = (
    "database STRING, `table` STRING, destination STRING, epoch BIGINT, seq BIGINT, ts_ms BIGINT"
)

_SINK: Final = "get_json_object(milestone, '$.sink')"
_LINKED: Final = "get_json_object(milestone, '$.link[0]')"
_NUMBER: Final = "CAST(get_json_object(milestone, '$.link[1]') AS INT)"
"""The sink that has stored a milestone, and what this is linked by: see `milestones.Link`."""

_FLOOR_SOURCE: Final = "source_database STRING, source_table STRING"
"""Columns for truncates of mapped tables; NULL or missing if the source table has the table's name."""

EVERY: Final = 200
"""Commits between two rewrites; also the least number of batches kept, besides the last of each partition."""
RETENTION_SECONDS: Final = 300
"""Retention of files and log entries of the sink's own tables, which are read within seconds."""


class TableLedger:
    """See protocol.Ledger."""

    def __init__(
        self, table: OwnTable, *, every: int = EVERY, keep_seconds: int = RETENTION_SECONDS
    ) -> None:
        self.table = table
        self._every = every
        self._keep_ms = keep_seconds * 1000

    def is_there(self) -> bool:
        return self.table.read() is not None

    def make(self) -> None:
        if not self.is_there():
            self.table.append(_LEDGER_COLUMNS, [])

    def applied(self) -> dict[tuple[str, int], int]:
        ledger = self.table.read()
        if ledger is None:
            return {}
        rows = ledger.groupBy("topic", "partition").agg(f.max("until_offset").alias("until"))
        return {(row.topic, row.partition): row.until for row in rows.collect() if row.until}

    def newest_ms(self, topics: Collection[str] | None = None) -> int:
        ledger = self.table.read()
        if ledger is None:
            return 0
        if topics is not None:
            ledger = ledger.where(f.col("topic").isin(*topics))
        (row,) = ledger.agg(f.max("applied_at_ms").alias("newest")).collect()
        return int(row.newest or 0)

    def last(self) -> LastBatch | None:
        ledger = self.table.read()
        if ledger is None:
            return None
        batch = f.struct("applied_at_ms", "query_id", "batch_id").alias("batch")
        batches = ledger.groupBy(batch).agg(f.sum("records").alias("records"))
        found = batches.orderBy(f.desc("batch")).limit(1).collect()
        if not found:
            return None
        (row,) = found
        return LastBatch(
            batch_id=row.batch.batch_id, records=row.records, applied_at_ms=row.batch.applied_at_ms
        )

    def append(self, entries: Iterable[Entry]) -> None:
        if rows := [asdict(entry) for entry in entries]:
            # Earlier versions of the sink made it without milestones.
            self.table.append(_LEDGER_COLUMNS, rows, is_wider=True)
        if self.table.due():
            self.compact()

    def void(self, topics: Collection[str]) -> None:
        # Milestones are kept, and so are the batches that have them.
        is_void = f.col("topic").isin(*topics)
        # The commit of another sink may come first.
        while {topic for topic, _ in self.applied()}.intersection(topics):
            rows = self.table.rows()
            for name in ("from_offset", "until_offset"):
                rows = rows.withColumn(
                    name, f.when(is_void, f.lit(0).cast("bigint")).otherwise(f.col(name))
                )
            self.table.rewrite(rows)

    def restate(self, milestone: str) -> bool:
        ledger = self.table.read()
        if ledger is None or "milestone" not in ledger.columns:
            return False
        last = f.struct("applied_at_ms", "query_id", "batch_id", "from_offset")
        rows = ledger.where("milestone IS NOT NULL").orderBy(last.desc()).limit(1).collect()
        newest = self.newest_ms()
        again = [
            restated(Entry(**row.asDict()), milestone)
            for row in rows
            if row.applied_at_ms == newest
        ]
        self.append(again)
        return bool(again)

    def last_of_sinks(self) -> list[Stated]:
        ledger = self.table.read()
        if ledger is None:
            return []
        if "milestone" not in ledger.columns:
            return last_of_sinks([(self.newest_ms(), None)])
        # A milestone may name all tables, so only those that are wanted leave the executors.
        last = self._last_links(ledger)
        moments = [at_ms for _, at_ms in last.values()]
        bare = ledger.where("milestone IS NULL").agg(f.max("applied_at_ms").alias("at_ms"))
        moments += [row.at_ms for row in bare.collect() if row.at_ms is not None]
        names = [name for name, _ in last.values() if name is not None]
        is_wanted = f.col("applied_at_ms").isin(*moments) | f.expr(_LINKED).isin(*names)
        rows = ledger.where("milestone IS NOT NULL").where(is_wanted)
        texts = rows.select("applied_at_ms", "milestone").collect()
        return last_of_sinks([*((at_ms, None) for at_ms in moments), *map(tuple, texts)])

    def _last_links(self, ledger: DataFrame) -> dict[str, tuple[str | None, int]]:
        """The process that has stored the last milestone of each sink, and the moment of that."""
        stated = ledger.where("milestone IS NOT NULL").selectExpr(
            "applied_at_ms", f"{_SINK} AS sink", f"{_LINKED} AS name"
        )
        last: dict[str, tuple[str | None, int]] = {}
        newest = stated.groupBy("sink", "name").agg(f.max("applied_at_ms").alias("at_ms"))
        for row in newest.collect():
            sink = row.sink or ""
            if sink not in last or row.at_ms > last[sink][1]:
                last[sink] = row.name, row.at_ms
        return last

    def batches(self) -> list[Batch]:
        ledger = self.table.read()
        if ledger is None:
            return []
        milestone = "milestone" if "milestone" in ledger.columns else "CAST(NULL AS STRING)"
        columns = "applied_at_ms", "query_id", "topic", "`partition`", "from_offset", "until_offset"
        rows = ledger.selectExpr(*columns, milestone).collect()
        return batches(Share(*row) for row in rows)

    def compact(self) -> None:
        """Rewrites the ledger with the last batches, those of the retention, and the last of each partition."""
        ledger = self.table.rows()
        times = ledger.select("applied_at_ms").distinct().orderBy(f.desc("applied_at_ms"))
        newest = times.limit(self._every).collect()
        last = min(newest[-1].applied_at_ms, newest[0].applied_at_ms - self._keep_ms)
        order = "row_number() OVER (PARTITION BY topic, `partition` ORDER BY until_offset DESC)"
        kept = ledger.selectExpr("*", f"{order} AS nth").where(
            f"nth = 1 OR applied_at_ms >= {last}"
        )
        self.table.rewrite(self._readable(kept.drop("nth"), ledger, last))

    def _readable(self, kept: DataFrame, ledger: DataFrame, last: int) -> DataFrame:
        """The rows that are kept, those from a time (ms) on with milestones that need no row that is not."""
        if "milestone" not in ledger.columns:
            return kept
        moments = {at_ms for _, at_ms in self._last_links(ledger).values()}
        read = f"applied_at_ms >= {last} OR applied_at_ms IN ({', '.join(map(str, moments)) or 'NULL'})"
        linked = ledger.where(f"{_LINKED} IS NOT NULL").where(read)
        named = linked.selectExpr(f"{_LINKED} AS name", f"{_NUMBER} AS number")
        text = f.col("milestone")
        for name, first in named.groupBy("name").agg(f.min("number")).collect():
            if first == 0:
                continue
            of = f"{_LINKED} = {literal(name)} AND {_NUMBER}"
            before = ledger.where(f"{of} <= {first}").select("milestone").collect()
            for held, one in milestones_of(row.milestone for row in before).items():
                if one is not None and json.loads(held)["link"][1] == first:
                    whole = f.lit(one.text((name, first)))
                    text = f.when(f.expr(f"{of} = {first}"), whole).otherwise(text)
        # A row that is older is kept for its offsets, without what its milestone is linked to.
        is_lost = (
            f"NOT coalesce({read}, false) AND get_json_object(milestone, '$.gone') IS NOT NULL"
        )
        text = f.when(f.expr(is_lost), f.lit(None)).otherwise(text)
        return kept.withColumn("milestone", text)


class TableFloors:
    """See protocol.FloorLog."""

    def __init__(self, table: OwnTable) -> None:
        self.table = table

    def highest(self) -> list[Floor]:
        floors = self.table.read()
        if floors is None:
            return []
        mapped = [name for name in _SOURCE_NAMES if name in floors.columns]
        rows = floors.groupBy("database", "table", "destination", *mapped).agg(
            f.max(f.struct("epoch", "seq", "ts_ms")).alias("top")
        )
        return [_floor(row.asDict()) for row in rows.collect()]

    def add(self, floors: Iterable[Floor]) -> None:
        if not (new := list(floors)):
            return
        columns, rows = _floor_rows(new)
        self.table.append(columns, rows, is_wider=columns != _FLOOR_COLUMNS)
        if self.table.due():
            # Read by the commit itself: another sink may add floors meanwhile.
            self.table.rewrite(_highest_of(self.table.rows()))


def _highest_of(floors: DataFrame) -> DataFrame:
    """The highest floor of each table and source, in the stored columns."""
    mapped = [name for name in _SOURCE_NAMES if name in floors.columns]
    rows = floors.groupBy("database", "table", "destination", *mapped).agg(
        f.max(f.struct("epoch", "seq", "ts_ms")).alias("top")
    )
    kept = ("database", "`table`", "destination", "top.epoch", "top.seq", "top.ts_ms")
    return rows.select(*kept, *mapped)


_SOURCE_NAMES: Final = ("source_database", "source_table")


def _floor(row: Mapping[str, Any]) -> Floor:
    """A floor from its stored row, written by this version or by one without mapped tables."""
    database, table = row["database"], row["table"]
    own = row.get("source_database") or database, row.get("source_table") or table
    top = row["top"]
    source = Source(row["destination"], *own)
    return Floor(
        database=database, table=table, source=source, epoch=top.epoch, seq=top.seq, ts_ms=top.ts_ms
    )


def _floor_rows(floors: Sequence[Floor]) -> tuple[str, list[dict[str, object]]]:
    """The columns and rows to store; the source's columns only if a mapped table needs them."""
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
