"""A warehouse in memory, a fake for tests that need neither Spark nor files.

Rows are dicts by column, as Spark returns them. Each write replaces the table's rows, so rows that a reader
holds do not change. Memory needs no cleanup, so `upkeep` only records compactions and removals.

Invariant: it passes the same contract suite as every other warehouse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from spark_sink.errors import UnknownTable
from spark_sink.recent.coverage import Cut, Marker
from spark_sink.source.offsets import Offsets
from spark_sink.source.positions import At, is_within
from spark_sink.source.schemas import OWN_COLUMNS
from spark_sink.warehouse.ledger import Entry, Floor, LastBatch, Source, restated
from spark_sink.warehouse.letters import Letter
from spark_sink.warehouse.milestones import Batch, Position, Share, batches, later
from spark_sink.warehouse.moves import Event, History, Place
from spark_sink.warehouse.protocol import (
    LastMerge,
    Name,
    Recent,
    RowCount,
    Space,
    TableFacts,
    VersionGone,
)
from spark_sink.warehouse.shape import Shape

Row = Mapping[str, Any]
Rows = Sequence[Row]
_TEXT = "__unrepresentable"


@dataclass(frozen=True, slots=True)
class _Table:
    shape: Shape
    rows: tuple[Row, ...] = ()
    cut: tuple[int, Offsets] | None = None
    commits: int = 0


class _Tables(dict[Name, _Table]):
    """The tables as they are, and as they were after each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.past: dict[tuple[Name, int], _Table] = {}

    def __setitem__(self, name: Name, table: _Table) -> None:
        super().__setitem__(name, table)
        self.past[name, table.commits] = table


class MemoryTables:
    """See protocol.Tables."""

    def __init__(self) -> None:
        self._tables = _Tables()
        self.last_merges: dict[Name, LastMerge] = {}
        """The last merge of each table, which takes no time and has no files."""

    def names(self) -> list[Name]:
        """See protocol.Tables."""
        return sorted(self._tables)

    def shape(self, database: str, table: str) -> Shape | None:
        """See protocol.Tables."""
        held = self._tables.get((database, table))
        return None if held is None else held.shape

    def evolve(self, held: Shape | None, wanted: Shape) -> None:
        """See protocol.Tables."""
        name = wanted.database, wanted.table
        if held is None and name in self._tables:
            return
        before = self._tables.get(name) or _Table(wanted, commits=-1)
        self._tables[name] = replace(before, shape=wanted, commits=before.commits + 1)

    def rename_columns(self, shape: Shape, names: Mapping[str, str]) -> Shape:
        """See protocol.Tables."""
        name = shape.database, shape.table
        held, renamed = self._tables[name], shape.with_names(names)
        rows = tuple({names.get(one, one): row[one] for one in row} for row in held.rows)
        self._tables[name] = replace(held, shape=renamed, rows=rows, commits=held.commits + 1)
        return renamed

    def merge(self, shape: Shape, rows: Rows, *, is_hard: bool = False) -> None:
        """See protocol.Tables."""
        found = {_identity(shape, row): row for row in self._rows(shape)}
        inserted = updated = 0
        for row in rows:
            key = _identity(shape, row)
            if key not in found or (shape.keyed and _newer(row, found[key])):
                inserted, updated = inserted + (key not in found), updated + (key in found)
                found[key] = {name: row[name] for name, _ in shape.all_columns}
                if is_hard and row["__deleted"]:
                    del found[key]
        self._commit(shape, found.values())
        self.last_merges[shape.database, shape.table] = LastMerge(
            at_ms=0,
            scan_ms=0,
            rewrite_ms=0,
            rows_folded=len(rows),
            rows_inserted=inserted,
            rows_updated=updated,
            rows_copied=0,
            files_added=0,
            files_removed=0,
        )

    def truncate(self, shape: Shape, floor: Floor, *, is_hard: bool = False) -> None:
        """See protocol.Tables."""
        rows = self._rows(shape)
        if not shape.keyed or is_hard:
            self._commit(shape, [row for row in rows if not _is_below(shape, row, floor)])
            return
        self._commit(
            shape,
            [
                _emptied(shape, row, floor)
                if _is_below(shape, row, floor) and not row["__deleted"]
                else row
                for row in rows
            ],
        )

    def rows(
        self,
        shape: Shape,
        *,
        beside: Rows | None = None,  # noqa: ARG002 - lists go together
        fixed: bool = False,  # noqa: ARG002 - a write replaces them
    ) -> Rows:
        """See protocol.Tables."""
        return _columns(shape, self._rows(shape))

    def as_of(self, database: str, table: str, version: int) -> tuple[Shape, Rows]:
        """See protocol.Tables."""
        held = self._tables.past.get(((database, table), version))
        if held is None:
            raise VersionGone(f"{database}.{table}, version {version}")
        return held.shape, _columns(held.shape, held.rows)

    def newest(self, shape: Shape) -> dict[str, Position]:
        """See protocol.Tables."""
        found: dict[str, Position] = {}
        for row in self._rows(shape):
            found = later(found, {row["__destination"]: Position(*_place(row), row["__ts_ms"])})
        return found

    def replace(self, shape: Shape, rows: Rows, *, cut: tuple[int, Offsets] | None = None) -> None:
        """See protocol.Tables."""
        name = shape.database, shape.table
        commits = self.commits(name) + 1 if name in self._tables else 0
        self._tables[name] = _Table(shape, tuple(rows), cut, commits)

    def cut(self, database: str, table: str) -> tuple[int, dict[tuple[str, int], int]] | None:
        """See protocol.Tables."""
        held = self._tables.get((database, table))
        return None if held is None or held.cut is None else (held.cut[0], dict(held.cut[1]))

    def drop(self, database: str, table: str) -> None:
        """See protocol.Tables."""
        self._tables.pop((database, table), None)
        self.last_merges.pop((database, table), None)

    def current(self, database: str, table: str, *, bookkeeping: bool = False) -> Rows:
        """See protocol.Tables."""
        shape = self.shape(database, table)
        if shape is None:
            raise UnknownTable(f"{database}.{table}")
        if not shape.keyed:
            return _standing(self.rows(shape), shape, bookkeeping=bookkeeping)
        rows = [row for row in self.rows(shape) if not row["__deleted"]]
        return rows if bookkeeping else [_plain(row) for row in rows]

    def purge(self, name: Name, before: int) -> None:
        """Removes the markers from before that time (ms)."""
        held = self._tables[name]
        self._commit(held.shape, [row for row in held.rows if not _is_old(row, before)])

    def commits(self, name: Name) -> int:
        """The number of commits after the first."""
        return self._tables[name].commits

    def _rows(self, shape: Shape) -> tuple[Row, ...]:
        return self._tables[shape.database, shape.table].rows

    def _commit(self, shape: Shape, rows: Iterable[Row]) -> None:
        name = shape.database, shape.table
        held = self._tables[name]
        self._tables[name] = replace(held, rows=tuple(rows), commits=held.commits + 1)


@dataclass(slots=True)
class MemoryLedger:
    """See protocol.Ledger."""

    entries: list[Entry] = field(default_factory=list)

    def applied(self) -> dict[tuple[str, int], int]:
        """See protocol.Ledger."""
        found: dict[tuple[str, int], int] = {}
        for one in self.entries:
            at = one.topic, one.partition
            found[at] = max(one.until_offset, found.get(at, 0))
        return found

    def newest_ms(self, topics: Collection[str] | None = None) -> int:
        """See protocol.Ledger."""
        kept = [one for one in self.entries if topics is None or one.topic in topics]
        return max((one.applied_at_ms for one in kept), default=0)

    def last(self) -> LastBatch | None:
        """See protocol.Ledger."""
        if not self.entries:
            return None
        batches = {(one.applied_at_ms, one.query_id, one.batch_id) for one in self.entries}
        at, query, number = max(batches)
        records = [
            one.records
            for one in self.entries
            if (one.applied_at_ms, one.query_id, one.batch_id) == (at, query, number)
        ]
        return LastBatch(batch_id=number, records=sum(records), applied_at_ms=at)

    def append(self, entries: Iterable[Entry]) -> None:
        """See protocol.Ledger."""
        self.entries += entries

    def restate(self, milestone: str) -> None:
        """See protocol.Ledger."""
        last = max(self.entries, key=lambda one: one.applied_at_ms, default=None)
        held = [one for one in self.entries if last and one.applied_at_ms == last.applied_at_ms]
        self.append([restated(one, milestone) for one in held if one.milestone][-1:])

    def batches(self) -> list[Batch]:
        """See protocol.Ledger."""
        return batches(
            Share(
                one.applied_at_ms,
                one.query_id,
                one.topic,
                one.partition,
                one.from_offset,
                one.until_offset,
                one.milestone,
            )
            for one in self.entries
        )


class MemoryFloors:
    """See protocol.FloorLog."""

    def __init__(self) -> None:
        self._floors: dict[tuple[Name, Source], Floor] = {}

    def highest(self) -> list[Floor]:
        """See protocol.FloorLog."""
        return list(self._floors.values())

    def add(self, floors: Iterable[Floor]) -> None:
        """See protocol.FloorLog."""
        for floor in floors:
            at = (floor.database, floor.table), floor.source
            if at not in self._floors or floor.place > self._floors[at].place:
                self._floors[at] = floor


class MemoryDdl:
    """See protocol.DdlLog."""

    def __init__(self) -> None:
        self._history = History()
        self._until: dict[tuple[str, int], int] = {}

    def history(self) -> History:
        """See protocol.DdlLog."""
        return History(dict(self._history.events), dict(self._history.done))

    def read_until(self) -> dict[tuple[str, int], int]:
        """See protocol.DdlLog."""
        return dict(self._until)

    def add(self, events: Iterable[Event], until: Offsets) -> None:
        """See protocol.DdlLog."""
        self._history.add(events)
        for at, offset in until.items():
            self._until[at] = max(offset, self._until.get(at, 0))

    def done(self, places: Mapping[str, Place]) -> None:
        """See protocol.DdlLog."""
        for destination, place in places.items():
            held = self._history.done.get(destination, place)
            self._history.done[destination] = max(place, held)


class MemoryWaits:
    """See protocol.WaitLog."""

    def __init__(self) -> None:
        self._log: list[dict[str, Any]] = []

    def state(self) -> int:
        """See protocol.WaitLog."""
        return len(self._log)

    def rows(self) -> list[dict[str, Any]]:
        """See protocol.WaitLog."""
        return [dict(row) for row in self._log]

    def append(self, row: Mapping[str, Any]) -> None:
        """See protocol.WaitLog."""
        self._log.append(dict(row))


class MemoryLetters:
    """See protocol.DeadLetters."""

    def __init__(self) -> None:
        self.stored: dict[At, Row] = {}
        """The rows, by position."""

    def add(self, rows: Rows) -> None:
        """See protocol.DeadLetters."""
        for row in rows:
            self.stored.setdefault((row["topic"], row["partition"], row["offset"]), row)

    def within(self, start: Offsets, until: Offsets) -> set[At]:
        """See protocol.DeadLetters."""
        return {at for at in self.stored if is_within(at, start, until)}

    def since(self, at_ms: int) -> int:
        """See protocol.DeadLetters."""
        return sum(_ms(row["at"]) >= at_ms for row in self.stored.values())

    def newest(self, most: int, name: Name | None = None) -> list[Letter]:
        """See protocol.DeadLetters."""
        found = [
            row for row in self.stored.values() if name in (None, (row["database"], row["table"]))
        ]
        found.sort(key=lambda row: (row["at"], row["topic"], row["partition"], row["offset"]))
        shown = [column for column in Letter.__dataclass_fields__ if column != "at_ms"]
        letters = (
            {column: row[column] for column in shown} | {"at_ms": _ms(row["at"])} for row in found
        )
        return [Letter(**letter) for letter in letters][::-1][:most]


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


class MemoryRecent:
    """See protocol.RecentLog."""

    def __init__(self) -> None:
        self._commits: list[tuple[list[Row], Cut]] = []

    def begin(
        self, rows: Rows, cut: Cut, *, versions: Iterable[str], markers: Iterable[str] = ()
    ) -> None:
        """See protocol.RecentLog."""
        first = [{"kind": "version", "text": text} for text in versions]
        first += [{"kind": "marker", "text": text} for text in markers]
        self._commits.append(([*first, *rows], cut))

    def add(self, rows: Rows, cut: Cut) -> None:
        """See protocol.RecentLog."""
        self._commits.append(([*self._commits[-1][0], *rows], cut))

    def tidy(self, cut: Cut) -> None:
        """See protocol.RecentLog."""
        rows, newest = self._commits[-1]
        held = [r for r in rows if r["kind"] != "record" or _covers(cut, r)]
        self._commits.append((held, newest))

    def remove_unused(self) -> None:
        """See protocol.RecentLog."""

    def newest(self) -> Recent[Rows] | None:
        """See protocol.RecentLog."""
        version = self.version()
        return None if version is None else self.at(version)

    def version(self) -> int | None:
        """See protocol.RecentLog."""
        return len(self._commits) - 1 if self._commits else None

    def at(self, version: int) -> Recent[Rows]:
        """See protocol.RecentLog."""
        if version >= len(self._commits):
            raise VersionGone(f"recent changes, version {version}")
        rows, cut = self._commits[version]
        records = [row for row in rows if row["kind"] == "record"]
        return Recent(
            cut=cut,
            records=[
                {k: v for k, v in row.items() if k not in {"kind", "text"}} for row in records
            ],
            versions=[row["text"] for row in rows if row["kind"] == "version"],
            markers=[
                Marker(row["text"], row.get("topic"), row.get("partition"), row.get("offset"))
                for row in rows
                if row["kind"] == "marker"
            ],
            statements=[row["text"] for row in rows if row["kind"] == "statement"],
        )


class MemoryUpkeep:
    """See protocol.Upkeep."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables
        self.retained: dict[Name, int] = {}
        """The retention of each table, in seconds."""
        self.asked: list[tuple[str, Name]] = []
        """The compactions and removals requested, in order."""

    def retain(self, name: Name, seconds: int) -> None:
        """See protocol.Upkeep."""
        self.retained[name] = seconds

    def sources_if_old(self, name: Name, before: int) -> Collection[str]:
        """See protocol.Upkeep."""
        shape = self._tables.shape(*name)
        rows = self._tables.rows(shape) if shape is not None else []
        if not any(_is_old(row, before) for row in rows):
            return ()
        return {row["__destination"] for row in rows}

    def purge(self, name: Name, before: int) -> None:
        """See protocol.Upkeep."""
        self._tables.purge(name, before)

    def compact(self, name: Name) -> None:
        """See protocol.Upkeep."""
        self.asked.append(("compact", name))

    def remove_unused(self, name: Name) -> None:
        """See protocol.Upkeep."""
        self.asked.append(("remove", name))

    def version(self, name: Name, *, at_least: bool = False) -> int:  # noqa: ARG002 - it costs nothing
        """See protocol.Upkeep."""
        return self._tables.commits(name)


class MemoryFacts:
    """See protocol.Facts."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def of(self, name: Name) -> TableFacts | None:
        """See protocol.Facts."""
        shape = self._tables.shape(*name)
        if shape is None:
            return None
        count = self.count(name)
        return TableFacts(
            shape=shape,
            rows=count.live + count.deleted,
            files=0,
            bytes=0,
            newest_ms=count.newest_ms,
            destinations=count.destinations,
            written_ms=0,
            last_merge=self.last_merge(name),
        )

    def size(self, name: Name) -> int:  # noqa: ARG002 - there are no files
        """See protocol.Facts."""
        return 0

    def count(self, name: Name) -> RowCount:
        """See protocol.Facts."""
        shape = self._tables.shape(*name)
        rows = self._tables.rows(shape) if shape is not None else []
        deleted = sum(bool(row["__deleted"]) for row in rows)
        return RowCount(
            live=len(rows) - deleted,
            deleted=deleted,
            newest_ms=max((row["__ts_ms"] for row in rows), default=None),
            destinations=tuple(sorted({row["__destination"] for row in rows})),
        )

    def last_merge(self, name: Name) -> LastMerge | None:
        """See protocol.Facts."""
        return self._tables.last_merges.get(name)


class MemoryNotes:
    """See protocol.Notes."""

    def __init__(self, *, excludes: bool = True) -> None:
        self._texts: dict[str, str] = {}
        self._excludes = excludes

    def read(self, name: str) -> str | None:
        """See protocol.Notes."""
        return self._texts.get(name)

    def write(self, name: str, text: str) -> None:
        """See protocol.Notes."""
        self._texts[name] = text

    def names(self, folder: str) -> list[str]:
        """See protocol.Notes."""
        begin = f"{folder}/"
        return sorted(name.removeprefix(begin) for name in self._texts if name.startswith(begin))

    def make(self) -> None:
        """See protocol.Notes."""

    def excludes(self) -> bool:
        """See protocol.Notes."""
        return self._excludes


class MemoryWarehouse:
    """See protocol.Warehouse."""

    def __init__(self) -> None:
        self.tables = MemoryTables()
        self.stage = MemoryTables()
        self.ledger = MemoryLedger()
        self.floors = MemoryFloors()
        self.moving = MemoryTables()
        self.ddl = MemoryDdl()
        self.waits = MemoryWaits()
        self.letters = MemoryLetters()
        self.recent = MemoryRecent()
        self.upkeep = MemoryUpkeep(self.tables)
        self.deleted, self.histories = _space(), _space()
        self.facts = MemoryFacts(self.tables)
        self.notes = MemoryNotes()


def _space() -> Space[Rows]:
    tables = MemoryTables()
    return Space(tables=tables, upkeep=MemoryUpkeep(tables))


def _columns(shape: Shape, rows: Iterable[Row]) -> Rows:
    names = [name for name, _ in shape.all_columns]
    return [{name: row.get(name) for name in names} for row in rows]


def _identity(shape: Shape, row: Row) -> tuple[Any, ...]:
    """The value that two changes of one row share; in a log, the identity of one image."""
    if shape.history:
        return row["__destination"], *_place(row)
    if not shape.keyed:
        return row["__destination"], row["__seq"], row["__delta"]
    texts = row[_TEXT] or {}
    key = tuple((row[name], texts.get(name)) for name in shape.key)
    return (*key, _source(shape, row)) if shape.apart else key


def _source(shape: Shape, row: Row) -> Source:
    """The source of a row; the source table has the table's name unless the row states its own."""
    database, table = row.get("__source_database"), row.get("__source_table")
    return Source(row["__destination"], database or shape.database, table or shape.table)


def _newer(row: Row, held: Row) -> bool:
    if row["__destination"] == held["__destination"]:
        return _place(row) > _place(held)
    order = "__ts_ms", "__destination"
    return tuple(row[name] for name in order) > tuple(held[name] for name in order)


def _is_below(shape: Shape, row: Row, floor: Floor) -> bool:
    return _source(shape, row) == floor.source and _place(row) < floor.place


def _place(row: Row) -> tuple[int, int]:
    return row["__epoch"], row["__seq"]


def _covers(cut: Cut, row: Row) -> bool:
    return bool(row["offset"] >= cut.since.get((row["topic"], row["partition"]), 0))


def _is_old(row: Row, before: int) -> bool:
    return bool(row["__deleted"]) and row["__ts_ms"] < before


def _emptied(shape: Shape, row: Row, floor: Floor) -> Row:
    """The marker that a truncate leaves in place of a row."""
    texts = row[_TEXT]
    return {
        **row,
        **{name: None for name, _ in shape.columns if name not in shape.key},
        "__deleted": True,
        "__epoch": floor.epoch,
        "__seq": floor.seq,
        "__ts_ms": floor.ts_ms,
        _TEXT: texts and {name: text for name, text in texts.items() if name in shape.key},
    }


def _plain(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in OWN_COLUMNS}


def _standing(images: Rows, shape: Shape, *, bookkeeping: bool) -> Rows:
    """The rows of a log: each distinct image, repeated by the sum of its signs."""
    signs: Counter[str] = Counter()
    found: dict[str, Row] = {}
    for image in images:
        row = {name: image[name] for name, _ in shape.columns} | {_TEXT: image[_TEXT]}
        of = repr((_source(shape, image) if shape.apart else None, sorted(row.items(), key=str)))
        signs[of] += image["__delta"]
        found[of] = row if bookkeeping else _plain(row)
    return [found[of] for of, number in signs.items() for _ in range(number)]
