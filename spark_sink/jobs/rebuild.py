"""The rebuild of a table beside the existing one: its rows, then changes of any versions, era by era.

An era is a run of versions whose rows fit into one shape. Between two eras the rows are converted as the
source's ALTER TABLE converted them.

Invariant: a rebuild never touches the table itself, so it can be discarded at any moment.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from operator import itemgetter

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.batch.apply import Applier
from spark_sink.batch.contents import (
    Contents,
    Replacements,
    TablePart,
    advised,
    contents,
    error_of,
    foreign_rows,
    unreadable,
    unusable,
    versions_of,
)
from spark_sink.batch.dead_letters import MOST, at_of, outside
from spark_sink.batch.last_truncates import floors_of
from spark_sink.batch.shapes import brought, fitted, refuse_lost, traced_to
from spark_sink.batch.table_merge import merged
from spark_sink.errors import (
    ClaimLost,
    ColumnClash,
    ForeignRecords,
    KeyChanged,
    LoadStale,
    MalformedRecord,
    ReservedName,
    TableError,
    TypeConflict,
    UnknownSchema,
    UnsupportedName,
    UnsupportedType,
    UnsupportedWire,
    ValuesChanged,
)
from spark_sink.jobs.load.origin import BEGIN
from spark_sink.jobs.load.state import LoadState, before_sql, check_records, check_rows
from spark_sink.source.positions import At, Offsets, any_of, spanned
from spark_sink.source.schemas import TableVersion
from spark_sink.spark.error_mapping import place
from spark_sink.text.quoting import argument, literal, quoted
from spark_sink.warehouse.altered_rows import keys_sql, needs_time_zone, row_sql, target
from spark_sink.warehouse.columns import Traced, converted, nulled
from spark_sink.warehouse.identity import SOURCES, source_parts
from spark_sink.warehouse.ledger import Floor, Floors, Source
from spark_sink.warehouse.moves import BEGINNING, END, Place, below_sql
from spark_sink.warehouse.protocol import Name, Tables
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.waiting_tables import Request
from wire.table_version import VersionKey

_log = logging.getLogger(__name__)
Names = Sequence[tuple[Name, Place]]
"""The names that a table has had, each since a position."""
OF_VERSIONS = (
    ReservedName,
    ColumnClash,
    UnsupportedType,
    UnsupportedName,
    ForeignRecords,
    UnknownSchema,
    UnsupportedWire,
)
"""Errors of table versions whose records may be omitted, see `Rebuild.omit`."""


@dataclass(slots=True, kw_only=True)
class Rebuild:
    """One table being rebuilt in `stage`."""

    name: Name
    request: Request
    applier: Applier
    stage: Tables[DataFrame]
    seen: set[VersionKey] = field(default_factory=set)
    reached: dict[VersionKey, Place] = field(default_factory=dict)
    """The last position of each version whose records or statement the stage has followed."""
    load: LoadState | None = None
    """The load from whose rows it starts, instead of the table's."""
    loaded: DataFrame | None = None
    """The rows of the load."""
    aside: dict[At, TableError] = field(default_factory=dict)
    """Skipped records, by position: a later record replaces each, the request allows the skip, or it is a
    dead letter."""
    omitted: list[str] = field(default_factory=list)
    """The conditions of records that `omit` has found."""
    passed_by: bool = False
    """Whether records that name no table were skipped."""
    floors: list[Floor] = field(default_factory=list)
    """The truncates that remove the rows of omitted records."""
    replaced: Replacements = field(default_factory=Replacements)
    """The replacements of all rows of a source table among the records."""
    places: set[tuple[str, int]] = field(default_factory=set)
    """The partitions that have records of the table."""
    unread: set[tuple[str, int]] = field(default_factory=set)
    """The partitions whose topic is excluded, and of which the request skips the changes."""
    start: Offsets = field(default_factory=dict)
    """The offset of each partition from which on its records are read."""
    end: Offsets | None = None
    """The offset of each partition up to which its records are in the table, once it is built."""
    is_fresh: bool = False
    """Whether no row of the present table is kept."""

    def begin(self, held: Shape | None, rows: DataFrame | None) -> None:
        """Start from a table's rows, or from nothing."""
        self.reached.clear()
        self.stage.drop(*self.name)
        if held is not None and rows is not None:
            self.stage.replace(held, rows)
            for floor in self.floors:
                self.stage.truncate(held, floor)

    def begin_loaded(self) -> None:
        """Start from the rows of the load. Raise LoadStale if they do not fit the versions any more."""
        assert self.load is not None
        state, book = self.load, self.applier.book
        found = book.versions(one.version_key for one in state.sources)
        versions = [found[one.version_key] for one in state.sources]
        wanted = traced_to(None, None, versions, book, name=self.name, apart=state.apart).wanted
        if wanted.all_columns != state.columns:
            raise LoadStale(f"{'.'.join(self.name)} has other columns now", advice=BEGIN)
        self.seen |= found.keys()
        self.begin(wanted, self.loaded)

    def check_whole(self, tables: Tables[DataFrame], unseen: DataFrame) -> None:
        """Raise LoadRefused if the load lacks a source of the table.

        `unseen` are the table's records from before the load's offsets that are not in the table.
        """
        if self.load is not None:
            check_rows(self.load, tables)
            check_records(self.load, unseen)

    def part(self, rows: DataFrame) -> TablePart | None:
        """What the table's records have; None without any."""
        return contents(self._own(rows)).tables.get(self.name)

    def sort_out(
        self, rows: DataFrame, keys: Callable[[], DataFrame], part: TablePart | None
    ) -> None:
        """Skip the unusable records that `part` has found; raise if one matters and may not be skipped.

        `keys` returns Kafka's records, which have the keys that the rows lack.
        """
        if part is None or part.fault is None:
            return
        batch = self._later(rows).where(unusable())
        found = batch.selectExpr("topic", "partition", "offset", "reason").limit(MOST + 1)
        places = [at for row in found.collect() if (at := at_of(row)) not in self.aside]
        self.put_aside(rows, keys, places, part.fault)

    def pass_by(self, found: Mapping[At, str]) -> None:
        """Skip records that name no table, and may be changes of this one; raise if the request forbids it."""
        letters = self.applier.warehouse.letters.within(*spanned(found)) if found else set()
        left = sorted(found.keys() - letters)
        if not left:
            return
        first, reason = left[0], found[left[0]]
        if not self.request.skip_unusable:
            fault = error_of(reason)(f"{place(*first, reason)} (of {len(left)} that name no table)")
            raise advised(self.name, fault, topic=first[0])
        self.passed_by = True
        _log.warning(
            "records skipped that name no table table=%s.%s number=%d first=%s",
            *self.name,
            len(left),
            place(*first, reason),
        )

    def put_aside(
        self,
        rows: DataFrame,
        keys: Callable[[], DataFrame],
        places: Sequence[At],
        fault: TableError,
    ) -> None:
        """Skip records; raise `fault` if they matter and the request does not allow it."""
        if len(self.aside) + len(places) > MOST:
            raise fault
        matter = [] if self.request.skip_unusable else self._unreplaced(rows, keys(), places)
        if matter:
            letters = self.applier.warehouse.letters.within(*spanned(matter))
            matter = [at for at in matter if at not in letters]
        if matter:
            advice = fault.advice or _WRITE_AGAIN
            if "--skip-unusable" not in advice:
                advice = f"{advice}; or add --skip-unusable to skip them"
            raise type(fault)(
                f"{fault.where} ({len(matter)} record(s) not replaced by a later one)",
                advice=advice,
            )
        self.aside |= dict.fromkeys(places, fault)
        _log.warning(
            "records skipped table=%s.%s number=%d first=%s",
            *self.name,
            len(places),
            place(*min(places)),
        )

    def omit(self, rows: DataFrame, fault: TableError) -> bool:
        """Omit records of versions that are lost or that no table can have; return whether any were found.

        A record from before a truncate of its own source does not matter, as the truncate removes its row.
        Other records are omitted only if the request skips what is unusable.
        """
        part = self.part(rows)
        if part is None or part.fault is not None:
            return False
        if foreign := foreign_rows(part, self.applier.book):
            # Another installation's positions have nothing to do with this one's truncates.
            if not self.request.skip_unusable:
                return False
            found = _any(f"topic = {literal(to)} AND {_of_version(key)}" for key, to in foreign)
        else:
            book = self.applier.book
            # All of them if Iceberg cannot have the table.
            versions = book.lacking(part.versions) or unreadable(part, book) or part.versions
            self.seen |= versions
            self.floors += part.truncates
            found = _any(map(_of_version, sorted(versions)))
            highest = self.applier.truncates.raised(part.truncates).get(self.name, {})
            if not self.request.skip_unusable:
                below = _any(_below(self.name, source, at) for source, at in highest.items())
                found = f"{found} AND {below}"
        left = self._own(rows).where(f"coalesce({found}, false)")
        ((number, first),) = left.selectExpr(
            "count(*) AS number", "min(struct(topic, partition, offset)) AS first"
        ).collect()
        if not number:
            return False
        _log.warning(
            "records omitted whose columns are lost or unfit%s%s table=%s.%s number=%d first=%s: %s: %s",
            "" if self.request.skip_unusable else ", as a truncate follows them",
            "; its history lacks them" if self.applier.rules.has_history(self.name) else "",
            *self.name,
            number,
            place(*first),
            type(fault).__name__,
            fault.where,
        )
        self.omitted.append(found)
        self.places |= part.places
        return True

    def apply(self, rows: DataFrame, until: Offsets, part: TablePart | None = None) -> None:
        """Apply the table's records to the stage, and take the partitions that had any.

        `until` are the offsets at which the records end; what must be read past them begins there. `part` is
        what the records contain, if that is known.
        """
        is_known = part is not None and not self.aside and not self.omitted
        prepared = self._prepared(self._own(rows), until, part if is_known else None)
        if prepared is None:
            return
        batch, part, versions = prepared
        self.replaced.add(part.replaced)
        removed = floors_of(part, versions)
        floors = self.applier.truncates.raised(removed).get(self.name, {})
        if (held := self.stage.shape(*self.name)) is not None:
            for floor in removed:
                self.stage.truncate(held, floor)
        self._fold(batch, part, versions, floors, shape=held)
        self.applier.histories.add(batch, part, versions)
        self.seen |= part.versions
        self.places |= part.places
        for key, (_, last) in part.spans.items():
            self._reach(key, last)

    def _reach(self, key: VersionKey, place: Place) -> None:
        self.reached[key] = max(place, self.reached.get(key, place))

    def alter(self) -> None:
        """Bring the stage to the versions that statements have announced after its newest change.

        Rows may never follow such a statement. Earlier statements had their effect with the rows after them,
        and their versions may no longer fit.
        """
        ddl, book = self.applier.ddl, self.applier.book
        shape = self.stage.shape(*self.name)
        if ddl is None or shape is None:
            return
        announced = [
            (key, at)
            for name, key, at in ddl.versions(ddl.history.since({}), book)
            if name == self.name
        ]
        later = [one for one in announced if not _has_followed(shape, *one)]
        later = _after(self._reached(shape), shape, later)
        if later:
            later = _after(self._newest(shape), shape, later)
        part = TablePart(self.name, is_apart=shape.apart)
        for key, at in later:
            part.add(key, at)
        for key, at in announced:
            self._reach(key, at)
        if part.versions:
            empty = self.stage.rows(shape).limit(0)
            self._fold(empty, part, versions_of(part, book), {}, shape=shape)
            self.seen |= part.versions

    def keep_history(self, rows: DataFrame, until: Offsets) -> None:
        """Add the changes that the load has read to the table's history, if it has one."""
        if self.load is None or not self.applier.rules.has_history(self.name):
            return
        own = rows.where(f"{before_sql(self.load)} AND NOT {unusable()}")
        if prepared := self._prepared(own, until, usable=True):
            self.applier.histories.add(*prepared)

    def _prepared(
        self,
        batch: DataFrame,
        until: Offsets,
        known: TablePart | None = None,
        *,
        usable: bool = False,
    ) -> tuple[DataFrame, TablePart, list[TableVersion]] | None:
        """The table's records, complete with large values and pairs, and their versions; None without any.

        With `usable`, records whose large values are lost or damaged are omitted; otherwise, the error has all.
        """
        found = contents(batch) if known is None else Contents(tables={self.name: known})
        part = found.tables.get(self.name)
        if part is None:
            return None
        if part.fault is not None:
            raise part.fault
        if part.claims:
            batch, found = self.applier.fetched(batch, found)
            if usable:
                batch = batch.where(f"NOT {unusable()}")
                found = contents(batch)
            part = found.tables.get(self.name)
            if part is None:
                return None
            if part.fault is not None:
                raise _with_all(part.fault, batch)
        places = part.places
        batch, part = self.applier.paired(batch, part, until)
        part.places = places
        self.applier.book.fetch(part.versions)
        return batch, part, versions_of(part, self.applier.book)

    def _fold(
        self,
        batch: DataFrame,
        part: TablePart,
        versions: list[TableVersion],
        floors: Floors,
        *,
        shape: Shape | None,
    ) -> None:
        """Apply the records era by era: rows of all versions that fit, then a conversion to the next ones.

        `shape` is that of the table in the stage.
        """
        queues = _queues(versions, self._names(shape, part))
        several = Counter(one.key for queue in queues for one in queue)
        while any(queues):
            taken = _fitting(queues, partial(self._fit, shape, part))
            if not taken:
                assert shape is not None
                leads = [queue[0] for queue in queues if queue]
                shape = self._converted(shape, leads, self._traced(shape, leads, part), part)
                continue
            found = self._traced(shape, taken, part)
            wanted = found.wanted
            # Then it is made with its first rows, in one commit.
            is_new = shape is None and part.has_rows and not part.is_partial
            if not is_new:
                brought(self.stage, found, wanted, notes=self.applier.warehouse.notes)
            shape = wanted
            if part.has_rows:
                rows = _within(batch, [one for one in taken if several[one.key] > 1])
                given = rows, part, shape, found.versions, dict(floors)
                merged(self.stage, *given, is_new=is_new)

    def _fit(self, held: Shape | None, part: TablePart, versions: list[TableVersion]) -> None:
        found = self._traced(held, versions, part)
        key = found.wanted.key
        names = self._names(held, part)
        oldest = min(_rank(one, names(one.key.destination)) for one in versions)
        for one in found.conversions:
            if one.column in key and (one.is_stored or one.done < oldest < one.below):
                # Keys are converted between two eras, so that no row is found by an earlier one.
                raise ValuesChanged(one.text())

    def _names(self, held: Shape | None, part: TablePart) -> Callable[[str], Names]:
        """The names that the table has had in a destination; none of one that several source tables fill."""
        if part.is_apart or (held is not None and held.apart):
            return lambda _: ()
        # The names follow from all statements ever seen, and there may be many versions.
        return cache(lambda destination: self.applier.shapes.names(destination, part.name))

    def _traced(self, held: Shape | None, versions: list[TableVersion], part: TablePart) -> Traced:
        rows = self.stage.rows(held) if held is not None else None
        book = self.applier.book
        apart, names = part.is_apart, self.applier.shapes.names
        found = traced_to(rows, held, versions, book, name=self.name, apart=apart, names=names)
        if self.request.unknown_as_null:
            return nulled(found, time_zone=self.request.time_zone)
        return found

    def _converted(
        self, held: Shape, leads: list[TableVersion], found: Traced, part: TablePart
    ) -> Shape | None:
        self._forward(held, leads)
        # Rows give way to rows of a later version, and never to a statement alone.
        if self.request.only_new and (part.has_rows or self.stage.rows(held).isEmpty()):
            self.stage.drop(*self.name)
            return None
        moved = fitted(self.stage.rows(held), found, found.extended)
        held = found.extended
        wanted = found.described(target(held, found.versions))
        zoned = needs_time_zone(held, wanted)
        if zoned and not self.request.time_zone:
            raise TypeConflict(
                f"the values of {held.database}.{held.table}.{zoned[0]} depend on a time zone that "
                "is not in the topics",
                advice="Add --time-zone with the time zone of the session that altered the table, e.g. +02:00",
            )
        altered = converted(found, held, wanted, time_zone=self.request.time_zone)
        if altered:
            refuse_lost(moved, altered, found)
        is_rekeyed = wanted.keyed and (
            sorted(wanted.key) != sorted(held.key) or bool(altered.keys() & {*wanted.key})
        )
        values = {name: f"{sql}.value" for name, sql in altered.items()}
        rows = self._rows(moved, held, wanted, values, is_rekeyed=is_rekeyed)
        if is_rekeyed:
            self._check_keys(rows, wanted)
        self.stage.replace(wanted, rows)
        _log.info("table converted table=%s.%s key=%s", *self.name, list(wanted.key))
        return wanted

    def _rows(
        self,
        rows: DataFrame,
        held: Shape,
        wanted: Shape,
        altered: Mapping[str, str],
        *,
        is_rekeyed: bool,
    ) -> DataFrame:
        """The rows of `held`, converted to the columns of `wanted`."""
        columns = row_sql(held, wanted, altered, time_zone=self.request.time_zone)
        if not wanted.keyed:
            columns.append("1 AS __delta" if held.keyed else "__delta")
        if not held.keyed and wanted.keyed:
            rows = _summed(rows, held)
        elif held.keyed and (is_rekeyed or sorted(held.key) != sorted(wanted.key)):
            # A marker of a deleted row has only the old key.
            rows = rows.where("NOT __deleted")
        return rows.selectExpr(*columns)

    @property
    def _reload(self) -> str:
        return f"python -m spark_sink reload {argument(self.request.name)}"

    def _check_keys(self, rows: DataFrame, wanted: Shape) -> None:
        where, key = f"{wanted.database}.{wanted.table}", ", ".join(wanted.key)
        only_new = f"{self._reload} --only-new, which keeps only rows written since the change"
        missing, both = keys_sql(wanted)
        without = rows.where(missing).count()
        if without:
            raise KeyChanged(
                f"{without} rows of {where} were written before it had a value in its new key ({key}), so "
                "the topics do not identify them",
                advice=f"Write these rows again at the source. Then run: {only_new}",
            )
        twice = rows.groupBy(f.expr(both).alias("k")).count().where("count > 1").count()
        if twice:
            raise KeyChanged(
                f"{twice} values of the new key ({key}) of {where} occur in several rows",
                advice=f"Run: {self._reload} --from-beginning; or run: {only_new}",
            )

    def _forward(self, held: Shape, leads: list[TableVersion]) -> None:
        """Raise KeyChanged rather than convert a table back to an earlier version."""
        newest = self._newest(held)
        for lead in leads:
            at = newest.get(_source_key(held, lead.key), BEGINNING)
            if lead.places is not None and lead.places[1] < at:
                raise KeyChanged(
                    f"the table has rows from after all changes of {lead.key}",
                    advice=f"Run: {self._reload} --from-beginning",
                )

    def _newest(self, held: Shape) -> dict[tuple[str, ...], Place]:
        """The position of the newest row: per source table if `held.apart`, otherwise per destination."""
        sources = source_parts(held, "") or ["__destination"]
        keyed = self.stage.rows(held).selectExpr(f"array({', '.join(sources)}) AS s", _POSITION)
        rows = keyed.groupBy("s").agg(f.max("p").alias("p"))
        return {tuple(row.s): (row.p.epoch, row.p.seq) for row in rows.collect()}

    def _reached(self, held: Shape) -> dict[tuple[str, ...], Place]:
        """The position of the last record or statement that the stage has followed, see `_newest`."""
        found: dict[tuple[str, ...], Place] = {}
        for key, at in self.reached.items():
            source = _source_key(held, key)
            found[source] = max(at, found.get(source, at))
        return found

    def _later(self, rows: DataFrame) -> DataFrame:
        """The table's records, without those that the load has seen."""
        if self.load is None:
            return rows
        # NULL for a record that names no table.
        return rows.where(f"NOT coalesce({before_sql(self.load)}, false)")

    def _own(self, rows: DataFrame) -> DataFrame:
        """The table's records, without those of the load and the skipped ones."""
        rows = outside(self._later(rows), self.aside)
        return rows.where(f"NOT coalesce({_any(self.omitted)}, false)") if self.omitted else rows

    def _unreplaced(self, rows: DataFrame, records: DataFrame, places: Sequence[At]) -> list[At]:
        """The records that no later usable record of the same key and partition, with all columns, replaces."""
        kept = {*places, *self.aside}
        keys = records.where("key IS NOT NULL").selectExpr(
            "topic", "partition", "offset", "CAST(key AS STRING) AS k"
        )
        bad = {at_of(row): row.k for row in keys.where(any_of(places)).collect()}
        batch = self._later(rows).where(f"NOT {unusable()}")
        batch = batch.where("NOT coalesce(partial, false) OR op = 'd'")
        usable = batch.select("topic", "partition", "offset").join(
            keys, ["topic", "partition", "offset"]
        )
        wanted = ", ".join(literal(key) for key in sorted(set(bad.values()))) or "NULL"
        later = usable.where(f"k IN ({wanted}) AND NOT {any_of(kept)}")
        last = {
            (row.topic, row.partition, row.k): row.last
            for row in later.groupBy("topic", "partition", "k")
            .agg(f.max("offset").alias("last"))
            .collect()
        }
        return [at for at in places if last.get((at[0], at[1], bad.get(at)), -1) < at[2]]


def _with_all(fault: TableError, batch: DataFrame) -> TableError:
    """The error of a table's records, with all that cannot be used."""
    if isinstance(fault, MalformedRecord | ClaimLost):
        rows = batch.where(unusable()).selectExpr("topic", "partition", "offset", "reason")
        fault.reasons = {at_of(row): row.reason for row in rows.limit(MOST + 1).collect()}
    return fault


_WRITE_AGAIN = "Write these rows again at the source, then reload the table"


def _any(conditions: Iterable[str]) -> str:
    return f"({' OR '.join(f'({one})' for one in conditions) or 'false'})"


def _of_version(key: VersionKey) -> str:
    """The condition that a record is of a version."""
    return (
        f"destination = {literal(key.destination)} AND source_database = {literal(key.database)} "
        f"AND source_table = {literal(key.table)} AND version = {key.version}"
    )


def _below(name: Name, source: Source, floor: tuple[int, int]) -> str:
    """The condition that a record of a table is from before a truncate of its source, or is that truncate."""
    of = (
        f"(source_database = {literal(source.database)} AND source_table = {literal(source.table)})"
    )
    # One without a mapping belongs to the table by its present name.
    of = f"if(routed, {of}, {str((source.database, source.table) == name).lower()})"
    before = below_sql(floor, epoch="epoch", seq="seq")
    itself = f"(op = 't' AND epoch = {floor[0]} AND seq = {floor[1]})"
    return f"destination = {literal(source.destination)} AND {of} AND ({before} OR {itself})"


def _source_key(held: Shape, key: VersionKey) -> tuple[str, ...]:
    return (key.destination, key.database, key.table) if held.apart else (key.destination,)


def _after(
    newest: Mapping[tuple[str, ...], Place],
    held: Shape,
    announced: Iterable[tuple[VersionKey, Place]],
) -> list[tuple[VersionKey, Place]]:
    """The versions that were announced after the newest position of their source."""
    return [
        (key, at) for key, at in announced if at > newest.get(_source_key(held, key), BEGINNING)
    ]


def _has_followed(held: Shape, key: VersionKey, at: Place) -> bool:
    """Whether the rows have the columns of a version that a statement announced, see `Shape.followed`."""
    own = key.destination, key.database, key.table
    if key.version <= held.followed_by.get(own, 0):
        return True
    # The name that the table had then, among those it has had.
    stays = [one for one in held.followed if len(one) == 7 and one[0] == own[0] and one[5:] <= at]
    last = max(stays, key=itemgetter(5, 6), default=None)
    return last is not None and last[:3] == own and key.version <= last[3]


def _queues(
    versions: Iterable[TableVersion], names: Callable[[str], Names]
) -> list[list[TableVersion]]:
    """The versions of each source table, oldest first; those of a table that was renamed in one queue.

    A table may have had a name more than once. A version of that name is then in the queue once for each of
    these times, with the positions of its rows there.
    """
    queues: dict[tuple[str, ...], list[tuple[int, TableVersion]]] = {}
    for version in sorted(versions, key=lambda one: one.key):
        key = version.key
        stays = list(_stays(version, names(key.destination)))
        source = (key.destination,) if stays else (key.destination, key.database, key.table)
        queues.setdefault(source, []).extend(stays or [(0, version)])
    return [[one for _, one in sorted(queue, key=itemgetter(0))] for queue in queues.values()]


def _stays(version: TableVersion, names: Names) -> Iterable[tuple[int, TableVersion]]:
    """The version once for each time that the table had its name, with the index of that time in `names`."""
    if version.places is None:
        return
    own, (first, last) = (version.key.database, version.key.table), version.places
    ends = [*(since for _, since in names[1:]), END]
    for at, ((name, since), end) in enumerate(zip(names, ends, strict=False)):
        if name == own and since <= last and first < end:
            yield at, replace(version, places=(max(first, since), min(last, end)))


def _rank(version: TableVersion, names: Names) -> int:
    """The number that orders the version among the steps of the table's columns, see `Step`."""
    if not names or version.places is None:
        return version.key.version
    name, since = names[-1]
    is_present = name == (version.key.database, version.key.table) and version.places[0] >= since
    return version.key.version if is_present else 0


def _within(batch: DataFrame, versions: Iterable[TableVersion]) -> DataFrame:
    """The batch; of these versions, only the records within the positions of each."""
    ranges: dict[VersionKey, list[str]] = {}
    for version in versions:
        assert version.places is not None
        first, (epoch, seq) = version.places
        since = f"NOT {below_sql(first, epoch='epoch', seq='seq')}"
        until = below_sql((epoch, seq + 1), epoch="epoch", seq="seq")
        ranges.setdefault(version.key, []).append(f"{since} AND {until}")
    for key, own in ranges.items():
        batch = batch.where(f"NOT coalesce({_of_version(key)}, false) OR {_any(own)}")
    return batch


def _fitting(
    queues: list[list[TableVersion]], fit: Callable[[list[TableVersion]], object]
) -> list[TableVersion]:
    """Remove from the queues, and return in order, all versions that `fit` together without a TableError."""
    taken: list[TableVersion] = []
    for queue in queues:
        while queue:
            try:
                fit([*taken, queue[0]])
            except TableError:
                break
            taken.append(queue.pop(0))
    return taken


def _summed(images: DataFrame, shape: Shape) -> DataFrame:
    """The current rows of a log, each with the position of its last change."""
    columns = [quoted(name) for name, _ in shape.columns]
    entries = f.expr("array_sort(map_entries(__unrepresentable))").alias("__entries")
    # A removal by one source does not cancel an equal image of another.
    parts = dict(zip(SOURCES, source_parts(shape, ""), strict=False))
    sources = [f.expr(part).alias(f"{name}_of") for name, part in parts.items()]
    last = f.expr("max(struct(__ts_ms, __destination, __epoch, __seq, __schema))").alias("__last")
    sums = (
        images.select(*columns, entries, *sources, "__delta", *_LAST)
        .groupBy(*columns, "__entries", *(f"{name}_of" for name in parts))
        .agg(f.sum("__delta").alias("__n"), last)
        .where("__n > 0")
    )
    return sums.selectExpr(
        *columns,
        *(f"__last.{name} AS {name}" for name in _LAST),
        *(f"{name}_of AS {name}" for name in list(parts)[1:]),
        "false AS __deleted",
        "map_from_entries(__entries) AS __unrepresentable",
        "explode(sequence(1, CAST(__n AS INT))) AS __nth",
    ).drop("__nth")


_LAST = ("__ts_ms", "__destination", "__epoch", "__seq", "__schema")
_POSITION = "struct(__epoch AS epoch, __seq AS seq) AS p"
