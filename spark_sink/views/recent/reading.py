"""Tables with their recent changes, as readers see them.

The merged offsets are read first, then the tables at fixed versions, then the recent changes. So no change is
missing between the merged rows and the recent changes. As long as the recent changes hold what a batch merges,
no table holds more than they do, and all tables that are read together are of one cut of Kafka's offsets.

Invariant: a table's recent changes are applied all or not at all. If the table waits, or one of these changes
cannot be applied, the table is read as it was last merged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.batch.contents import TablePart, contents, published_again, versions_of
from spark_sink.batch.drops_and_renames.following import routed
from spark_sink.batch.drops_and_renames.statement import parse_statement
from spark_sink.batch.last_truncates import floors_of
from spark_sink.batch.shapes import altered_rows, fitted, traced_to
from spark_sink.batch.table_merge import merged_rows
from spark_sink.errors import (
    KeyChanged,
    MalformedRecord,
    TableError,
    TypeConflict,
    UnknownTable,
)
from spark_sink.source.claims import redeemed
from spark_sink.source.envelope import of_table
from spark_sink.source.schemas import SchemaBook, TableVersion
from spark_sink.spark.error_mapping import refused_record
from spark_sink.text.quoting import quoted
from spark_sink.warehouse.columns import Traced
from spark_sink.warehouse.identity import NEWER, below_sql, once_by, same_key
from spark_sink.warehouse.ledger import Floor, Floors, Source
from spark_sink.warehouse.markers import in_force, markers_of, without_older
from spark_sink.warehouse.moves import History, pieces, pieces_of
from spark_sink.warehouse.opening import Format, open_warehouse
from spark_sink.warehouse.protocol import Name, Recent, Warehouse
from spark_sink.warehouse.seen_rows import seen_rows
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.waiting_tables import Waits, loaded_sql

_log = logging.getLogger(__name__)
_ATTEMPTS: Final = 3


def fresh(
    spark: SparkSession,
    warehouse: str,
    database: str,
    table: str,
    *,
    bookkeeping: bool = False,
    claim_checks: str = "",
    catalog: Mapping[str, str] | None = None,
    table_format: Format | None = None,
) -> DataFrame:
    """The current rows of a table with its recent changes, without deleted rows.

    `spark` needs the settings and jars of the warehouse's format (docs/sink/tables.md); `claim_checks` and
    `catalog` are the sink's settings of those names. `table_format` is the expected format; by default, the
    warehouse's. `bookkeeping` adds the bookkeeping columns. Raise UnknownTable and ForeignWarehouse.
    """
    held = open_warehouse(spark, warehouse, table_format=table_format, catalog=catalog)
    names = [(database, table)]
    (rows,) = _fresh(held, names, bookkeeping=bookkeeping, claim_checks=claim_checks).values()
    return rows


def current(
    spark: SparkSession,
    warehouse: str,
    database: str,
    table: str,
    *,
    bookkeeping: bool = False,
    catalog: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of a table as they were last merged, without deleted rows. See `fresh`.

    For a table without a primary key, each row is repeated as often as the source has it, and its only
    bookkeeping column is `__unrepresentable`.
    """
    tables = open_warehouse(spark, warehouse, catalog=catalog).tables
    return tables.current(database, table, bookkeeping=bookkeeping)


def fresh_tables(
    spark: SparkSession,
    warehouse: str,
    names: Iterable[Name],
    *,
    bookkeeping: bool = False,
    claim_checks: str = "",
    catalog: Mapping[str, str] | None = None,
) -> dict[Name, DataFrame]:
    """The current rows of several tables, all up to the same offsets of Kafka. See `fresh`."""
    held = open_warehouse(spark, warehouse, catalog=catalog)
    return _fresh(held, names, bookkeeping=bookkeeping, claim_checks=claim_checks)


def _fresh(
    warehouse: Warehouse[DataFrame],
    names: Iterable[Name],
    *,
    bookkeeping: bool,
    claim_checks: str,
) -> dict[Name, DataFrame]:
    reader = _Reader(warehouse=warehouse, claim_checks=claim_checks)
    return reader.read(list(names), bookkeeping=bookkeeping)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A table as it is merged: its shape and its rows at a fixed version; both None before its first row."""

    shape: Shape | None
    rows: DataFrame | None
    markers: DataFrame | None = None
    """The markers of deleted rows that are stored beside the table; none is later than the table's rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    warehouse: Warehouse[DataFrame]
    claim_checks: str

    def read(self, names: list[Name], *, bookkeeping: bool) -> dict[Name, DataFrame]:
        waits = Waits(self.warehouse.log, time.time)
        for _ in range(_ATTEMPTS):
            waits.refresh()
            offsets = self.warehouse.log.applied()
            ddl = self.warehouse.log.ddl()
            hard = set(self.warehouse.deleted.tables.names())
            merged = {name: self._merged(name, is_hard=name in hard) for name in names}
            recent = self.warehouse.recent.newest()
            # If a table is renamed meanwhile, it may have been read before that and another table after it.
            is_still = not ddl.events or self.warehouse.log.ddl().done == ddl.done
            if recent is None or (is_still and recent.cut.continues(offsets)):
                break
        else:
            recent = None
        unsettled: set[Name] = set()
        book = SchemaBook(tuple)
        if recent is not None:
            records = recent.records.where(recent.cut.after_sql(offsets))
            recent = replace(
                recent, records=routed(records, pieces_of(pieces(ddl.settled()), names))
            )
            book = book_of(recent, merged)
            unsettled = _unsettled(recent.statements, ddl)
            for name in sorted(unsettled.intersection(names)):
                _log.warning("dropped or renamed, so read as last merged table=%s.%s", *name)
        return {
            name: self._rows(
                name,
                merged[name],
                None if name in unsettled else recent,
                book,
                waits,
                ddl,
                bookkeeping=bookkeeping,
            )
            for name in names
        }

    def _merged(self, name: Name, *, is_hard: bool) -> Merged:
        shape = self.warehouse.tables.shape(*name)
        if shape is None:
            return Merged(shape=None, rows=None)
        # Markers are read before the rows: a later marker may belong to a change that the rows do not have.
        markers = markers_of(self.warehouse, name, shape) if is_hard else None
        rows = self.warehouse.tables.rows(shape, fixed=True)
        return Merged(shape=shape, rows=rows, markers=markers)

    def _rows(
        self,
        name: Name,
        merged: Merged,
        recent: Recent[DataFrame] | None,
        book: SchemaBook,
        waits: Waits,
        ddl: History,
        *,
        bookkeeping: bool,
    ) -> DataFrame:
        found: tuple[Shape, DataFrame] | None = None
        if recent is not None and not waits.waiting(name):
            records = recent.records.where(of_table(name))
            if applied := loaded_sql(waits.tables.values(), recent.cut.since, name):
                records = records.where(f"NOT coalesce({applied}, false)")
            try:
                found = self._combined(name, merged, records, book, ddl)
            except TableError as fault:
                _log.warning("recent changes not applied table=%s.%s: %s", *name, fault)
        if found is None:
            if merged.shape is None or merged.rows is None:
                raise UnknownTable(".".join(name))
            found = merged.shape, merged.rows
        shape, rows = found
        return seen_rows(rows, shape, bookkeeping=bookkeeping)

    def _combined(
        self,
        name: Name,
        merged: Merged,
        records: DataFrame,
        book: SchemaBook,
        ddl: History,
    ) -> tuple[Shape, DataFrame] | None:
        """The table's shape and rows with recent changes; None if there are no changes."""
        records = records.localCheckpoint(eager=False)
        part = contents(records).tables.get(name)
        if part is None:
            return None
        return combined(
            merged,
            records,
            part,
            book,
            floors=ddl.floors(self.warehouse.log.floors()),
            is_emptied=ddl.is_moved(name),
            claim_checks=self.claim_checks,
        )


def book_of(recent: Recent[DataFrame], merged: Mapping[Name, Merged]) -> SchemaBook:
    """The versions of the tables that are read with recent changes, also those under their earlier names."""
    shapes = [one.shape for one in merged.values() if one.shape is not None]
    earlier = {(entry[1], entry[2]) for shape in shapes for entry in shape.followed}
    return SchemaBook(tuple, read_of=recent.versions, expected={*merged, *earlier})


def combined(
    merged: Merged,
    records: DataFrame,
    part: TablePart,
    book: SchemaBook,
    *,
    floors: Iterable[Floor],
    is_emptied: bool,
    claim_checks: str,
) -> tuple[Shape, DataFrame] | None:
    """A table's shape and rows with the recent changes that `part` describes; None if it has no shape.

    `records` are the changes of this table, `book` has the versions that they name, and `floors` are
    the truncates that are merged. `is_emptied` means that a table of its name was dropped or renamed, so that
    the next table of that name may have another key. Raise TableError.
    """
    if part.fault:
        raise part.fault
    if merged.shape is not None and part.replaced.open:
        raise published_again(part.name, part.replaced.open)
    if part.claims:
        whole = records.where("claim IS NULL")
        records = whole.unionByName(redeemed(records, part.claims, store=claim_checks))
        records = records.localCheckpoint(eager=False)
        if fault := contents(records).tables[part.name].fault:
            raise fault
    known = versions_of(part, book)
    if merged.shape is None and not known:
        return None
    if is_emptied:
        merged = _vacated(merged, part, known, book)
    traced = traced_to(merged.rows, merged.shape, known, book, name=part.name, apart=part.is_apart)
    shape, known = traced.wanted, traced.versions
    highest = _highest((*floors, *floors_of(part, known)), part.name)
    rows = _fitted(merged, traced, shape, records)
    for source, floor in highest.items():
        rows = rows.where(f"NOT coalesce({below_sql(shape, source, floor)}, false)")
    if not part.has_rows:
        return shape, rows
    markers = merged.markers
    if markers is not None and shape.keyed:
        markers = in_force(fitted(markers, traced, shape), rows, shape)
    changed = _usable(
        lambda: merged_rows(records, part, shape, known, highest, held=rows, markers=markers)
    )
    if not shape.keyed:
        marks = list(once_by(shape))
        changed = changed.join(rows.select(*marks), marks, "left_anti")
        return shape, rows.unionByName(changed)
    if markers is not None:
        changed = without_older(changed, markers, shape)
    return shape, _replaced(rows, changed, shape)


def _vacated(
    merged: Merged, part: TablePart, known: list[TableVersion], book: SchemaBook
) -> Merged:
    """The table without its shape, if it has no rows and was created again with another key or type."""
    if merged.rows is None:
        return merged
    try:
        found = traced_to(
            merged.rows, merged.shape, known, book, name=part.name, apart=part.is_apart
        )
        _ = found.wanted
    except (KeyChanged, TypeConflict):
        if merged.rows.isEmpty():
            return Merged(shape=None, rows=None)
    return merged


def _highest(floors: Iterable[Floor], name: Name) -> Floors:
    found: dict[Source, tuple[int, int]] = {}
    for floor in floors:
        if (floor.database, floor.table) == name:
            found[floor.source] = max(floor.place, found.get(floor.source, floor.place))
    return found


def _usable(rows: Callable[[], DataFrame]) -> DataFrame:
    """Compute the rows now, while the table can still be read without them. Raise MalformedRecord."""
    try:
        return rows().localCheckpoint()
    except (PySparkException, Py4JJavaError) as fault:
        if record := refused_record(str(fault)):
            raise MalformedRecord(record) from fault
        raise


def _unsettled(statements: Iterable[str], ddl: History) -> set[Name]:
    """The tables of statements that drop or rename them, and that no merge has carried out yet.

    It is not known which table the recent changes under these names belong to.
    """
    found: set[Name] = set()
    for text in statements:
        one = parse_statement(text, "recent changes")
        if one.place > ddl.done.get(one.destination, (-1, -1)):
            found |= one.names
    return found.union(*(event.names for event in ddl.pending()))


def _fitted(merged: Merged, traced: Traced, shape: Shape, beside: DataFrame) -> DataFrame:
    """The merged rows in the columns and types of `shape`."""
    if merged.rows is None or merged.shape is None:
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in shape.all_columns)
        return beside.sparkSession.createDataFrame([], columns)
    altered = altered_rows(merged.rows, traced, shape) if traced.conversions else None
    return fitted(merged.rows, traced, shape) if altered is None else altered


def _replaced(rows: DataFrame, changed: DataFrame, shape: Shape) -> DataFrame:
    """The rows, replaced by the rows of `changed` that are newer; `changed` has one row for each key."""
    same, newer = f.expr(same_key(shape)), f.expr(NEWER)
    few = f.broadcast(changed).alias("s")
    kept = rows.alias("t").join(few, same & newer, "left_anti")
    at = ("__destination", "__epoch", "__seq")
    old = rows.alias("t").join(few, same & ~newer).select(*(f"s.{name}" for name in at))
    return kept.unionByName(changed.join(f.broadcast(old), list(at), "left_anti"))
