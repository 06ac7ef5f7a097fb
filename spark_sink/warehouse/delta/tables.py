"""The warehouse's tables, stored as Delta tables at `<root>/<database>/<table>`.

Invariant: this module creates, widens, fills and reads tables, and depends on no batch, Kafka or clock.

Delta's own search for matching rows runs a job even if no file can have any. Here, a table's greatest keys
come from the checksum of its newest commit, which has the statistics of all files while they are few. If the
keys of a batch are greater, its rows can only be new. The keys are remembered as long as no other commit comes
in between. Invariant: a key counts as greater only by the statistics of exactly the version with which the
merge begins. The versions of a table that is made again have the same numbers, so nothing that is known of a
table outlives it.

Also the values of partitioning columns that Delta does not read back as they were. Delta stores the value of a
partition as text, in the name of its folder and in its log. An empty text and Hive's name for NULL are read
back as NULL; a text that is long, or has a zero byte, cannot name a folder. BINARY values that are not UTF-8
are read back as other bytes. Invariant: no row is stored in a partition whose value is not the row's own.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from spark_sink.errors import PartitionUnfit, UnknownTable
from spark_sink.source.positions import Offsets
from spark_sink.spark.files import Files, side_by_side
from spark_sink.spark.jobs import temporary_view
from spark_sink.text.quoting import action, literal, quoted
from spark_sink.warehouse.common.merge_range import LARGE, Bound, Key, key_bounds, order, range_sql
from spark_sink.warehouse.common.statements import (
    CUT_PROPERTY,
    columns_sql,
    comment_sql,
    cut_text,
    merge_sql,
    name_of,
    own_rows,
    parse_cut,
    truncate_sql,
    without_foreign,
)
from spark_sink.warehouse.delta.ddl import (
    alter_sql,
    commented,
    create_sql,
    delta,
    make_sql,
    rename_sql,
    replace_sql,
)
from spark_sink.warehouse.delta.log import (
    DeltaLog,
    again_on_conflict,
    checksum,
    conflicts_by_name,
    entries,
    is_left_over,
    refuse_foreign,
    remove_left_over,
    shape_at,
)
from spark_sink.warehouse.ledger import Floor
from spark_sink.warehouse.milestones import Position
from spark_sink.warehouse.protocol import CommitConflict
from spark_sink.warehouse.seen_rows import newest_of, seen_rows
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.table_rules import Layout, Layouts, among, no_layout
from wire.warehouse_folders import CUT, table_path, unfolder

_log = logging.getLogger(__name__)
_COMMITS: Final = 50
"""The number of commits after which the size of a table that was small is read again."""


@dataclass(slots=True)
class NewestKeys:
    """The greatest values of key columns, by the table's path."""

    files: Files
    _known: dict[str, tuple[int, dict[str, Key | None]]] = field(default_factory=dict)
    """The version for which the values hold, and the values by column; None for a column without any value."""
    _filled: set[str] = field(default_factory=set)
    """Tables that had files once, and nearly always have some now."""
    _large: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """The version at which a table's size was read, and whether it was large."""

    def are_none(self, path: str, version: int) -> bool:
        """Whether the table is known to have no file, so that any row of a batch is new."""
        if path in self._filled:
            return False
        if checksum(self.files, path, version).get("numFiles") == 0:
            return True
        self._filled.add(path)
        return False

    def are_many(self, path: str, version: int) -> bool:
        """Whether the table is so large that a small batch's keys should be listed."""
        at, is_large = self._large.get(path, (-_COMMITS, False))
        if not is_large and version - at >= _COMMITS:
            is_large = checksum(self.files, path, version).get("tableSizeBytes", 0) >= LARGE
            self._large[path] = version, is_large
        return is_large

    def are_past(self, path: str, version: int, bounds: Sequence[Bound]) -> bool:
        """Whether, in one column of the key, a batch's least value is greater than all of the table's."""
        known = self._known.get(path)
        if known is None or known[0] != version:
            names = [one.name for one in bounds]
            self._known[path] = known = version, self._read(path, version, names)
        greatest = known[1]
        return any(
            one.name in greatest and _is_less(greatest[one.name], one.least) for one in bounds
        )

    def merged(self, path: str, version: int, bounds: Sequence[Bound]) -> None:
        """Take note of the version that a batch with these keys has made."""
        before, greatest = self._known.get(path, (-1, {}))
        if before != version - 1:
            self._known.pop(path, None)
            return
        for one in bounds:
            if one.name in greatest and _is_less(greatest[one.name], one.most):
                greatest[one.name] = one.most
        self._known[path] = version, greatest

    def forget(self, path: str) -> None:
        """Take note that a batch with unknown keys was merged, or that the table is removed or made again."""
        self._known.pop(path, None)
        self._filled.discard(path)
        self._large.pop(path, None)

    def _read(self, path: str, version: int, names: Sequence[str]) -> dict[str, Key | None]:
        found = checksum(self.files, path, version)
        files, metadata = found.get("allFiles"), found.get("metadata")
        if files is None or metadata is None:
            return {}
        physical = physical_names(metadata["schemaString"])
        statistics = [
            json.loads(one.get("stats") or "{}", parse_float=Decimal).get("maxValues", {})
            for one in files
        ]
        greatest: dict[str, Key | None] = {}
        for name in names:
            values = [one.get(physical.get(name, name)) for one in statistics]
            if None not in values:
                greatest[name] = max(values, key=order) if values else None
        return greatest


def physical_names(schema: str) -> dict[str, str]:
    """The name of each column in statistics, which differs from its own where Delta maps columns."""
    fields = json.loads(schema)["fields"]
    key = "delta.columnMapping.physicalName"
    return {one["name"]: one["metadata"].get(key, one["name"]) for one in fields}


def _is_less(one: Key | None, other: Key) -> bool:
    return one is None or order(one) < order(other)


class DeltaTables:
    """Delta tables at `<root>/<database>/<table>`, with the layouts that are set for them."""

    def __init__(self, spark: SparkSession, root: str, *, layouts: Layouts = no_layout) -> None:
        self._spark = spark
        self._root = root.rstrip("/")
        self._layouts = layouts
        self._newest_keys = NewestKeys(Files(spark))

    def shape(self, database: str, table: str) -> Shape | None:
        path = table_path(self._root, database, table)
        found = self._describe(path)
        if found is None:
            return None
        return without_foreign(shape_at(path, (database, table), *found), found[0])

    def as_of(self, database: str, table: str, version: int) -> tuple[Shape, DataFrame]:
        path = table_path(self._root, database, table)
        log = DeltaLog(self._spark, path)
        rows = log.rows(version)
        return shape_at(path, (database, table), log.properties(version), rows.schema), rows

    def newest(self, shape: Shape) -> dict[str, Position]:
        return newest_of(self.rows(shape))

    def evolve(self, held: Shape | None, wanted: Shape, *, is_made: bool = True) -> None:
        path = table_path(self._root, wanted.database, wanted.table)
        if held is None:
            self._newest_keys.forget(path)
            remove_left_over(self._spark, Files(self._spark), path)
            statements = [create_sql(path, wanted, self._layout(wanted))]
        else:
            statements = alter_sql(path, held, wanted, is_made=is_made)
        for statement in statements:
            again_on_conflict(partial(self._spark.sql, statement))
        if held is None and DeltaLog(self._spark, path).version() < 0:
            # This statement takes any existing folder for a table, and so has made none.
            refuse_foreign(path, Files(self._spark).names(path))
            self.replace(wanted, self._spark.createDataFrame([], columns_sql(wanted)))

    def rename_columns(self, shape: Shape, names: Mapping[str, str]) -> Shape:
        path = table_path(self._root, shape.database, shape.table)
        # The shape that an interrupted call may have left.
        there = self.shape(shape.database, shape.table) or shape
        left = {old: new for old, new in names.items() if there.spelling(old) == old}
        renamed = replace(shape.with_names(names), mapped=True)
        for statement in rename_sql(path, there, renamed, left):
            again_on_conflict(partial(self._spark.sql, statement))
        return renamed

    def reads_once(self, shape: Shape) -> bool:
        path = table_path(self._root, shape.database, shape.table)
        version = DeltaLog(self._spark, path).version()
        if version < 0 and self._is_made_with_rows(shape):
            return True
        return shape.keyed and (version < 0 or self._newest_keys.are_none(path, version))

    def merge(
        self, shape: Shape, rows: DataFrame, *, is_hard: bool = False, is_new: bool = False
    ) -> None:
        if is_new and self._make(shape, rows, is_hard=is_hard):
            return
        if is_new:
            self.evolve(None, shape)
        # The view must be in the session of the rows.
        session = rows.sparkSession
        path = table_path(self._root, shape.database, shape.table)
        log = DeltaLog(session, path)
        rows = guarded(rows, dict(shape.columns), log.partitions())
        bounds: list[Bound] = []

        def merge(view: str, *, only_new: bool) -> int:
            within, done = range_sql(bounds), []
            statement = merge_sql(
                delta(path), shape, source=view, within=within, is_hard=is_hard, only_new=only_new
            )
            again_on_conflict(lambda: done.extend(session.sql(statement).collect()))
            return int(done[0].num_inserted_rows)

        with unfit_by_name(shape), temporary_view(rows) as view:
            before = log.version()
            is_empty = shape.keyed and self._newest_keys.are_none(path, before)
            if not is_empty:
                is_large = self._newest_keys.are_many(path, before)
                bounds += key_bounds(shape, rows, is_large=is_large)
            only_new = is_empty or (
                shape.keyed and self._newest_keys.are_past(path, before, bounds)
            )
            # Without a clause for matching rows, the MERGE is a single job, without a join.
            inserted = merge(view, only_new=only_new)
            if only_new and (not inserted or log.version() != before + 1):
                # Another commit came in between, and may have added these keys.
                merge(view, only_new=False)
            if is_empty:
                self._newest_keys.forget(path)
            else:
                self._newest_keys.merged(path, log.version(), bounds)

    def _make(self, shape: Shape, rows: DataFrame, *, is_hard: bool) -> bool:
        """Create the table with its rows in one commit; if that is not possible, do nothing, return False."""
        if not self._is_made_with_rows(shape):
            return False
        path = table_path(self._root, shape.database, shape.table)
        layout = self._layouts((shape.database, shape.table))
        self._newest_keys.forget(path)
        remove_left_over(self._spark, Files(self._spark), path)
        first = rows.select(*commented(shape))
        try:
            with temporary_view(first) as view, conflicts_by_name():
                statement = make_sql(path, shape, layout, source=view, is_hard=is_hard)
                rows.sparkSession.sql(statement)
        except CommitConflict:
            return False
        except AnalysisException as fault:
            if fault.getCondition() != "TABLE_OR_VIEW_ALREADY_EXISTS":
                raise
            return False
        return True

    def _is_made_with_rows(self, shape: Shape) -> bool:
        """Whether a new table is created with its first rows.

        Not with partitions: each task would write a file for each of them, whereas a MERGE gathers their rows.
        """
        return not self._layouts((shape.database, shape.table)).partition_by

    def _layout(self, shape: Shape, rows: DataFrame | None = None) -> Layout:
        """The layout of a table, without partitions if a column's type or a value in `rows` forbids them."""
        layout, kinds = self._layouts((shape.database, shape.table)), dict(shape.columns)
        columns = among(layout.partition_by, kinds)
        never = [name for name in columns if not can_divide(kinds[name])]
        if not never and (rows is None or not columns or not any_unfit(rows, shape, columns)):
            return layout
        _log.warning(
            "not partitioned, as %s table=%s.%s",
            f"{never[0]} is {kinds[never[0]]}"
            if never
            else f"a value of {', '.join(columns)} cannot be the value of a partition",
            *(shape.database, shape.table),
        )
        return replace(layout, partition_by=())

    def truncate(self, shape: Shape, floor: Floor, *, is_hard: bool = False) -> None:
        path = table_path(self._root, shape.database, shape.table)
        statement = truncate_sql(delta(path), shape, floor, is_hard=is_hard)
        again_on_conflict(lambda: self._spark.sql(statement))

    def replace(
        self,
        shape: Shape,
        rows: DataFrame,
        *,
        cut: tuple[int, Offsets] | None = None,
    ) -> None:
        path = table_path(self._root, shape.database, shape.table)
        session = rows.sparkSession
        self._newest_keys.forget(path)
        more = {CUT_PROPERTY: cut_text(*cut)} if cut else {}
        layout = self._layout(shape, rows)
        with temporary_view(rows) as view:
            statement = replace_sql(path, shape, layout, source=view, more=more)
            again_on_conflict(lambda: session.sql(statement))
        # The table's columns are those of a query, and have no comments yet.
        for comment in comment_sql(delta(path), replace(shape, comments=()), shape):
            again_on_conflict(partial(session.sql, comment))

    def cut(self, database: str, table: str) -> tuple[int, dict[tuple[str, int], int]] | None:
        found = self._describe(table_path(self._root, database, table))
        text = found[0].get(CUT_PROPERTY) if found else None
        return parse_cut(text) if text else None

    def drop(self, database: str, table: str) -> None:
        path = table_path(self._root, database, table)
        self._newest_keys.forget(path)
        Files(self._spark).delete(path)

    def rows(
        self, shape: Shape, *, beside: DataFrame | None = None, fixed: bool = False
    ) -> DataFrame:
        """See protocol.Tables. Reads in the session of `beside`, since a batch has its own."""
        path = table_path(self._root, shape.database, shape.table)
        session = self._spark if beside is None else beside.sparkSession
        reader = session.read.format("delta")
        if fixed:
            reader = reader.option("versionAsOf", DeltaLog(session, path).version())
        return own_rows(reader.load(path), shape)

    def current(self, database: str, table: str, *, bookkeeping: bool = False) -> DataFrame:
        shape = self.shape(database, table)
        if shape is None:
            raise UnknownTable(f"{database}.{table}")
        return seen_rows(self.rows(shape), shape, bookkeeping=bookkeeping)

    def names(self) -> list[tuple[str, str]]:
        files, root = Files(self._spark), self._root
        # Only the sink's own folders begin with an underscore, never a database's.
        databases = [one for one in files.names(root) if not one.startswith("_")]
        inside = side_by_side(lambda database: files.names(f"{root}/{database}"), databases)
        folders = [
            (database, table)
            for database, tables in zip(databases, inside, strict=True)
            for table in tables
        ]
        found = side_by_side(self._name, folders)
        return [name for name in found if name is not None]

    def _name(self, folders: tuple[str, str]) -> tuple[str, str] | None:
        """The name of a folder's table, from its properties if the folder's name is cut; None without one."""
        path = "/".join((self._root, *folders))
        names = entries(Files(self._spark), path)
        if not names or is_left_over(names):
            return None
        described = self._describe(path) if CUT in "".join(folders) else None
        stored = name_of(described[0]) if described else None
        return stored or (unfolder(folders[0]), unfolder(folders[1]))

    def _describe(self, path: str) -> tuple[dict[str, str], StructType, str] | None:
        # From the log alone: DESCRIBE DETAIL and a reader each plan a query, which takes ten times as long.
        version, metadata = DeltaLog(self._spark, path).version_and_metadata()
        if version < 0:
            return None
        schema = StructType.fromJson(json.loads(metadata["schemaString"]))
        return metadata["configuration"], schema, metadata.get("description") or ""


_OF_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_LONGEST: Final = 255
"""The most bytes of the name of a folder, on most file systems."""
_OF_MAPPED: Final = 41
"""The bytes of a column's name where Delta maps names, with the character after it."""
_ESCAPED: Final = r"[\x01-\x1F\x7F\"#%'*/:=?\\{\[\]^]"
"""What Spark writes as three characters in the name of a folder."""
_NEVER: Final = re.compile("binary|struct<|array<|map<")
_UNFIT: Final = re.compile("aqueduct: unfit partition (.*?) of aqueduct", re.DOTALL)


def can_divide(kind: str) -> bool:
    """Whether a table can be partitioned by a column of this type."""
    return _NEVER.match(kind) is None


def unfit_sql(name: str, kind: str) -> str:
    """The condition that a value would not be read back as it was."""
    own = quoted(name)
    if not can_divide(kind):
        return f"{own} IS NOT NULL"
    if kind != "string":
        return "false"
    segment = f"octet_length(regexp_replace({own}, {literal(_ESCAPED)}, 'xxx'))"
    room = _LONGEST - max(3 * len(name.encode()) + 1, _OF_MAPPED)
    return (
        f"({own} IN ('', {literal(_OF_NULL)}) OR instr({own}, char(0)) > 0 OR {segment} > {room})"
    )


def any_unfit(rows: DataFrame, shape: Shape, columns: Sequence[str]) -> bool:
    """Whether any row has a value that would not be read back as it was."""
    kinds = dict(shape.columns)
    condition = " OR ".join(unfit_sql(name, kinds[name]) for name in columns)
    return not rows.where(condition).isEmpty()


def guarded(rows: DataFrame, kinds: Mapping[str, str], columns: Sequence[str]) -> DataFrame:
    """The rows; computing them fails if one has a value that would not be read back. See `unfit_by_name`."""
    found = rows
    for name in columns:
        if (unfit := unfit_sql(name, kinds[name])) != "false":
            text = literal(f"aqueduct: unfit partition {name} of aqueduct")
            found = found.withColumn(
                name, f.expr(f"if({unfit}, raise_error({text}), {quoted(name)})")
            )
    return found


@contextmanager
def unfit_by_name(shape: Shape) -> Iterator[None]:
    """Raise PartitionUnfit for rows that `guarded` refuses."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as fault:
        if found := _UNFIT.search(str(fault)):
            name = shape.database, shape.table
            raise PartitionUnfit(
                f"{'.'.join(name)}: a value of {found[1]} is an empty text, {_OF_NULL}, bytes, or too long for "
                "the name of a folder",
                advice=f"{action(name)}; it is then written without partitions. To have some, choose another "
                "column for partition_by first",
            ) from fault
        raise
