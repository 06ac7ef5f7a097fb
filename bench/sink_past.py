"""Adds batches to a sink's past at some ten a second: Delta commits of a batch's form, without its MERGE.

A batch that the sink applies costs seconds of CPU, nearly all of it Spark's planning. What is left of it is one
commit to its table (a file rewritten, a file added) and one to the ledger (a file added); these are made here
through Delta's own transactions, checkpoints included. Ledger compaction and maintenance are the sink's own.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession

from spark_sink.apply import Applier
from spark_sink.ledger import Ledger
from spark_sink.maintenance import Maintenance
from spark_sink.waits import Name

_MADE_AT_ONCE = 200
_HOURS_MS = 7_200_000


@dataclass(slots=True, kw_only=True)
class Past:
    """A sink with one table, to which batches are added."""

    spark: SparkSession
    folder: Path
    """The warehouse's."""
    name: Name
    place: tuple[str, int]
    """The partition of its topic."""
    applier: Applier
    ledger: Ledger
    maintenance: Maintenance
    number: int = 0
    """How many batches were added, the sink's own included."""
    _logs: dict[Path, Any] = field(default_factory=dict)

    def add(self, batches: int) -> None:
        """Adds so many; whatever is due meanwhile is done as a sink does it."""
        for first in range(0, batches, _MADE_AT_ONCE):
            self._add(min(_MADE_AT_ONCE, batches - first))

    def _add(self, batches: int) -> None:
        table, ledger = self.folder.joinpath(*self.name), self.folder / "__ledger"
        marks, lines = self._files(self._markers(batches)), self._files(self._entries(batches))
        # The two are of different tables, and a sink's maintenance runs beside its batches too.
        with ThreadPoolExecutor(2) as pool:
            done = (
                pool.submit(self._add_to_table, table, marks),
                pool.submit(self._add_to_ledger, ledger, lines),
            )
        for one in done:
            one.result()
        self.number += batches

    def _add_to_table(self, table: Path, marks: Iterator[Path]) -> None:
        rewritten = self._held(table)
        for mark in marks:
            rewritten = self._rewrite(table, rewritten, self._moved(table, mark))
            self.applier.merged[self.name] += 1
            if (due := self.maintenance.due()) is not None:
                self.maintenance.maintain(due)
                rewritten = self._held(table)

    def _add_to_ledger(self, ledger: Path, lines: Iterator[Path]) -> None:
        for line in lines:
            self._commit(ledger, [self._moved(ledger, line)])
            self._compact()

    def _compact(self) -> None:
        """As `Ledger.append` ends."""
        if self.ledger._due(self.ledger._ledger):
            self.ledger._compact_ledger()

    def _markers(self, batches: int) -> DataFrame:
        """A deleted row each, of keys that no row has; committed two hours ago."""
        then = int(time.time() * 1000) - _HOURS_MS
        return self._numbers(batches).selectExpr(
            f"CAST(-{self.number} - id - 1 AS INT) AS id",
            "CAST(NULL AS STRING) AS v",
            "'shop' AS __destination",
            "1L AS __epoch",
            "1L AS __seq",
            "true AS __deleted",
            "1 AS __schema",
            f"{then}L AS __ts_ms",
            "CAST(NULL AS MAP<STRING, STRING>) AS __unrepresentable",
        )

    def _entries(self, batches: int) -> DataFrame:
        """A row each, of batches that end where the newest one did."""
        until, now = self.ledger.applied()[self.place], int(time.time() * 1000)
        return self._numbers(batches).selectExpr(
            "'past' AS query_id",
            f"{self.number}L + id AS batch_id",
            f"'{self.place[0]}' AS topic",
            f"{self.place[1]} AS partition",
            f"{until}L AS from_offset",
            f"{until}L AS until_offset",
            "0L AS records",
            f"{now}L + id AS applied_at_ms",
        )

    def _numbers(self, batches: int) -> DataFrame:
        return self.spark.range(0, batches, 1, numPartitions=batches)

    def _files(self, rows: DataFrame) -> Iterator[Path]:
        """A Parquet file of each row, written at once."""
        made = self.folder.parent / f"made-{uuid.uuid4().hex}"
        rows.write.parquet(str(made))
        yield from sorted(made.glob("*.parquet"))
        shutil.rmtree(made)

    def _moved(self, table: Path, file: Path) -> Path:
        return file.rename(table / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet")

    def _held(self, table: Path) -> Path:
        """A file that the table uses: its largest."""
        uris = self.spark.read.format("delta").load(str(table)).inputFiles()
        return max((Path(urlsplit(one).path) for one in uris), key=_size)

    def _rewrite(self, table: Path, file: Path, new: Path) -> Path:
        """One commit that puts a copy in a file's place and adds another file, as a MERGE does."""
        copy = table / f"part-00001-{uuid.uuid4()}-c000.snappy.parquet"
        shutil.copyfile(file, copy)
        self._commit(table, [copy, new], removed=file)
        return copy

    def _commit(self, table: Path, added: list[Path], *, removed: Path | None = None) -> None:
        jvm: Any = self.spark._jvm
        delta = jvm.org.apache.spark.sql.delta
        if table not in self._logs:
            jspark: Any = self.spark._jsparkSession
            self._logs[table] = delta.DeltaLog.forTable(jspark, str(table))
        now = int(time.time() * 1000)
        actions = [{"add": {**_file(one), "modificationTime": now}} for one in added]
        if removed is not None:
            gone = {**_file(removed), "deletionTimestamp": now, "extendedFileMetadata": True}
            actions.append({"remove": gone})
        listed = jvm.java.util.ArrayList()
        for action in actions:
            listed.add(delta.actions.Action.fromJson(json.dumps(action)))
        wanted = jvm.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq()
        # Not ManualUpdate: of that, Delta computes the table's whole state again.
        mode = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
        made: Any = getattr(delta, "DeltaOperations$StreamingUpdate")
        operation = made(mode, "past", self.number, jvm.scala.Option.empty())
        self._logs[table].startTransaction().commit(wanted, operation)


def _size(path: Path) -> int:
    return path.stat().st_size


def _file(path: Path) -> dict[str, Any]:
    return {"path": path.name, "partitionValues": {}, "size": _size(path), "dataChange": True}
