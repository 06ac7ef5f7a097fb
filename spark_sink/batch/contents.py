"""The contents of one micro-batch, determined before any table is touched.

Invariant: a record that breaks the contract is found here and named by topic, partition and offset. It
is a fault of its table, or of all tables of its topic if it does not name its table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from spark_sink.errors import (
    ClaimLost,
    ColumnClash,
    ForeignFormat,
    ForeignRecords,
    MalformedRecord,
    ReservedName,
    RowNotInRecord,
    RowsPublishedAgain,
    TableError,
    UnsupportedType,
    UnsupportedWire,
)
from spark_sink.source.claims import LOST, Claim
from spark_sink.source.envelope import (
    ENVELOPE,
    EXISTED,
    FIELDS,
    IS_READ,
    JSON_OPTIONS,
    OTHER_FORMAT,
    OTHER_WIRE,
    TEXT,
    of_table,
)
from spark_sink.source.positions import Offsets, Place, Progress, total
from spark_sink.source.schemas import SchemaBook, TableVersion
from spark_sink.spark.error_mapping import place
from spark_sink.text.quoting import argument, snapshot_starts
from spark_sink.warehouse.ledger import Floor, Source
from spark_sink.warehouse.milestones import Position, later, timed
from spark_sink.warehouse.protocol import Name
from wire.records import Op
from wire.table_version import VersionKey

_GROUP: Final = (
    "topic",
    "partition",
    "destination",
    "source_database",
    "source_table",
    "database",
    "table",
    "version",
)
_POSITION: Final = f"epoch, seq, ts_ms, transaction, {EXISTED} AS existed"
_NUMBERED: Final = "reason IS NULL AND op <> 'e'"
"""The end of a replacement has no number of its own."""
_OPS: Final = tuple(op.value for op in Op)
_COUNTED: Final = {
    **{f"op_{op}": f"op = '{op}'" for op in _OPS},
    "bad": "reason IS NOT NULL",
    "partial": "partial",
    "routed": "routed",
    "omitted": "left_out IS NOT NULL",
    "ends": "op = 'e'",
}
"""The counts of each group, with the condition of each count."""
_SPECIAL: Final = ("bad", "omitted", "op_t", "ends")
"""The counts whose records, if there are any, must be read a second time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingRows:
    """A batch's last rows of one version of a source table that existed already (`r`)."""

    version: VersionKey
    start: Floor
    """A truncate at the position of the first row of their SELECT."""
    last: Place


@dataclass(slots=True)
class Replacements:
    """The last replacement of all rows of each of a table's source tables, and the end of each replacement.

    A TRUNCATE at the source also ends a replacement: the stream has all rows that the source table got since.
    """

    begun: dict[Source, Place] = field(default_factory=dict)
    ended: dict[Source, Place] = field(default_factory=dict)

    def add(self, later: Replacements) -> None:
        """Add the replacements of other records, in any order."""
        for own, more in ((self.begun, later.begun), (self.ended, later.ended)):
            own.update({of: max(at, own.get(of, at)) for of, at in more.items()})

    @property
    def open(self) -> dict[Source, Place]:
        """The replacements whose rows have not all come."""
        return {of: at for of, at in self.begun.items() if self.ended.get(of, (-1, -1)) < at}


@dataclass(slots=True)
class TablePart:
    """What a batch has for one table; `size` is the bytes of its records."""

    name: tuple[str, str]
    versions: set[VersionKey] = field(default_factory=set)
    ops: Counter[str] = field(default_factory=Counter)
    truncates: list[Floor] = field(default_factory=list)
    existing: list[ExistingRows] = field(default_factory=list)
    replaced: Replacements = field(default_factory=Replacements)
    """The replacements of all rows of a source table that begin or end."""
    size: int = 0
    homes: set[tuple[VersionKey, str]] = field(default_factory=set)
    """Each version with the topics that have rows of it."""
    spans: dict[VersionKey, tuple[Place, Place]] = field(default_factory=dict)
    """The positions of each version's first and last record."""
    places: set[tuple[str, int]] = field(default_factory=set)
    """The partitions (topic, number) that have records of the table."""
    claims: list[Claim] = field(default_factory=list)
    """The locations of values whose records are too large for the topic."""
    is_partial: bool = False
    """Whether images lack columns."""
    is_apart: bool = False
    """Whether some of the records are of mapped tables, each of which has its own rows."""
    progress: dict[str, Progress] = field(default_factory=dict)
    """The commit times and numbers of each destination's changes."""
    fault: TableError | None = None
    """Why no record of the table is applied."""

    def add(self, key: VersionKey, place: Place) -> None:
        """Add a version that a statement has announced."""
        self.versions.add(key)
        first, last = self.spans.get(key, (place, place))
        self.spans[key] = min(first, place), max(last, place)

    @property
    def has_rows(self) -> bool:
        """Whether there are records other than truncates."""
        return self.ops.total() > self.ops["t"]

    def began(self, start: Offsets) -> dict[tuple[str, int], int]:
        """Return the offsets in the table's partitions at which a batch began that began at `start`."""
        return {at: start.get(at, 0) for at in self.places}


@dataclass(slots=True)
class Contents:
    """What a batch holds."""

    tables: dict[tuple[str, str], TablePart] = field(default_factory=dict)
    records: Counter[tuple[str, int]] = field(default_factory=Counter)
    oldest_ms: int | None = None
    newest_ms: int | None = None
    newest: dict[str, int] = field(default_factory=dict)
    """The newest commit time (ms) of each destination."""
    progress: dict[str, Progress] = field(default_factory=dict)
    """The commit times and numbers of each destination's changes, tables that wait included."""
    nameless: dict[tuple[str, int], TableError] = field(default_factory=dict)
    """The error of the first record of each partition (topic, number) that does not name its table."""
    reached: dict[str, Position] = field(default_factory=dict)
    """The newest change of each destination."""
    existing: dict[Name, dict[str, Place]] = field(default_factory=dict)
    """The position of each table's last row that existed already, by destination."""

    @property
    def faults(self) -> dict[Name, TableError]:
        """The tables of which no record is applied, with the reasons."""
        return {part.name: part.fault for part in self.tables.values() if part.fault}

    @property
    def claims(self) -> list[Claim]:
        """The locations of all values that must be fetched from the claim store."""
        return [claim for part in self.tables.values() for claim in part.claims]


def envelopes(records: DataFrame, *more: str) -> DataFrame:
    """Return Kafka's records as the columns of `envelope.FIELDS`, without tombstones.

    `more` are further expressions, which may use the record's `text`.
    """
    text = records.where(IS_READ).selectExpr(
        "topic", "partition", "offset", "headers", f"{TEXT} AS text", "value IS NULL AS is_end"
    )
    parsed = text.withColumn("e", f.from_json("text", ENVELOPE, JSON_OPTIONS))
    return parsed.selectExpr(*more, *(f"{sql} AS `{name}`" for name, sql in FIELDS.items()))


def contents(batch: DataFrame) -> Contents:
    """Read the whole batch once, and again only for the details of rare records."""
    groups = (
        batch.groupBy(*_GROUP)
        .agg(
            *(f.expr(f"count_if({sql})").alias(name) for name, sql in _COUNTED.items()),
            f.expr("count(*)").alias("records"),
            f.expr("sum(size)").alias("size"),
            f.expr("min(ts_ms)").alias("oldest"),
            f.expr("max(ts_ms)").alias("newest"),
            f.expr("collect_list(claim) FILTER (WHERE claim IS NOT NULL)").alias("claims"),
            f.expr(f"min(struct(epoch, seq)) FILTER (WHERE {_NUMBERED})").alias("first"),
            f.expr(f"max(struct({_POSITION})) FILTER (WHERE {_NUMBERED})").alias("last"),
            f.expr(f"max(ts_ms) FILTER (WHERE reason IS NULL AND NOT {EXISTED})").alias(
                "committed"
            ),
            f.expr(
                "max(struct(epoch, seq, ts_ms, coalesce(ordinal, 1) AS ordinal))"
                f" FILTER (WHERE {_NUMBERED} AND {EXISTED})"
            ).alias("existing"),
        )
        .collect()
    )
    special = [name for name in _SPECIAL if any(row[name] for row in groups)]
    details = _details(batch, special) if special else {}
    rows = [(row, details.get(_group(row), _NOTHING)) for row in groups]
    return _gathered(rows)


def without(batch: DataFrame, names: Iterable[Name]) -> DataFrame:
    """Return the batch without the records of some tables."""
    for name in names:
        # The condition is NULL for a record that names no table.
        batch = batch.where(f"NOT coalesce({of_table(name)}, false)")
    return batch


def versions_of(part: TablePart, book: SchemaBook) -> list[TableVersion]:
    """Return the versions of a table's records; raise ForeignRecords if a version names another topic.

    Two installations may have the same names of destinations and tables, and number versions alike.
    """
    try:
        found = book.versions(part.versions)
    except (ReservedName, ColumnClash, UnsupportedType) as fault:
        again = republished(part.name, unreadable(part, book))
        raise type(fault)(fault.where, advice=f"{fault.advice}; {again}") from fault
    for key, topic in foreign_rows(part, book):
        raise ForeignRecords(
            f"topic {topic} has rows of {key}, which is of topic {found[key].topic}",
            advice="Let only one installation write to the topic; then, to skip the rows of the other one, "
            f"run: python -m spark_sink reload {argument(part.name)} --skip-unusable",
        )
    return [replace(one, places=part.spans.get(key)) for key, one in found.items()]


def unreadable(part: TablePart, book: SchemaBook) -> set[VersionKey]:
    """Return the versions that no table can have, or that are in a form which this sink does not know."""
    found = set()
    for key in part.versions:
        try:
            book.versions([key])
        except (ReservedName, ColumnClash, UnsupportedType, UnsupportedWire):
            found.add(key)
    return found


def foreign_rows(part: TablePart, book: SchemaBook) -> list[tuple[VersionKey, str]]:
    """Return the versions with rows in a topic that the version does not name, each with that topic."""
    return [
        (key, topic)
        for key, topic in sorted(part.homes)
        if (own := book.home(key)) and own != topic
    ]


def republished(name: Name, versions: Iterable[VersionKey]) -> str:
    """Return the advice that ends a table's wait once the cause in its columns is removed."""
    sources = sorted({(one.destination, (one.database, one.table)) for one in versions})
    return (
        f"then run: {snapshot_starts(sources)}; once it is done: python -m spark_sink reload "
        f"{argument(name)}. Or add its topic to exclude, and once the sink runs with that, add --skip-unusable "
        "to the reload"
    )


def published_again(name: Name, sources: Iterable[Source]) -> RowsPublishedAgain:
    """Return why a table waits while all rows of some of its source tables are published again."""
    of = [(one.destination, (one.database, one.table)) for one in sorted(sources)]
    return RowsPublishedAgain(
        f"{'.'.join(name)}, from {', '.join(f'{at} {argument(table)}' for at, table in of)}",
        advice="It is reloaded by itself after the last row. If `python -m app snapshot status` shows that a "
        f"reading was stopped or has failed, run: {snapshot_starts(of)}; or, for the table with the rows that "
        f"have come: python -m spark_sink reload {argument(name)}",
    )


def _details(batch: DataFrame, special: Iterable[str]) -> dict[tuple[Any, ...], Row]:
    """The details of each group's special records."""
    at = "min(struct(topic, partition, offset, {0})) FILTER (WHERE {1})"
    truncate = f"reason IS NULL AND {_COUNTED['op_t']}"
    wanted = {
        "bad": at.format("reason", _COUNTED["bad"]),
        "left_out": at.format("left_out", _COUNTED["omitted"]),
        "truncate": f"max(struct(epoch, seq, ts_ms)) FILTER (WHERE {truncate})",
        "begun": f"max(struct(epoch, seq)) FILTER (WHERE {truncate} AND moved)",
        "ended": "max(struct(epoch, seq)) FILTER "
        f"(WHERE (reason IS NULL AND {_COUNTED['ends']}) OR ({truncate} AND NOT moved))",
    }
    records = batch.where(" OR ".join(f"coalesce({_COUNTED[name]}, false)" for name in special))
    found = records.groupBy(*_GROUP).agg(*(f.expr(sql).alias(n) for n, sql in wanted.items()))
    return {_group(row): row for row in found.collect()}


def _group(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _GROUP)


_NOTHING: Final = Row(bad=None, left_out=None, truncate=None, begun=None, ended=None)
"""The details of a group without special records."""


def unusable() -> str:
    """The condition that a record cannot be applied to any table."""
    return "(reason IS NOT NULL OR left_out IS NOT NULL)"


def error_of(reason: str) -> type[TableError]:
    """Return the class of the error of a record with a reason, see `envelope.FIELDS`."""
    classes = {LOST: ClaimLost, OTHER_FORMAT: ForeignFormat, OTHER_WIRE: UnsupportedWire}
    return next((one for text, one in classes.items() if reason.startswith(text)), MalformedRecord)


def advised(name: Name, fault: TableError, *, topic: str = "") -> TableError:
    """Return a table's error for a record that cannot be used, with what ends its wait.

    `topic` is the topic of a record that does not name its table.
    """
    reload = f"python -m spark_sink reload {argument(name)}"
    skip = f"run: {reload} --skip-unusable"
    exclude = "Add its topic to exclude" if not topic else f"Add {re.escape(topic)} to exclude"
    match fault:
        case ClaimLost():
            advice = (
                "Put the value back, or give the sink access to the claim store, or set claim_checks to its "
                f"path; then run: {reload}; or, to skip the change, {skip}"
            )
        case ForeignFormat():
            advice = (
                f"{exclude}; once the sink runs with that, {skip}, which keeps the table as it is. To have "
                "its changes in the warehouse, remove format from its rule in the mapping, name another topic "
                "there, and publish its existing rows: python -m app snapshot start, with --replace; once that "
                f"is done, {skip}"
            )
        case UnsupportedWire():
            advice = f"Use a sink of the worker's version, then run: {reload}; or, to skip such records, {skip}"
        case _ if topic:
            advice = (
                f"To skip the record, {skip}. If another program writes to the topic, stop that first; or, if "
                f"the topic is not wanted, {exclude[0].lower()}{exclude[1:]} first"
            )
        case _:
            return fault
    return type(fault)(fault.where, advice=advice)


def _fault(name: Name, detail: Row) -> TableError | None:
    """Why records of a group cannot be applied."""
    if detail.bad is not None:
        at = detail.bad
        fault = error_of(at.reason)(place(at.topic, at.partition, at.offset, at.reason))
        return advised(name, fault)
    if detail.left_out is not None:
        at = detail.left_out
        return RowNotInRecord(
            place(at.topic, at.partition, at.offset, f"bytes omitted: {at.left_out}"),
            advice="Set oversize to claim_check, write the row again at the source, then reload the table",
        )
    return None


def _source(row: Row) -> Source:
    """The source table of a group; the warehouse's table, unless a mapping applies.

    Rows of a table that was renamed since are under its present name, and so are their truncates.
    """
    if row.routed:
        return Source(row.destination, row.source_database, row.source_table)
    return Source(row.destination, row.database, row["table"])


def _place(at: Row) -> Place:
    return at.epoch, at.seq


def _existing(row: Row, name: Name) -> ExistingRows:
    """A group's rows that existed already; the rows of one SELECT have consecutive numbers."""
    last = row.existing
    start = Floor(
        database=name[0],
        table=name[1],
        source=_source(row),
        epoch=last.epoch,
        seq=last.seq - last.ordinal + 1,
        ts_ms=last.ts_ms,
    )
    version = VersionKey(row.destination, row.source_database, row.source_table, row.version)
    return ExistingRows(version=version, start=start, last=(last.epoch, last.seq))


def _gathered(rows: Iterable[tuple[Row, Row]]) -> Contents:
    result = Contents()
    committed: dict[str, int] = {}
    firsts: dict[tuple[str, int], Row] = {}
    for row, detail in rows:
        result.records[row.topic, row.partition] += row.records
        if row.database is None or row["table"] is None:
            if detail.bad is not None:
                first = firsts.setdefault((row.topic, row.partition), detail.bad)
                firsts[row.topic, row.partition] = min(first, detail.bad)
            continue
        name = (row.database, row["table"])
        part = result.tables.setdefault(name, TablePart(name))
        part.places.add((row.topic, row.partition))
        if row["last"] is not None:
            epoch, seq, ts_ms, transaction, existed = row["last"]
            last = Position(epoch, seq, 0 if existed else ts_ms, transaction or "")
            result.reached = later(result.reached, {row.destination: last})
            newest = max(row.committed or 0, committed.get(row.destination, 0))
            committed[row.destination] = newest
        # A table that waits is rebuilt after the end of a replacement, whatever else the batch has.
        if detail.begun is not None:
            part.replaced.add(Replacements(begun={_source(row): _place(detail.begun)}))
        if detail.ended is not None:
            part.replaced.add(Replacements(ended={_source(row): _place(detail.ended)}))
        part.fault = part.fault or _fault(name, detail)
        if part.fault is not None or row["last"] is None:
            continue
        part.size += row.size
        part.is_partial |= row.partial > 0
        part.is_apart |= row.routed > 0
        # Only a truncate may lack a version: if no row of its table was ever published.
        if row.version is not None:
            key = VersionKey(row.destination, row.source_database, row.source_table, row.version)
            part.versions.add(key)
            part.homes.add((key, row.topic))
            if row["last"] is not None:
                span = _place(row["first"]), _place(row["last"])
                low, high = part.spans.get(key, span)
                part.spans[key] = min(span[0], low), max(span[1], high)
        part.ops.update({op: row[f"op_{op}"] for op in _OPS if row[f"op_{op}"]})
        if row.existing is not None:
            one = _existing(row, name)
            part.existing.append(one)
            places = result.existing.setdefault(name, {})
            places[row.destination] = max(one.last, places.get(row.destination, one.last))
        if detail.truncate is not None:
            part.truncates.append(
                Floor(
                    database=name[0],
                    table=name[1],
                    source=_source(row),
                    epoch=detail.truncate.epoch,
                    seq=detail.truncate.seq,
                    ts_ms=detail.truncate.ts_ms,
                )
            )
        part.claims += [Claim(one.location, one.size, one.sha256) for one in row.claims]
        progress = {
            row.destination: Progress(
                oldest_ms=row.oldest, newest_ms=row.newest, place=_place(row["last"])
            )
        }
        part.progress = total((part.progress, progress))
        result.progress = total((result.progress, progress))
        result.oldest_ms = min(result.oldest_ms or row.oldest, row.oldest)
        result.newest_ms = max(result.newest_ms or row.newest, row.newest)
        before = result.newest.get(row.destination, 0)
        result.newest[row.destination] = max(before, row.newest)
    result.reached = timed(result.reached, committed)
    result.nameless = {
        at: error_of(one.reason)(place(one.topic, one.partition, one.offset, one.reason))
        for at, one in firsts.items()
    }
    return result
