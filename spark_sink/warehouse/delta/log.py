"""Log operations that Delta's SQL lacks, Delta's commit conflicts, and the shape of a table by its log.

Delta itself removes old entries by the day, after thirty days: at one commit per second, millions of files.
Here they are removed by the minute.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_sink.errors import ForeignTable
from spark_sink.spark.files import Files
from spark_sink.spark.java import java_class
from spark_sink.text.quoting import literal
from spark_sink.warehouse.common.conflicts import Conflicts, gone_by_name
from spark_sink.warehouse.common.statements import shape_of
from spark_sink.warehouse.delta.ddl import delta
from spark_sink.warehouse.shape import Shape

_ENTRY: Final = re.compile(r"\d{20}\..*(?:json|parquet)")
_COMMIT: Final = re.compile(r"\d{20}\.json")
_PACKAGE: Final = "org.apache.spark.sql.delta"
_BY_AGE: Final = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
GONE: Final = (
    "DELTA_VERSION_NOT_FOUND",
    "VersionNotFound",
    "DELTA_NO_RECREATABLE_HISTORY_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_NO_COMMITS_FOUND",
    "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
    "PATH_NOT_FOUND",
    "NoSuchElementException",
    # Of a table that does not exist, Hadoop's own error passes through.
    "FileNotFoundException",
)
"""What Delta's errors contain if the log no longer reaches back to a version."""


_UNENFORCED: Final = threading.Lock()
"""Held while a session has `_BY_AGE` off: otherwise one of two threads would restore what the other has set."""


def entries(files: Files, path: str) -> list[str]:
    """The names of a table's commits and checkpoints; none before the first, even if the folder exists."""
    return [name for name in files.names(f"{path}/_delta_log") if _ENTRY.fullmatch(name)]


def version_of(entry: str) -> int:
    """The version of a commit or checkpoint, by its name."""
    return int(entry.partition(".")[0])


def is_left_over(names: Iterable[str]) -> bool:
    """Whether a log's entries make up no table: maintenance wrote them after the table had been dropped.

    Every table has its first commit, or a checkpoint and the commit of the same version.
    """
    commits, checkpoints = set[int](), set[int]()
    for name in names:
        (commits if _COMMIT.fullmatch(name) else checkpoints).add(version_of(name))
    return 0 not in commits and not commits & checkpoints


def remove_left_over(spark: SparkSession, files: Files, path: str) -> None:
    """Remove the log of what is no table, from Delta's cache too, so that a table can be made there."""
    if (names := entries(files, path)) and is_left_over(names):
        files.delete(f"{path}/_delta_log")
        forget_cached(spark, path)


def forget_cached(spark: SparkSession, path: str) -> None:
    """Let Delta read the log at a path from its beginning at the next access."""
    jvm: Any = spark._jvm
    where = java_class(jvm, "org.apache.hadoop.fs.Path")(path)
    java_class(jvm, f"{_PACKAGE}.DeltaLog").invalidateCache(spark._jsparkSession, where)


def checksum(files: Files, path: str, version: int) -> dict[str, Any]:
    """What Delta writes beside a commit about the whole table; empty if there is nothing."""
    try:
        text = files.read(f"{path}/_delta_log/{version:020}.crc")
        found: dict[str, Any] = json.loads(text or "{}", parse_float=Decimal)
    except ValueError:
        # The file is being written, or a crash has left it incomplete; Delta does not depend on it either.
        return {}
    return found


class DeltaLog:
    """The log of the Delta table at a path."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path
        self._jvm: Any = spark._jvm

    @cached_property
    def _log(self) -> Any:
        delta_log = java_class(self._jvm, f"{_PACKAGE}.DeltaLog")
        return delta_log.forTable(self._spark._jsparkSession, self._path)

    def version(self) -> int:
        """The number of the last commit; -1 if there is no table."""
        snapshot = self._snapshot_if_any()
        return int(snapshot.version()) if snapshot is not None else -1

    def version_and_metadata(self) -> tuple[int, dict[str, Any]]:
        """The number of the last commit, and the table's metadata as of it; -1 if there is no table."""
        snapshot = self._snapshot_if_any()
        if snapshot is None:
            return -1, {}
        return int(snapshot.version()), json.loads(snapshot.metadata().json())["metaData"]

    def _snapshot_if_any(self) -> Any:
        """The last snapshot; None if the entries of the log are left over from a dropped table."""
        try:
            return self._snapshot()
        except Py4JJavaError:
            if not is_left_over(entries(Files(self._spark), self._path)):
                raise
            return None

    def partitions(self) -> list[str]:
        """The columns by which the table is partitioned."""
        metadata = self._snapshot().metadata()
        if metadata.partitionColumns().isEmpty():
            return []
        found: list[str] = json.loads(metadata.json())["metaData"]["partitionColumns"]
        return found

    def size(self) -> int:
        """The bytes of the files of the last version."""
        return int(self._snapshot().sizeInBytes())

    def metadata(self) -> dict[str, Any]:
        """The table's metadata, as an entry of the log has it."""
        found: dict[str, Any] = json.loads(self._snapshot().metadata().json())["metaData"]
        return found

    def files(self) -> DataFrame:
        """The files of the last version, as entries of the log."""
        return DataFrame(self._snapshot().allFiles().toDF(), self._spark)

    def properties(self, version: int) -> dict[str, str]:
        """The table's properties at a version. Raise VersionGone."""
        none = self._none()
        with gone_by_name(f"{self._path}, version {version}", GONE):
            held = self._log.getSnapshotAt(version, none, none, False).metadata().configuration()
        return dict(self._spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(held))  # type: ignore[union-attr]

    def rows(self, version: int, session: SparkSession | None = None) -> DataFrame:
        """The table's rows at a version, read in `session` if given. Raise VersionGone."""
        session = session or self._spark
        reader = session.read.format("delta").option("versionAsOf", version)
        # Delta would refuse a version by the age of its commit, although its files are kept for that long after
        # the next commit. This concerns the last version but one of a table that is seldom written.
        with _UNENFORCED, gone_by_name(f"{self._path}, version {version}", GONE):
            enforced = session.conf.get(_BY_AGE, "true") or "true"
            session.conf.set(_BY_AGE, "false")
            try:
                rows = reader.load(self._path)
                # If the schema were not read here, a removed version would be noticed only with its rows.
                assert rows.schema is not None
            finally:
                session.conf.set(_BY_AGE, enforced)
        return rows

    def settle_retention(self, seconds: int) -> None:
        """Set how long removed files and log entries are kept; commit only if that changes."""
        wanted = {
            "delta.deletedFileRetentionDuration": f"interval {seconds} seconds",
            "delta.logRetentionDuration": f"interval {seconds} seconds",
        }
        detail = self._spark.sql(f"DESCRIBE DETAIL {delta(self._path)}").collect()[0]
        if all(detail.properties.get(key) == value for key, value in wanted.items()):
            return
        settings = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in wanted.items())
        self._spark.sql(f"ALTER TABLE {delta(self._path)} SET TBLPROPERTIES ({settings})")

    def vacuum(self) -> None:
        """Remove files that the table has not used for longer than its retention."""
        self._spark.sql(f"VACUUM {delta(self._path)}")

    def checkpoint(self) -> None:
        """Write a checkpoint of the log, so that readers list only the commits after it."""
        self._log.checkpoint(self._snapshot(), self._none())

    def forget(self) -> None:
        """Remove entries that are older than the table's retention and covered by a checkpoint."""
        snapshot = self._snapshot()
        none = self._none()
        # The checkpoint is newer than the removed entries, so no reader needs these.
        self._log.checkpoint(snapshot, none)
        minute = java_class(self._jvm, f"{_PACKAGE}.TruncationGranularity").MINUTE()
        self._log.cleanUpExpiredLogs(snapshot, none, none, minute)

    def _none(self) -> Any:
        return java_class(self._jvm, "scala.Option").empty()

    def _snapshot(self) -> Any:
        none = self._none()
        return self._log.update(False, none, none)


_CONFLICTS: Final = Conflicts(
    re.compile(r"DELTA_CONCURRENT_|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED")
)
again_on_conflict: Final = _CONFLICTS.again
conflicts_by_name: Final = _CONFLICTS.by_name


_ADVICE: Final = "Move it away; the sink creates its tables itself"
_OF_A_CREATION: Final = re.compile(r"_delta_log|\.part-.*|part-\d{5}-[-0-9a-f]{36}\S*\.parquet")
"""What an interrupted creation leaves in its folder: files with rows, but no commit of them.

A folder of Parquet files that another job has written has a `_SUCCESS`, too.
"""


def refuse_foreign(path: str, names: Iterable[str]) -> None:
    """Raise ForeignTable if a folder that is no table has more than an interrupted creation leaves."""
    if foreign := sorted(name for name in names if not _OF_A_CREATION.fullmatch(name)):
        raise ForeignTable(f"{path} has {foreign[0]}", advice=_ADVICE)


def shape_at(
    path: str,
    name: tuple[str, str],
    properties: Mapping[str, str],
    schema: StructType,
    comment: str = "",
) -> Shape:
    """The shape in a table's properties, schema and comment. Raise ForeignTable."""
    mapped = properties.get("delta.columnMapping.mode", "none") != "none"
    found = shape_of(name, properties, schema, comment=comment, mapped=mapped)
    if found is None:
        raise ForeignTable(path, advice=_ADVICE)
    return found
