"""Adds batches to a sink's past at some twenty a second: Delta commits of a batch's form, without its MERGE.

A batch that the sink applies costs seconds of CPU, nearly all of it Spark's planning. What remains of it is one
commit to its table (a file rewritten, a file added) and one to the ledger (a file added). These are written as
Delta's protocol has them, dated `PACE` seconds apart, so that retention treats them as it treats a real past.
Compaction of the ledger, maintenance and checkpoints are the sink's own.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession

from spark_sink.apply import Applier
from spark_sink.ledger import Ledger
from spark_sink.maintenance import Maintenance
from spark_sink.waits import Name

PACE: Final = 4.0
"""Seconds from one batch to the next, about as a sink on small changes has them."""
_NEAR: Final = 2_000
"""The newest batches, maintained on the schedule of the settings. Older ones are maintained a tenth as often:
nothing is left of them in the end but what maintenance keeps."""
_MADE_AT_ONCE: Final = 200


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
    _versions: dict[Path, int] = field(default_factory=dict)

    def add(self, batches: int) -> None:
        """Adds so many, the last of them as of now."""
        begin = time.time() - batches * PACE
        _date(self.folder, begin)
        for first, some in _groups(batches):
            times = [begin + (first + nth) * PACE for nth in range(some)]
            self._add_to_table(times)
            self._add_to_ledger(times)
            self.number += some

    def _add_to_table(self, times: list[float]) -> None:
        table = self.folder.joinpath(*self.name)
        rewritten = self._held(table)
        for at, mark in zip(times, self._files(self._markers(times)), strict=True):
            rewritten = self._rewrite(table, rewritten, self._moved(table, mark), at)
        self.applier.merged[self.name] += len(times)
        if (due := self.maintenance.due()) is not None:
            self.maintenance.maintain(due)
            del self._versions[table]

    def _add_to_ledger(self, times: list[float]) -> None:
        ledger = self.folder / "__ledger"
        for at, line in zip(times, self._files(self._entries(times)), strict=True):
            self._commit(ledger, at, [self._moved(ledger, line)])
        # As each `Ledger.append` ends.
        if sum(self.ledger._due(self.ledger._ledger) for _ in times):
            self.ledger._compact_ledger()
            del self._versions[ledger]

    def _markers(self, times: list[float]) -> DataFrame:
        """A deleted row each, of keys that no row has."""
        return self._numbers(times).selectExpr(
            f"CAST(-{self.number} - id - 1 AS INT) AS id",
            "CAST(NULL AS STRING) AS v",
            "'shop' AS __destination",
            "1L AS __epoch",
            "1L AS __seq",
            "true AS __deleted",
            "1 AS __schema",
            f"{int(times[0] * 1000)}L + id * {int(PACE * 1000)} AS __ts_ms",
            "CAST(NULL AS MAP<STRING, STRING>) AS __unrepresentable",
        )

    def _entries(self, times: list[float]) -> DataFrame:
        """A row each, of batches that end where the newest one did."""
        until = self.ledger.applied()[self.place]
        return self._numbers(times).selectExpr(
            "'past' AS query_id",
            f"{self.number}L + id AS batch_id",
            f"'{self.place[0]}' AS topic",
            f"{self.place[1]} AS partition",
            f"{until}L AS from_offset",
            f"{until}L AS until_offset",
            "0L AS records",
            f"{int(times[0] * 1000)}L + id * {int(PACE * 1000)} AS applied_at_ms",
        )

    def _numbers(self, times: list[float]) -> DataFrame:
        return self.spark.range(0, len(times), 1, numPartitions=len(times))

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

    def _rewrite(self, table: Path, file: Path, new: Path, at: float) -> Path:
        """One commit that puts a copy in a file's place and adds another file, as a MERGE does."""
        copy = table / f"part-00001-{uuid.uuid4()}-c000.snappy.parquet"
        shutil.copyfile(file, copy)
        self._commit(table, at, [copy, new], removed=file)
        return copy

    def _commit(
        self, table: Path, at: float, added: list[Path], *, removed: Path | None = None
    ) -> None:
        """Source: the Delta transaction log protocol, "Delta Log Entries" and "Actions"."""
        milliseconds = int(at * 1000)
        actions: list[dict[str, Any]] = [
            {
                "commitInfo": {
                    "timestamp": milliseconds,
                    "operation": "MERGE",
                    "isBlindAppend": False,
                }
            }
        ]
        actions += [{"add": {**_file(one), "modificationTime": milliseconds}} for one in added]
        if removed is not None:
            gone = {"deletionTimestamp": milliseconds, "extendedFileMetadata": True}
            actions.append({"remove": {**_file(removed), **gone}})
        version = self._versions[table] + 1 if table in self._versions else _next_version(table)
        entry = table / f"_delta_log/{version:020}.json"
        with entry.open("x") as file:
            file.writelines(json.dumps(action) + "\n" for action in actions)
        for one in (*added, entry):
            os.utime(one, (at, at))
        self._versions[table] = version


def _groups(batches: int) -> Iterator[tuple[int, int]]:
    """The first of each group of batches, and how many they are."""
    first = 0
    while first < batches:
        size = _MADE_AT_ONCE if batches - first <= _NEAR else 10 * _MADE_AT_ONCE
        some = min(size, batches - first)
        yield first, some
        first += some


def _next_version(table: Path) -> int:
    return max(int(one.stem) for one in table.glob("_delta_log/*.json") if one.stem.isdigit()) + 1


def _date(folder: Path, at: float) -> None:
    """Dates all that is in a folder."""
    for one in folder.rglob("*"):
        if one.is_file():
            os.utime(one, (at, at))


def _size(path: Path) -> int:
    return path.stat().st_size


def _file(path: Path) -> dict[str, Any]:
    return {"path": path.name, "partitionValues": {}, "size": _size(path), "dataChange": True}
