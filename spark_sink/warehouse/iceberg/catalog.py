"""The Iceberg catalog of a warehouse, under a name of its own in each Spark session.

Without properties it is a Hadoop catalog: its tables are in the warehouse's folder, as `<namespace>/<table>`,
and it needs no server. The catalog is set in the session that opens the warehouse; the session of a batch is a
copy of that session.

Invariant: no table is cached. A batch's session would otherwise have a cache of its own, and see a table as it
was before the last commit.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from spark_sink.errors import BadSettings, ForeignTable, JarMissing, UnsupportedName
from spark_sink.settings.required_conf import COMMIT_MARK, ICEBERG_MARK
from spark_sink.spark.java import java_class
from spark_sink.text.quoting import argument, literal, quoted
from spark_sink.warehouse.common.conflicts import Conflicts
from spark_sink.warehouse.shape import Shape

_log = logging.getLogger(__name__)
HADOOP: Final = "hadoop"
NAME: Final = "name"
"""The property that names the catalog in Spark; a JDBC catalog stores the name with each table."""
RETENTION: Final = "history.expire.max-snapshot-age-ms"
"""The property that sets how long a snapshot is kept once it is replaced (ms)."""
COMMENT: Final = "comment"
"""The property in which Spark stores a table's comment."""
_SPARK_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"
_PLAIN_NAMES: Final = {
    "hive": re.compile("[a-z0-9_]{1,128}"),
    "glue": re.compile("[a-z0-9_]{1,252}"),
}
"""The names that some types of catalogs allow; all other types allow the names of folders."""
_HADOOP_FILE_IO: Final = "org.apache.iceberg.hadoop.HadoopFileIO"
_LISTS_BY_PREFIX: Final = "org.apache.iceberg.io.SupportsPrefixOperations"
_UNLISTED: Final = "UnsupportedFileSystemException"
_OF_OTHERS: Final = "NoSuchIcebergTableException"
FOREIGN_ADVICE: Final = "Move it away; the sink creates its tables itself"
_ABSENT: Final = ("NoSuchTableException", "NoSuchNamespaceException")

Place = tuple[str, str]
"""Namespace and table, as named in the catalog."""


def kind(properties: Mapping[str, str]) -> str:
    """The type of a catalog with these properties, or its class."""
    return properties.get("type") or properties.get("catalog-impl") or HADOOP


def allows(of: str, name: str) -> bool:
    """Whether a catalog of this type may have a namespace or table of this name."""
    pattern = _PLAIN_NAMES.get(of)
    return pattern is None or pattern.fullmatch(name) is not None


def registered(spark: SparkSession, root: str, properties: Mapping[str, str]) -> str:
    """Set the catalog in the session, and return its name. Raise JarMissing and BadSettings."""
    if "JavaPackage" in type(java_class(spark._jvm, _SPARK_CATALOG)).__name__:
        raise JarMissing(
            "iceberg-spark-runtime is not on Spark's class path",
            advice="Add the jar of spark_sink/iceberg.lock to the session (spark.jars)",
        )
    folder = {"type": HADOOP, "warehouse": root} if kind(properties) == HADOOP else {}
    wanted = {**folder, **properties, "cache-enabled": "false"}
    name = wanted.pop(NAME, "") or f"aqueduct_{digest(json.dumps(sorted(wanted.items())))}"
    prefix = f"spark.sql.catalog.{name}"
    for key, value in wanted.items():
        # In a reader's session, Spark may have loaded a catalog of this name with other settings.
        if spark.conf.get(f"{prefix}.{key}", value) != value:
            raise BadSettings(
                f"{prefix}.{key} is set otherwise in this session",
                advice="Set it as the sink has it in catalog, and cache-enabled to false",
            )
        spark.conf.set(f"{prefix}.{key}", value)
    spark.conf.set(prefix, _SPARK_CATALOG)
    return name


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(slots=True, kw_only=True)
class Catalog:
    """The tables of one catalog, by place."""

    spark: SparkSession
    name: str
    kind: str
    """The catalog's type, or its class."""
    prepare: Callable[[], None]
    """Called before the first namespace is made."""
    _made: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_loaded: bool = False

    def sql_name(self, place: Place) -> str:
        """The table, as Spark SQL names it."""
        return f"{quoted(self.name)}.{_dotted(place)}"

    def call(
        self,
        procedure: str,
        place: Place,
        options: Mapping[str, str] | None = None,
    ) -> str:
        """The statement that calls one of Iceberg's procedures on a table."""
        given = ", ".join(literal(text) for pair in (options or {}).items() for text in pair)
        more = f", options => map({given.replace('_', '-')})" if options else ""
        table = literal(_dotted(place))
        return f"CALL {quoted(self.name)}.system.{procedure}(table => {table}{more})"

    def refuse_name(self, place: Place, of: tuple[str, str]) -> None:
        """Raise UnsupportedName for a name of the table `of` that this type of catalog cannot have."""
        for name in place:
            if not allows(self.kind, name):
                raise UnsupportedName(
                    f"{'.'.join(of)}: a catalog of type {self.kind} has no table named {name}",
                    advice="Map the table to a name of lower-case letters, digits and _ (docs/mapping.md) and "
                    "publish its existing rows (python -m app snapshot start), or add its topic to exclude; "
                    f"then end this wait: python -m spark_sink reload {argument(of)} --skip-unusable",
                )

    def make_namespace(self, namespace: str) -> None:
        """Make the namespace if it does not exist."""
        with self._lock:
            if namespace in self._made:
                return
            self.prepare()
            self.spark.sql(
                f"CREATE NAMESPACE IF NOT EXISTS {quoted(self.name)}.{quoted(namespace)}"
            )
            self._made.add(namespace)

    def table(self, place: Place) -> IcebergTable | None:
        """The table as of its newest commit; None if it does not exist. Raise ForeignTable."""
        try:
            return self.existing(place)
        except Py4JJavaError as fault:
            if _OF_OTHERS in str(fault):
                raise ForeignTable(
                    f"{_dotted(place)} in the catalog is no Iceberg table", advice=FOREIGN_ADVICE
                ) from fault
            if any(name in str(fault) for name in _ABSENT):
                return None
            raise

    def existing(self, place: Place) -> IcebergTable:
        """The table as of its newest commit. If it does not exist, Iceberg's own error passes through."""
        return IcebergTable(self.spark, self._catalog().loadTable(self._identifier(place)))

    def drop(self, place: Place) -> None:
        """Remove the table and its files, if it exists."""
        with _absent_is_fine():
            self._catalog().dropTable(self._identifier(place), True)

    def namespaces(self) -> list[str]:
        """The namespaces of the first level; none if there is no warehouse yet."""
        found: list[Any] = []
        with _absent_is_fine():
            found.extend(self._catalog().listNamespaces())
        return sorted(str(one.level(0)) for one in found)

    def tables(self, namespace: str) -> list[str]:
        """The tables in a namespace; empty if it does not exist."""
        found: list[Any] = []
        with _absent_is_fine():
            found.extend(self._catalog().listTables(self._namespace(namespace)))
        return sorted(str(one.name()) for one in found)

    def _catalog(self) -> Any:
        util: Any = java_class(self.spark._jvm, "org.apache.iceberg.spark.Spark3Util")
        if self._is_loaded:
            return util.loadIcebergCatalog(self.spark._jsparkSession, self.name)
        # Spark looks for the settings of a catalog in the session that is active in the thread.
        with _active(self.spark):
            found = util.loadIcebergCatalog(self.spark._jsparkSession, self.name)
        self._is_loaded = True
        return found

    def _identifier(self, place: Place) -> Any:
        identifier: Any = java_class(self.spark._jvm, "org.apache.iceberg.catalog.TableIdentifier")
        return identifier.of(self._namespace(place[0]), place[1])

    def _namespace(self, name: str) -> Any:
        jvm: Any = self.spark._jvm
        string = java_class(jvm, "java.lang.String")
        levels = self.spark.sparkContext._gateway.new_array(string, 1)  # type: ignore[union-attr]
        levels[0] = name
        return java_class(jvm, "org.apache.iceberg.catalog.Namespace").of(levels)


class IcebergTable:
    """A table as of the commit at which it was loaded.

    A version is the sequence number of a snapshot, which grows by one with each commit that has rows.
    """

    def __init__(self, spark: SparkSession, table: Any) -> None:
        self._spark = spark
        self._table = table

    def properties(self) -> dict[str, str]:
        """The table's properties."""
        return {str(key): str(value) for key, value in self._table.properties().items()}

    def schema(self) -> StructType:
        """The columns, with their types and comments."""
        return self._of_spark(self._table.schema())

    def schema_at(self, version: int) -> StructType:
        """The columns as of a version; for the newest, the present ones: adding a column is no commit."""
        newest = self._table.currentSnapshot()
        if newest is None or newest.sequenceNumber() == version:
            return self.schema()
        return self._of_spark(self._schema_of(self._snapshot_at(version)))

    def names_in_newest(self) -> dict[str, str | None]:
        """The names that the table's columns have in the newest snapshot; None for columns added since."""
        now, then = self._table.schema(), self._schema_of(self._table.currentSnapshot())
        if now.schemaId() == then.schemaId():
            return {name: name for name in self._numbers(now)}
        earlier = {number: name for name, number in self._numbers(then).items()}
        return {name: earlier.get(number) for name, number in self._numbers(now).items()}

    def snapshot(self) -> int | None:
        """The number of the newest snapshot; None before the first row."""
        newest = self._table.currentSnapshot()
        return None if newest is None else int(newest.snapshotId())

    def snapshot_at(self, version: int) -> int | None:
        """The number of the snapshot of a version; None if it was removed, or never existed."""
        found = self._snapshot_at(version)
        return None if found is None else int(found.snapshotId())

    def commit(self) -> None:
        """Make a snapshot with the same rows, in the present columns."""
        self._table.newFastAppend().set(ICEBERG_MARK, COMMIT_MARK).commit()

    def lineage(self) -> Iterator[tuple[int, int, str, int, dict[str, str]]]:
        """Version, number, operation, time (ms) and summary of each commit that is kept, newest first."""
        at = self._table.currentSnapshot()
        while at is not None:
            summary = {str(key): str(value) for key, value in at.summary().items()}
            number = int(at.snapshotId())
            yield (
                int(at.sequenceNumber()),
                number,
                str(at.operation()),
                int(at.timestampMillis()),
                summary,
            )
            parent = at.parentId()
            at = None if parent is None else self._table.snapshot(parent)

    def is_first(self, snapshot: int) -> bool:
        """Whether a snapshot has no parent."""
        return self._table.snapshot(snapshot).parentId() is None

    def replaced_columns(self, snapshot: int) -> list[str]:
        """The columns of a snapshot that were removed since, and whose names other columns got later."""
        found = self._table.snapshot(snapshot)
        first = None if found is None else found.schemaId()
        if first is None or first == self._table.schema().schemaId():
            return []
        schemas = {int(number): self._numbers(one) for number, one in self._table.schemas().items()}
        before, now = schemas[first], self._numbers(self._table.schema())
        between = [names for number, names in schemas.items() if number > first]
        return sorted(
            name
            for name, number in before.items()
            if now.get(name, number) != number and any(name not in names for names in between)
        )

    def version(self) -> int:
        """The version; 0 before the first row."""
        newest = self._table.currentSnapshot()
        return 0 if newest is None else int(newest.sequenceNumber())

    def oldest_version(self) -> int:
        """The oldest version that can be read; 0 before the first row."""
        return min((int(one.sequenceNumber()) for one in self._table.snapshots()), default=0)

    def kept_snapshots(self) -> int:
        """The number of snapshots that the table still lists."""
        return int(self._table.history().size())

    def size(self) -> int:
        """The bytes of the files of the newest version."""
        newest = next(self.summaries(1), None)
        return 0 if newest is None else int(newest[1].get("total-files-size", 0))

    def summaries(self, most: int) -> Iterator[tuple[int, dict[str, str]]]:
        """The time (ms) and the summary of the newest commits, newest first."""
        return ((at_ms, summary) for *_, at_ms, summary in islice(self.lineage(), most))

    def location(self) -> str:
        """The table's folder."""
        return str(self._table.location())

    def remove_unused(self) -> None:
        """Remove the snapshots that were replaced longer ago than the table's retention, and unused files.

        A snapshot that was the newest within that time may have readers, however old it is itself.
        """
        kept_ms = int(self.properties()[RETENTION])
        before_ms = int(time.time() * 1000) - kept_ms
        started = [int(one.timestampMillis()) for one in self._table.history()]
        current = max((at for at in started if at <= before_ms), default=None)
        if current is not None:
            removal = self._table.expireSnapshots().expireOlderThan(current)
            removal.cleanExpiredFiles(True).commit()
        actions: Any = java_class(self._spark._jvm, "org.apache.iceberg.spark.actions.SparkActions")
        unused = actions.get(self._spark._jsparkSession).deleteOrphanFiles(self._table)
        file_io = self._table.io()
        unused.usePrefixListing(lists_by_prefix(self._spark._jvm, file_io)).olderThan(before_ms)
        try:
            unused.execute()
        except Py4JJavaError as fault:
            if _UNLISTED not in str(fault):
                raise
            _warn_of_unlisted(str(file_io.getClass().getName()), self.location().split(":")[0])

    def _snapshot_at(self, version: int) -> Any:
        # The newest snapshot is last, and the wanted one is near it.
        for found in reversed(list(self._table.snapshots())):
            if found.sequenceNumber() <= version:
                return found if found.sequenceNumber() == version else None
        return None

    def _schema_of(self, snapshot: Any) -> Any:
        number = None if snapshot is None else snapshot.schemaId()
        return self._table.schemas()[0 if number is None else number]

    def _of_spark(self, schema: Any) -> StructType:
        util: Any = java_class(self._spark._jvm, "org.apache.iceberg.spark.SparkSchemaUtil")
        return StructType.fromJson(json.loads(util.convert(schema).json()))

    def _numbers(self, schema: Any) -> dict[str, int]:
        """The number that each column keeps whatever its name is."""
        parser: Any = java_class(self._spark._jvm, "org.apache.iceberg.SchemaParser")
        return {one["name"]: one["id"] for one in json.loads(parser.toJson(schema))["fields"]}


def lists_by_prefix(jvm: Any, file_io: Any) -> bool:
    """Whether a table's FileIO lists the files that it has written.

    Those of stores do, as Hadoop may not know the store. Iceberg then collects the names in the driver, so what
    Hadoop has written is listed by Hadoop, with Spark's jobs.
    """
    if str(file_io.getClass().getName()) == _HADOOP_FILE_IO:
        return False
    return bool(java_class(jvm, _LISTS_BY_PREFIX)._java_lang_class.isInstance(file_io))


@cache
def _warn_of_unlisted(file_io: str, scheme: str) -> None:
    """Log once in a process that nothing lists the files of tables at such locations."""
    _log.warning(
        "unused files stay, as neither %s nor Hadoop lists %s: files (docs/sink/iceberg.md)",
        file_io,
        scheme,
    )


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make the session the active one of the thread, for a while."""
    sessions: Any = java_class(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@contextmanager
def _absent_is_fine() -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as fault:
        if not any(name in str(fault) for name in _ABSENT):
            raise


def _dotted(place: Place) -> str:
    return f"{quoted(place[0])}.{quoted(place[1])}"


_PARTIAL: Final = "is true but [0-9]+ rewrite commits failed"
"""Some commits of a rewrite have failed: because other commits came first, or for any other reason."""
# Not every ValidationException is a conflict, so the messages of conflicts are listed.
_CONFLICTS: Final = Conflicts(
    re.compile(
        r"CommitFailedException|Found conflicting files|Found new conflicting delete|"
        r"Found conflicting deleted files|missing data files|"
        r"found new (position )?deletes? for replaced data file|Missing required files to delete|"
        rf"{_PARTIAL}"
    )
)
again_on_conflict: Final = _CONFLICTS.again
conflicts_by_name: Final = _CONFLICTS.by_name


def is_partial(failure: Exception) -> bool:
    """Whether some of the commits of a rewrite have failed."""
    return re.search(_PARTIAL, str(failure)) is not None


GONE: Final = ("Cannot find snapshot with ID", "Not an iceberg table", "NotFoundException")
"""What Iceberg's errors contain if a snapshot or its files were removed meanwhile."""


def at_snapshot(session: SparkSession, table: str, snapshot: int) -> DataFrame:
    """The rows as of a snapshot, in the columns of its time."""
    return session.sql(f"SELECT * FROM {table} VERSION AS OF {snapshot}")  # noqa: S608 - a quoted name and a number


def fitted(
    rows: DataFrame, shape: Shape, names: Mapping[str, str | None] | None = None
) -> DataFrame:
    """Rows in the columns and types of a later shape of their table; a column that they lack is NULL.

    `names` are the names that the table's columns have in the rows, None for a column that the rows lack. Given
    these, a column of the shape that the table lacks is Spark's own error: another process has renamed it.
    """
    if names is None:
        there = set(rows.columns)
        names = {name: name if name in there else None for name, _ in shape.all_columns}
    named = rows.select(*(_column(own).alias(name) for name, own in names.items()))
    return named.select(*(_column(name).cast(kind).alias(name) for name, kind in shape.all_columns))


def _column(name: str | None) -> Column:
    # As a column, not as SQL: in a reader's own session, Spark may substitute variables in a name's ${…}.
    return f.lit(None) if name is None else f.col(quoted(name))
