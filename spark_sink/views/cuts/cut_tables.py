"""Tables as of one transaction of the source.

A cut reads tables as of a batch, under the names that they had then. A DROP TABLE or RENAME TABLE may have
been carried out before that batch although rows from before the statement were still to come, or only after
the batch.

Invariant: all tables of a cut are as of the same transactions, each with all of its changes or none. A table
is in a cut only if each statement that concerns it is either in the cut and was carried out before the batch,
or is after the cut and not carried out at all. A table that cannot be read in this way is refused by name.
"""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch.contents import TablePart, contents
from spark_sink.batch.drops_and_renames.following import routed
from spark_sink.batch.drops_and_renames.statement import parse_statement
from spark_sink.errors import CutGone, TableError, TableNotInCut, UnknownTable
from spark_sink.source.envelope import of_table
from spark_sink.source.schemas import SchemaBook
from spark_sink.text.quoting import literal
from spark_sink.views.cuts.cut_positions import Finder, Found, moment
from spark_sink.views.recent.reading import Merged, book_of, combined
from spark_sink.warehouse.coverage import reaches
from spark_sink.warehouse.markers import markers_of
from spark_sink.warehouse.milestones import Existing, Positions
from spark_sink.warehouse.moves import Event, History, Piece, Place, pieces
from spark_sink.warehouse.opening import Format, open_warehouse
from spark_sink.warehouse.protocol import Name, Recent, VersionGone, Warehouse
from spark_sink.warehouse.seen_rows import seen_rows
from spark_sink.warehouse.waiting_tables import LOADED, Waits
from wire.text import utc


def as_of(
    spark: SparkSession,
    warehouse: str,
    at: str | datetime.datetime | tuple[str, int] | None = None,
    *,
    claim_checks: str = "",
    catalog: Mapping[str, str] | None = None,
    table_format: Format | None = None,
) -> ConsistentCut:
    """The tables of a warehouse as of one transaction of the source.

    `at` is a transaction (its GTID), a time of commits, or (destination, `source.seq`), which may also be
    written `destination@seq`; without it, the cut is after the newest complete transaction. See
    `recent.reading.fresh` for what `spark` needs and for the other parameters. Raise CutUnknown,
    CutIncomplete, CutGone or CutAmbiguous, and ForeignWarehouse.
    """
    held = open_warehouse(spark, warehouse, table_format=table_format, catalog=catalog)
    wanted = moment(at) if at is not None else None
    return ConsistentCut(Finder(held).find(wanted), held, claim_checks)


@dataclass(slots=True)
class ConsistentCut:
    """All tables as of one transaction; made by `as_of`."""

    _found: Found
    _warehouse: Warehouse[DataFrame]
    _claim_checks: str = ""
    _waits: Waits = field(init=False)
    _added: Recent[DataFrame] | None = field(init=False)
    """The recent changes that belong to the cut and are not in its tables' versions."""
    _history: History = field(init=False)
    """The statements that drop and rename tables, as they were last read."""
    _refused: dict[Name, str] = field(init=False)
    """Tables that are not in the cut because of such a statement, with the reasons."""
    _pieces: dict[tuple[str, Name], list[Piece]] = field(init=False)
    _half_read: dict[Name, str] = field(init=False)
    """Tables of which existing rows were published after the cut, with the reasons."""
    _hard: set[Name] = field(init=False)
    """Tables that have markers of deleted rows stored beside them."""
    _parts: dict[Name, TablePart] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Read which tables wait, and which were dropped or renamed."""
        self._waits = Waits(self._warehouse.log, time.time)
        self._waits.refresh()
        self._hard = set(self._warehouse.deleted.tables.names())
        self._look_at_ddl()
        self._half_read = half_read(self._found.existing, self._found.positions)
        self._pieces = pieces(self._moves().carried_out())
        recent, after = self._found.recent, self._found.base.until
        self._added = None
        if recent is not None:
            records = recent.records.where(recent.cut.after_sql(after)).where(
                upto_sql(self._found.positions)
            )
            records = routed(records, self._pieces).localCheckpoint(eager=False)
            self._added = replace(recent, records=records)

    def _look_at_ddl(self) -> None:
        self._history = self._warehouse.log.ddl()
        self._refused = self._moves().refused()

    def _moves(self) -> Moves:
        recent = self._found.recent
        return Moves(
            history=self._history,
            statements=recent.statements if recent is not None else (),
            done=self._found.milestone.ddl,
            positions=self._found.positions,
        )

    @property
    def positions(self) -> Positions:
        """The last change of each destination in the cut."""
        return self._found.positions

    @property
    def versions(self) -> dict[Name, int]:
        """The version of each table to which recent changes are added."""
        return dict(self._found.milestone.versions)

    def known(self) -> list[Name]:
        """All tables, including those that are not in the cut."""
        return sorted({*self._found.milestone.versions, *self._contents(), *self._half_read})

    def gone(self) -> list[Name]:
        """Names that tables had before they were dropped or renamed, and that no table has in the cut."""
        return sorted(self._moves().names() - set(self.known()))

    def names(self) -> list[Name]:
        """The tables in the cut."""
        return [name for name in self.known() if not self.missing(name)]

    def table(self, database: str, table: str, *, bookkeeping: bool = False) -> DataFrame:
        """The rows of a table in the cut. See `read`."""
        (rows,) = self.read([(database, table)], bookkeeping=bookkeeping).values()
        return rows

    def read(
        self, names: Iterable[Name] | None = None, *, bookkeeping: bool = False
    ) -> dict[Name, DataFrame]:
        """The rows of these tables in the cut, without deleted rows; by default, all tables in the cut.

        Raise UnknownTable, TableNotInCut, and CutGone if a version was removed.
        """
        wanted = list(names) if names is not None else self.names()
        self._refuse_missing(wanted)
        try:
            merged = {name: self._merged(name) for name in wanted}
        finally:
            # A table that was dropped or renamed meanwhile is gone, or another table has its name and version.
            self._look_at_ddl()
            self._refuse_missing(wanted)
        book = book_of(self._added, merged) if self._added is not None else SchemaBook(tuple)
        return {
            name: self._rows(name, merged[name], book, bookkeeping=bookkeeping) for name in wanted
        }

    def recent_changes(self) -> Counter[Name]:
        """The number of changes that are added to each table's version."""
        return Counter({name: part.ops.total() for name, part in self._contents().items()})

    def later_changes(self) -> Counter[Name]:
        """The number of each table's visible changes after the cut."""
        if (recent := self._found.recent) is None:
            return Counter()
        after = recent.records.where(f"NOT coalesce({upto_sql(self.positions)}, false)")
        rows = routed(after, self._pieces).groupBy("database", "table").count().collect()
        return Counter({(row.database, row["table"]): row["count"] for row in rows})

    def _contents(self) -> dict[Name, TablePart]:
        if self._parts is None:
            self._parts = contents(self._added.records).tables if self._added is not None else {}
        return self._parts

    def missing(self, name: Name) -> str:
        """Why a table has no state in the cut; empty if it has one."""
        if reason := self._refused.get(name) or self._half_read.get(name):
            return reason
        state, base = self._waits.tables.get(name), self._found.base
        if state is None or state.since_ms > base.at_ms:
            return ""
        if state.waits:
            return f"it waits since {utc(state.since_ms)}"
        is_late = base.at_ms < state.at_ms or not reaches(base.until, state.offsets)
        return (
            "it is being brought up to date after a reload"
            if state.kind == LOADED and is_late
            else ""
        )

    def _refuse_missing(self, names: Iterable[Name]) -> None:
        for name in names:
            if reason := self.missing(name):
                advice = "See: python -m spark_sink status"
                if name in self._refused or name in self._half_read:
                    advice = "Take a later cut, once the sink has merged it"
                raise TableNotInCut(f"{'.'.join(name)}: {reason}", advice=advice)

    def _rows(
        self, name: Name, merged: Merged, book: SchemaBook, *, bookkeeping: bool
    ) -> DataFrame:
        part = self._contents().get(name)
        found = (merged.shape, merged.rows)
        if part is not None and self._added is not None:
            records = self._added.records.where(of_table(name))
            try:
                found = combined(
                    merged,
                    records,
                    part,
                    book,
                    floors=self._found.milestone.floors,
                    is_emptied=self._history.is_moved(name),
                    claim_checks=self._claim_checks,
                ) or (None, None)
            except TableError as fault:
                raise TableNotInCut(
                    f"{'.'.join(name)}: {fault}", advice="See: python -m spark_sink status"
                ) from fault
            except VersionGone as fault:
                raise cut_gone(fault) from fault
        shape, rows = found
        if shape is None or rows is None:
            raise UnknownTable(".".join(name))
        return seen_rows(rows, shape, bookkeeping=bookkeeping)

    def _merged(self, name: Name) -> Merged:
        """The table at the cut's version; nothing before its first row."""
        version = self._found.milestone.versions.get(name)
        if version is None:
            return Merged(shape=None, rows=None)
        left = self._found.milestone.left.get(name)
        try:
            shape, rows = self._warehouse.tables.as_of(*name, version)
            # The versions of a table that was removed and made again have the same numbers.
            if left is not None and not self._warehouse.commits.descends(name, left):
                raise VersionGone(f"{'.'.join(name)}, version {version}: the table was made again")
        except VersionGone as fault:
            raise cut_gone(fault) from fault
        markers = markers_of(self._warehouse, name, shape) if name in self._hard else None
        if markers is not None:
            # Markers of deletes after the cut belong to rows that are in the cut.
            markers = markers.where(upto_sql(self.positions, own="__"))
        return Merged(shape=shape, rows=rows, markers=markers)


def cut_gone(fault: VersionGone) -> CutGone:
    """The error for a cut that needs something that was removed."""
    advice = "Take a later cut, or raise maintenance.retention_hours for the future"
    return CutGone(str(fault), advice=advice)


def half_read(existing: Existing, positions: Positions) -> dict[Name, str]:
    """The tables whose existing rows were not all published before a cut, and why they are not in it."""
    found = {}
    for name, places in existing.items():
        for destination, (epoch, seq) in sorted(places.items()):
            at = positions.get(destination)
            if at is None or (epoch, seq) > (at.epoch, at.seq):
                found[name] = (
                    f"rows that existed before were still read by {destination}, up to epoch {epoch}, "
                    f"seq {seq} so far"
                )
    return found


def upto_sql(positions: Positions, *, own: str = "") -> str:
    """The condition that a record is at or before the positions; `own` is a prefix of the columns' names."""
    return (
        " OR ".join(
            f"({own}destination = {literal(name)} AND ({own}epoch < {one.epoch} OR "
            f"({own}epoch = {one.epoch} AND {own}seq <= {one.seq})))"
            for name, one in sorted(positions.items())
        )
        or "false"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """The statements that are known, and the batch as of which a cut reads its tables."""

    history: History
    statements: Collection[str]
    """The values of DDL topics among the recent changes."""
    done: Mapping[str, Place]
    """The position up to which the DDL of each destination was carried out before the batch."""
    positions: Positions
    """The last change of each destination in the cut."""

    def carried_out(self) -> list[Event]:
        """The statements that were carried out before the batch: its tables have the names after them."""
        return [
            one
            for one in self.history.ordered()
            if one.place <= self.done.get(one.destination, _NEVER)
        ]

    def refused(self) -> dict[Name, str]:
        """The tables that are not in the cut, and why."""
        found: dict[Name, str] = {}
        for destination, place, names in self._known():
            last = self.positions.get(destination)
            is_before = last is not None and place <= (last.epoch, last.seq)
            was_done = place <= self.done.get(destination, _NEVER)
            is_done = was_done or place <= self.history.done.get(destination, _NEVER)
            if (is_before and was_done) or not (is_before or is_done):
                continue
            when = f"by the statement at epoch {place[0]}, seq {place[1]}"
            if is_before:
                why = f"it was dropped or renamed {when}, which was not carried out yet"
            else:
                why = f"it was dropped or renamed after the cut, {when}"
            found |= dict.fromkeys(names, why)
        return found

    def names(self) -> set[Name]:
        """All names that statements have dropped or renamed."""
        return {name for *_, names in self._known() for name in names}

    def _known(self) -> Iterator[tuple[str, Place, Iterable[Name]]]:
        for event in self.history.ordered():
            yield event.destination, event.place, event.names
        for text in self.statements:
            one = parse_statement(text, "recent changes")
            # A statement that is decided on is an event already, or concerns no table that the sink follows.
            if one.place > self.history.done.get(one.destination, _NEVER):
                yield one.destination, one.place, one.names


_NEVER = (-1, -1)


def cut_lines(cut: ConsistentCut, names: Sequence[Name] = ()) -> Iterator[str]:
    """The lines: one for each destination, then one for each table, or for those named. Raise UnknownTable."""
    known = cut.known()
    for name in names:
        if name not in known:
            raise UnknownTable(".".join(name))
    for destination, one in sorted(cut.positions.items()):
        if one.seq == 0:
            yield f"destination {destination}: no transaction"
            continue
        transaction = one.transaction or "not known by name"
        at = f"epoch {one.epoch}, seq {one.seq}"
        if one.ts_ms:
            at += f", committed {utc(one.ts_ms)}"
        yield f"destination {destination}: transaction {transaction}, {at}"
    added, later = cut.recent_changes(), cut.later_changes()
    for table in tuple(names) or known:
        if reason := cut.missing(table):
            yield f"{'.'.join(table)}: not in the cut: {reason}"
            continue
        version = cut.versions.get(table)
        merged = f"version {version}" if version is not None else "not merged yet"
        changes = (
            f"{added[table]} recent changes added, {later[table]} visible changes after the cut"
        )
        yield f"{'.'.join(table)}: {merged}, {changes}"
