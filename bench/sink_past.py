"""Artificial past of a sink, some ten batches per second: Delta commits like a batch's, without MERGE.

A batch that the sink applies costs seconds of CPU, nearly all of it for Spark's planning. Its
result is one commit to its table (a file rewritten, a file added), which is written according to
Delta's protocol, and a file of its log. That log, maintenance and checkpoints are the sink's own.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch.apply import Applier
from spark_sink.settings.required_conf import COMMIT_MARK
from spark_sink.warehouse.ledger import Entry
from spark_sink.warehouse.log import SinkLog
from spark_sink.warehouse.maintenance_schedule import Maintenance
from spark_sink.warehouse.protocol import Name

_NEAR: Final = 2_000
"""The number of newest batches maintained on the configured schedule. Older ones are maintained a
tenth as often, as only what maintenance keeps remains of them."""
_MADE_AT_ONCE: Final = 200
_HOURS_MS: Final = 7_200_000


@dataclass(slots=True, kw_only=True)
class Past:
    """A sink with one table, to which batches are added."""

    spark: SparkSession
    folder: Path
    """The warehouse's folder."""
    name: Name
    position: tuple[str, int]
    """The topic and partition."""
    applier: Applier
    log: SinkLog
    maintenance: Maintenance
    number: int = 0
    """The number of batches added, including the sink's own."""
    _versions: dict[Path, int] = field(default_factory=dict)

    def add(self, batches: int) -> None:
        """Add batches; the newest are maintained on the configured schedule."""
        for some in _groups(batches):
            self._add_to_table(some)
            self._add_to_ledger(some)
            self.number += some

    def _add_to_table(self, batches: int) -> None:
        table = self.folder.joinpath(*self.name)
        rewritten = self._held(table)
        for mark in self._files(self._markers(batches)):
            rewritten = self._rewrite(table, rewritten, self._moved(table, mark))
        self.applier.merged[self.name] += batches
        if (due := self.maintenance.due()) is not None:
            self.maintenance.maintain(due)
            del self._versions[table]

    def _add_to_ledger(self, batches: int) -> None:
        for entry in self._entries(batches):
            self.log.append([entry])

    def _markers(self, batches: int) -> DataFrame:
        """One deleted row per batch, with unused keys; committed two hours ago."""
        then = int(time.time() * 1000) - _HOURS_MS
        return self.spark.range(batches).selectExpr(
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

    def _entries(self, batches: int) -> Iterator[Entry]:
        """One per batch, each with the end offset of the newest one."""
        until, now = self.log.applied()[self.position], int(time.time() * 1000)
        for nth in range(batches):
            yield Entry(
                query_id="past",
                batch_id=self.number + nth,
                topic=self.position[0],
                partition=self.position[1],
                from_offset=until,
                until_offset=until,
                records=0,
                applied_at_ms=now + nth,
            )

    def _files(self, rows: DataFrame) -> Iterator[Path]:
        """One Parquet file per row, all written by one task."""
        made = self.folder.parent / f"made-{uuid.uuid4().hex}"
        rows.coalesce(1).write.option("maxRecordsPerFile", 1).parquet(str(made))
        yield from sorted(made.glob("*.parquet"), key=_nth)
        shutil.rmtree(made)

    def _moved(self, table: Path, file: Path) -> Path:
        return file.rename(table / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet")

    def _held(self, table: Path) -> Path:
        """The largest file in the table's snapshot."""
        uris = self.spark.read.format("delta").load(str(table)).inputFiles()
        return max((Path(urlsplit(one).path) for one in uris), key=_size)

    def _rewrite(self, table: Path, file: Path, new: Path) -> Path:
        """Commit the replacement of a file by a copy and the addition of another, as a MERGE does."""
        copy = table / f"part-00001-{uuid.uuid4()}-c000.snappy.parquet"
        shutil.copyfile(file, copy)
        self._commit(table, [copy, new], removed=file)
        return copy

    def _commit(self, table: Path, added: list[Path], *, removed: Path | None = None) -> None:
        """Source: the Delta transaction log protocol, "Delta Log Entries" and "Actions"."""
        now = int(time.time() * 1000)
        actions: list[dict[str, Any]] = [
            {
                "commitInfo": {
                    "timestamp": now,
                    "operation": "MERGE",
                    "isBlindAppend": False,
                    "userMetadata": COMMIT_MARK,
                }
            }
        ]
        actions += [{"add": {**_file(one), "modificationTime": now}} for one in added]
        if removed is not None:
            deletion = {"deletionTimestamp": now, "extendedFileMetadata": True}
            actions.append({"remove": {**_file(removed), **deletion}})
        version = self._versions[table] + 1 if table in self._versions else _next_version(table)
        with (table / f"_delta_log/{version:020}.json").open("x") as file:
            file.writelines(json.dumps(action) + "\n" for action in actions)
        self._versions[table] = version


def _groups(batches: int) -> Iterator[int]:
    """The numbers of batches to add at once."""
    while batches > 0:
        size = _MADE_AT_ONCE if batches <= _NEAR else 10 * _MADE_AT_ONCE
        some = min(size, batches)
        yield some
        batches -= some


def _nth(file: Path) -> int:
    """The number of a file among those of one task: part-00000-<uuid>-c<number>.snappy.parquet."""
    return int(file.name.rpartition("-c")[2].partition(".")[0])


def _next_version(table: Path) -> int:
    return max(int(one.stem) for one in table.glob("_delta_log/*.json") if one.stem.isdigit()) + 1


def _size(path: Path) -> int:
    return path.stat().st_size


def _file(path: Path) -> dict[str, Any]:
    return {"path": path.name, "partitionValues": {}, "size": _size(path), "dataChange": True}
