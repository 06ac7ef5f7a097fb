"""Snapshots: all tables of one consistent cut as plain Parquet, each snapshot in a folder of its own.

The folder has `cut.json` from its beginning, and `manifest.json` once it is complete.

Invariant: the manifest is written last, in one step, after every file that it names; a snapshot with a manifest
is never changed, and a folder without one is no snapshot. A stored manifest stays readable by its `format`. A
run continues the snapshot of the same cut that a killed run has left: a table that was finished is not written
again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_sink.errors import CutGone, SnapshotUnusable, TableNotInCut, UnknownTable
from spark_sink.spark.error_mapping import cause
from spark_sink.spark.files import Files
from spark_sink.spark.jobs import plain_timestamps
from spark_sink.views.cuts.cut_tables import ConsistentCut
from spark_sink.warehouse.milestones import Positions
from spark_sink.warehouse.protocol import Name
from wire.text import utc_seconds
from wire.warehouse_folders import folder

_log = logging.getLogger(__name__)
FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
CUT: Final = "cut.json"
_FOLDER: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")


def cut_text(positions: Positions, tables: Collection[Name]) -> str:
    """The text of `cut.json`: the cut, and the tables that are asked for (empty: all tables)."""
    body = {
        "format": FORMAT,
        "tables": sorted(map(list, tables)),
        "positions": {
            name: {
                "epoch": one.epoch,
                "seq": one.seq,
                "committed": utc_seconds(one.ts_ms),
                "ts_ms": one.ts_ms,
                "transaction": one.transaction or None,
            }
            for name, one in sorted(positions.items())
        },
    }
    return json.dumps(body, indent=1)


def folder_of(positions: Positions, cut: str) -> str:
    """The name of a snapshot's folder: the time of the cut's newest commit, and a hash of `cut.json`."""
    newest = utc_seconds(max((one.ts_ms for one in positions.values()), default=0))
    digest = hashlib.sha256(cut.encode()).hexdigest()[:8]
    return f"{re.sub('[-:]', '', newest)}-{digest}"


def is_folder(name: str) -> bool:
    """Whether a name has the form of those that `folder_of` returns."""
    return _FOLDER.fullmatch(name) is not None


def manifest_text(
    cut: str,
    tables: Iterable[dict[str, Any]],
    omitted: Mapping[Name, str],
    *,
    written_ms: int,
) -> str:
    """The manifest: the cut, its tables, and the tables of the warehouse that have no state in the cut."""
    body = {
        "format": FORMAT,
        "written_ms": written_ms,
        "positions": json.loads(cut)["positions"],
        "tables": sorted(tables, key=itemgetter("database", "table")),
        "omitted": [
            {"database": database, "table": table, "reason": reason}
            for (database, table), reason in sorted(omitted.items())
        ],
    }
    return json.dumps(body, indent=1)


def written_ms(manifest: str) -> int:
    """When a manifest was written."""
    return int(json.loads(manifest)["written_ms"])


_FINISHED: Final = "_SUCCESS"
"""Spark's own mark of a folder that it has written wholly."""
_REMOVED: Final = re.compile(
    r"FileNotFoundException|FAILED_READ_FILE|FILE_NOT_EXIST|does not exist"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot that is complete."""

    path: str
    is_new: bool
    """Whether this run has completed it."""
    tables: tuple[dict[str, Any], ...] = ()
    """The tables of a new snapshot, as its manifest has them."""
    omitted: dict[Name, str]
    """The tables of the warehouse that have no state in the cut, with the reasons."""
    removed: tuple[str, ...] = ()
    """The folders of older snapshots that were removed."""


@dataclass(slots=True, kw_only=True)
class SnapshotWriter:
    """Writes snapshots into `root`, a path or URI, each in a folder named by its cut."""

    spark: SparkSession
    files: Files
    root: str
    clock: Callable[[], float] = time.time

    def write(
        self, cut: ConsistentCut, tables: Collection[Name] = (), *, keep: int = 0
    ) -> Snapshot:
        """Write all tables of the cut, or only those that are named.

        With `keep`, only that many complete snapshots remain, and no incomplete one. Raise UnknownTable,
        TableNotInCut, CutGone and SnapshotUnusable.
        """
        known = cut.known()
        for name in tables:
            if name not in known:
                raise UnknownTable(".".join(name))
        reasons = {name: cut.missing(name) for name in tables or known}
        omitted = {name: reason for name, reason in reasons.items() if reason}
        if tables and omitted:
            name, reason = next(iter(omitted.items()))
            raise TableNotInCut(
                f"{'.'.join(name)}: {reason}", advice="See: python -m spark_sink status"
            )
        text = cut_text(cut.positions, tables)
        path = f"{self.root}/{folder_of(cut.positions, text)}"
        with self._usable(path):
            is_complete = self.files.read(f"{path}/{MANIFEST}") is not None
            if not is_complete and self.files.read(f"{path}/{CUT}") != text:
                self.files.put(f"{path}/{CUT}", text)
        wanted = [name for name in reasons if name not in omitted]
        read = {} if is_complete else cut.read(wanted)
        written = [self._table(name, rows, path) for name, rows in read.items()]
        with self._usable(path):
            if not is_complete:
                at = int(self.clock() * 1000)
                text = manifest_text(text, written, omitted, written_ms=at)
                self.files.put(f"{path}/{MANIFEST}", text)
            removed = self._prune(keep, path) if keep else ()
        return Snapshot(
            path=path,
            is_new=not is_complete,
            tables=tuple(written),
            omitted=omitted,
            removed=tuple(removed),
        )

    def _table(self, name: Name, rows: DataFrame, path: str) -> dict[str, Any]:
        below = f"{folder(name[0])}/{folder(name[1])}"
        to = f"{path}/{below}"
        try:
            if _FINISHED not in self.files.names(to):
                with plain_timestamps(self.spark):
                    rows.write.mode("overwrite").parquet(to)
            held = self.spark.read.schema(rows.schema).parquet(to)
            number = held.count()
        except (PySparkException, Py4JError) as fault:
            if _REMOVED.search(str(fault)):
                raise CutGone(
                    f"{'.'.join(name)}: its files were removed while the snapshot was written",
                    advice="Raise maintenance.retention_hours above the time that a snapshot takes",
                ) from fault
            raise
        _log.info("table written table=%s.%s rows=%d", *name, number)
        kinds = ((column.name, column.dataType.simpleString()) for column in rows.schema)
        return {
            "database": name[0],
            "table": name[1],
            "path": below,
            "rows": number,
            "columns": [{"name": column, "type": kind} for column, kind in kinds],
            "files": [file for file in self.files.names(to) if file.endswith(".parquet")],
        }

    def _prune(self, keep: int, own: str) -> list[str]:
        """Remove all complete snapshots but the newest, and the files of incomplete ones.

        The manifest is removed first, so that what a killed removal leaves is no snapshot.
        """
        complete: list[tuple[int, str]] = []
        incomplete: list[str] = []
        for name in self.files.names(self.root):
            path = f"{self.root}/{name}"
            if not is_folder(name) or path == own:
                continue
            text = self.files.read(f"{path}/{MANIFEST}")
            if text is not None:
                complete.append((written_ms(text), path))
            elif self.files.read(f"{path}/{CUT}") is not None:
                incomplete.append(path)
        surplus = [path for _, path in sorted(complete, reverse=True)[keep - 1 :]]
        for path in (*surplus, *incomplete):
            self.files.delete(f"{path}/{MANIFEST}")
            for name in self.files.names(path):
                # This file marks a folder of ours, and goes last: a later run continues a killed removal.
                if name != CUT:
                    self.files.delete(f"{path}/{name}")
            self.files.delete(path)
            _log.info("snapshot removed folder=%s", path)
        return sorted((*surplus, *incomplete))

    @contextmanager
    def _usable(self, path: str) -> Iterator[None]:
        try:
            yield
        except (Py4JError, OSError) as fault:
            raise SnapshotUnusable(
                f"{path}: {cause(str(fault))}", advice="Name a folder that the sink can write to"
            ) from fault


def root_of(folder: str) -> str:
    """The folder of snapshots as Hadoop names it; a path without a scheme is a local one."""
    is_uri = re.match(r"[a-z][a-z0-9+.-]*:", folder)
    return folder.rstrip("/") if is_uri else str(Path(folder).absolute())


def snapshot_lines(snapshot: Snapshot) -> Iterator[str]:
    """What the command prints."""
    yield f"snapshot: {snapshot.path}"
    if not snapshot.is_new:
        yield "complete before this run: nothing was written"
    for one in sorted(snapshot.tables, key=itemgetter("database", "table")):
        yield f"{one['database']}.{one['table']}: {one['rows']} rows, {len(one['files'])} files"
    for name, reason in sorted(snapshot.omitted.items()):
        yield f"{'.'.join(name)}: omitted: {reason}"
    for path in snapshot.removed:
        yield f"removed: {path}"
