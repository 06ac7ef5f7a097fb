"""Tables in memory: rows are dicts by column, as Spark returns them.

Each write replaces a table's rows, so rows that a reader holds do not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_sink.errors import UnknownTable
from spark_sink.source.positions import Offsets
from spark_sink.warehouse.ledger import Floor, Source
from spark_sink.warehouse.milestones import Position, later
from spark_sink.warehouse.protocol import LastMerge, Name, VersionGone
from spark_sink.warehouse.shape import Shape
from wire.warehouse_types import OWN_COLUMNS

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

    def evolve(
        self,
        held: Shape | None,
        wanted: Shape,
        *,
        is_made: bool = True,  # noqa: ARG002 - nobody else adds columns
    ) -> None:
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

    def reads_once(self, shape: Shape) -> bool:  # noqa: ARG002 - rows in memory cost nothing
        """See protocol.Tables."""
        return False

    def merge(
        self, shape: Shape, rows: Rows, *, is_hard: bool = False, is_new: bool = False
    ) -> None:
        """See protocol.Tables."""
        if is_new:
            self.evolve(None, shape)
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
        self._commit(held.shape, [row for row in held.rows if not is_old(row, before)])

    def commits(self, name: Name) -> int:
        """The number of commits after the first."""
        return self._tables[name].commits

    def _rows(self, shape: Shape) -> tuple[Row, ...]:
        return self._tables[shape.database, shape.table].rows

    def _commit(self, shape: Shape, rows: Iterable[Row]) -> None:
        name = shape.database, shape.table
        held = self._tables[name]
        self._tables[name] = replace(held, rows=tuple(rows), commits=held.commits + 1)


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


def is_old(row: Row, before: int) -> bool:
    """Whether a row is a marker from before that time (ms)."""
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
