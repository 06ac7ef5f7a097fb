"""The execution of events: tables that were renamed or dropped get the rows that belong to them now.

First, all tables of the events are built beside the present tables. Then a note names them, and each is put in
place. An interrupted run is finished from the note; without a note it begins again. Tables that rows move
between are one group: if one of them cannot be built, no table of the group is changed, and the whole group
waits. A table that cannot be put in place waits, and what was built for it is kept for its reload.

A wait belongs to rows, not to a name: if the rows of a waiting table get another name, the new name waits, and
the old name does not.

Invariant: until the note is written no table is changed, and from then on nothing is computed, so to put the
same tables in place again changes nothing. Each table put in place has a mark of it, which is written before
any table is removed; so rows are not moved a second time if the note or the log is lost meanwhile.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.errors import (
    KeyChanged,
    OwnRows,
    RenamedWhileWaiting,
    RenameFailed,
    TableError,
    TypeConflict,
    UnsupportedName,
    table_error,
)
from spark_sink.text.quoting import LOG, MOVED, argument, literal
from spark_sink.warehouse.markers import in_columns
from spark_sink.warehouse.moves import (
    BEGINNING,
    Event,
    History,
    Name,
    Piece,
    Place,
    piece_sql,
    pieces,
)
from spark_sink.warehouse.notes import json_of
from spark_sink.warehouse.protocol import Warehouse
from spark_sink.warehouse.shape import Entry, Shape
from spark_sink.warehouse.spark_failures import FAILURES, twice
from spark_sink.warehouse.stays import carried
from spark_sink.warehouse.waiting_tables import WaitState
from wire.warehouse_types import widened

_log = logging.getLogger(__name__)
_RELOAD: Final = "python -m spark_sink reload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The tables that changed, and the tables that could not and wait."""

    changed: frozenset[Name]
    faults: frozenset[Name]


@dataclass(slots=True, kw_only=True)
class Moving:
    """Carries out the events that are pending."""

    warehouse: Warehouse[DataFrame]
    wait: Callable[[Name, TableError], None]
    """Makes a table wait."""
    waiting: Callable[[Name], WaitState | None]
    """The state of a table that waits."""
    end_wait: Callable[[Name], object] = lambda _: None
    """Ends the wait of a name that now has other rows or none."""
    sources: Callable[[Name], Collection[str]] = lambda _: ()
    """The destinations that publish a table."""
    history: History = field(default_factory=History)
    """All events, and the positions up to which they were carried out before."""

    def finish(self) -> Outcome:
        """Finish what a run was interrupted in; tables that cannot be put in place wait."""
        # A process that left the note incomplete had changed no table yet, or all of them.
        note = json_of(self.warehouse.notes, MOVED, {})
        if not note.get("tables"):
            return Outcome(changed=frozenset(), faults=frozenset())
        tables = [((database, table), is_kept) for database, table, is_kept in note["tables"]]
        done = {destination: (epoch, seq) for destination, epoch, seq in note["done"]}
        faults: set[Name] = set()
        # A removed table has no mark, so the tables that have its rows now get their marks first.
        for name, is_kept in sorted(tables, key=lambda one: not one[1]):
            if is_unplaced(self.waiting(name)) and self._built(name):
                # An interrupted run has found that it cannot be put in place.
                faults.add(name)
                continue
            try:
                twice(partial(self._put, name, done, is_kept=is_kept), name, self.warehouse)
            except TableError as fault:
                faults.add(name)
                self.wait(name, _failed(name, fault, is_built=is_kept and self._built(name)))
        self.warehouse.log.done(done)
        self._end_waits({(database, table) for database, table in note.get("passed", ())} - faults)
        self.warehouse.notes.write(MOVED, "{}")
        for name, _ in tables:
            if name not in faults:
                self.warehouse.moving.drop(*name)
        changed = frozenset(name for name, _ in tables)
        return Outcome(changed=changed - faults, faults=frozenset(faults))

    def _put(self, name: Name, done: Mapping[str, Place], *, is_kept: bool) -> None:
        shape = self.warehouse.moving.shape(*name) if is_kept else None
        if shape is None:
            self.warehouse.tables.drop(*name)
        else:
            rows = self.warehouse.moving.rows(shape)
            # A mark has 0 where other cuts have the time of a wait.
            mark = {(destination, epoch): seq for destination, (epoch, seq) in done.items()}
            self.warehouse.tables.replace(shape, rows, cut=(0, mark))

    def _built(self, name: Name) -> bool:
        """Whether what was built for a table exists, and can be read."""
        try:
            return self.warehouse.moving.shape(*name) is not None
        except (TableError, *FAILURES):
            return False

    def carry_out(
        self,
        pending: Collection[Event],
        *,
        broken: Mapping[Name, TableError] = MappingProxyType({}),
    ) -> Outcome:
        """Move and remove rows as the events require.

        If one table of a group cannot be moved, for example a `broken` table, the whole group stays as it is.
        Before any table is changed, the tables that stay begin to wait, and so do the tables that get rows of a
        waiting table.
        """
        done: dict[str, Place] = {}
        for event in pending:
            done[event.destination] = max(event.place, done.get(event.destination, event.place))
        found, removed = pieces(pending), _removed(pending)
        faults: dict[Name, TableError] = {}
        late: dict[Name, TableError] = {}
        kept: dict[Name, bool] = {}
        passed: set[Name] = set()
        for group in groups(found):
            own = {at: rows for at, rows in found.items() if at[1] in group}
            held = {name for name in group if self.waiting(name) is not None}
            held = held if len(group) > 1 else set()
            fault = next(((name, broken[name]) for name in sorted(group & broken.keys())), None)
            if held and not self._is_of(held, own):
                fault = min(held), RenamedWhileWaiting()
            tables, fault = self._group(own, removed) if fault is None else ({}, fault)
            kept |= tables
            if fault is not None:
                unmoved = self._unmoved(group, *fault)
                faults |= {name: _held_up(name, min(held)) for name in group} if held else unmoved
                continue
            waits = _passed_on(held, own)
            late |= {name: _held_up(name, of) for name, of in waits.items()}
            passed |= held - waits.keys()
        for name, error in sorted((faults | late).items()):
            self.wait(name, error)
        if not kept:
            self.warehouse.log.done(done)
            self._end_waits(passed)
            return Outcome(changed=frozenset(), faults=frozenset(faults))
        self.warehouse.notes.write(
            MOVED,
            json.dumps(
                {
                    "version": 1,
                    "tables": [[*name, is_kept] for name, is_kept in sorted(kept.items())],
                    "done": [[destination, *place] for destination, place in done.items()],
                    "passed": sorted(passed),
                }
            ),
        )
        outcome = self.finish()
        for name, is_kept in sorted(kept.items()):
            if name in outcome.changed:
                _log.info("table %s table=%s.%s", "moved" if is_kept else "removed", *name)
        return replace(outcome, faults=outcome.faults | faults.keys())

    def _is_of(self, held: Collection[Name], own: Collection[tuple[str, Name]]) -> bool:
        """Whether all rows of these tables are of destinations whose statements move them."""
        moving = {name: {one for one, other in own if other == name} for name in held}
        return all(moving[name].issuperset(self.sources(name)) for name in held if moving[name])

    def _end_waits(self, names: Iterable[Name]) -> None:
        for name in sorted(names):
            if self.waiting(name) is not None:
                self.end_wait(name)

    def _group(
        self, found: Mapping[tuple[str, Name], list[Piece]], removed: Collection[Name]
    ) -> tuple[dict[Name, bool], tuple[Name, TableError] | None]:
        """Build the tables of a group.

        Return for each table whether it will exist; if a table cannot be built, return its name and the error.
        """
        kept: dict[Name, bool] = {}
        name = min(name for _, name in found)
        try:
            tables = _Tables(self.warehouse, found, self.history)
            for name in tables.names():
                if twice(partial(tables.is_placed, name), name, self.warehouse):
                    moved = f"its rows were moved already, and neither {MOVED} nor {LOG} says so"
                    return {}, (name, RenameFailed(moved))
            for name in tables.names():
                build = partial(tables.built, name, is_removed=name in removed)
                kept[name] = twice(build, name, self.warehouse)
        except TableError as fault:
            return {}, (name, fault)
        return kept, None

    def _unmoved(
        self, group: Collection[Name], name: Name, fault: TableError
    ) -> dict[Name, TableError]:
        """The errors of a group of tables, one of which cannot be moved.

        What was built for them is removed, unless some of them are in place already.
        """
        found: dict[Name, TableError] = {}
        for one in group:
            if isinstance(fault, RenameFailed):
                is_built = self._built(one)
            else:
                is_built = False
                self.warehouse.moving.drop(*one)
            found[one] = _failed(one, fault, is_built=is_built)
        if isinstance(fault, UnsupportedName):
            found[name] = fault
        return found


def _passed_on(
    held: Collection[Name], own: Mapping[tuple[str, Name], list[Piece]]
) -> dict[Name, Name]:
    """The names that wait once waiting tables have moved, each with the former name of its rows."""
    found: dict[Name, Name] = {}
    for name in sorted(held):
        # The rows of a waiting table are from before the first of the events.
        targets = {rows[0][1] for (_, one), rows in own.items() if one == name} or {name}
        found |= {target: name for target in targets if target is not None}
    return found


def groups(found: Mapping[tuple[str, Name], Iterable[Piece]]) -> list[set[Name]]:
    """Return the groups of names that rows move between: a swap is one group."""
    result: list[set[Name]] = []
    for (_, name), own in found.items():
        group = {name, *(target for _, target in own if target is not None)}
        for other in [one for one in result if one & group]:
            group |= other
            result.remove(other)
        result.append(group)
    return result


class _Tables:
    """The tables of some events as they are and as they will be."""

    def __init__(
        self,
        warehouse: Warehouse[DataFrame],
        found: Mapping[tuple[str, Name], list[Piece]],
        history: History,
    ) -> None:
        self._warehouse = warehouse
        self._history = history
        self._pieces: dict[Name, dict[str, list[Piece]]] = {}
        for (destination, name), own in found.items():
            self._pieces.setdefault(name, {})[destination] = own
        targets = {to for own in found.values() for _, to in own if to is not None}
        shapes = {
            name: twice(partial(warehouse.tables.shape, *name), name, warehouse)
            for name in sorted({*self._pieces, *targets})
        }
        self._shapes = {name: shape for name, shape in shapes.items() if shape is not None}

    def names(self) -> list[Name]:
        """The tables that change."""
        moved = {
            target
            for name in self._shapes
            for own in self._pieces.get(name, {}).values()
            for _, target in own
            if target is not None
        }
        return sorted(moved | (self._shapes.keys() & self._pieces.keys()))

    def is_placed(self, name: Name) -> bool:
        """Whether a table has been put in place already for one of these events."""
        if name not in self._shapes or (cut := self._warehouse.tables.cut(*name)) is None:
            return False
        since_ms, marks = cut
        return since_ms == 0 and any(
            below is not None and below <= (epoch, seq)
            for (destination, epoch), seq in marks.items()
            for own in self._pieces.values()
            for below, _ in own.get(destination, ())
        )

    def built(self, name: Name, *, is_removed: bool) -> bool:
        """Build a table as it will be; return False if it will not exist."""
        stage = self._warehouse.moving
        stage.drop(*name)
        sources = [
            (self._shapes[one], rows)
            for one in sorted(self._shapes, key=lambda one: one != name)
            if (rows := self._rows(one, name)) is not None and not rows.isEmpty()
        ]
        if not sources and (is_removed or name not in self._shapes):
            return False
        if not sources:
            rows = self._warehouse.tables.rows(self._shapes[name]).where("false")
            stage.replace(self._named(self._shapes[name], name), rows)
            return True
        first, rows = sources[0]
        shape = self._named(first, name)
        stage.replace(shape, rows)
        for other, more in sources[1:]:
            wider = self._named(united(shape, other), name)
            stage.evolve(shape, wider)
            shape = wider
            stage.merge(shape, in_columns(more, other, shape).localCheckpoint(eager=False))
        return True

    def _named(self, shape: Shape, name: Name) -> Shape:
        """The shape under a name, with the versions of the rows that it will have."""
        destinations = {one[0] for one in shape.followed}
        for own in self._pieces.values():
            destinations |= own.keys()
        followed: set[Entry] = set()
        for destination in destinations:
            names = [] if shape.apart else self._history.names(destination, name)
            done = self._history.done.get(destination, BEGINNING)
            if names:
                stays = carried(names, done, self._shapes, destination, newest=self._newest)
                followed |= {one.entry(destination) for one in stays}
            else:
                followed |= {one for one in shape.followed if one[0] == destination}
        return replace(shape, database=name[0], table=name[1], followed=tuple(sorted(followed)))

    def _newest(self, destination: str, name: Name) -> int:
        """The greatest version of a destination's rows in a table; 0 without any."""
        rows = self._warehouse.tables.rows(self._shapes[name])
        own = rows.where(f"__destination = {literal(destination)}")
        return own.selectExpr("max(__schema) AS v").collect()[0].v or 0

    def _rows(self, source: Name, target: Name) -> DataFrame | None:
        """The rows of `source` that belong to `target`, which may be the same; None if there can be none."""
        own = self._pieces.get(source, {})
        if source != target and not any(to == target for one in own.values() for _, to in one):
            return None
        rows = self._warehouse.tables.rows(self._shapes[source])
        here = [
            f"(__destination = {literal(destination)} AND "
            f"{piece_sql(one, target, epoch='__epoch', seq='__seq')})"
            for destination, one in sorted(own.items())
        ]
        if source != target and not self._shapes[source].apart:
            # Versions are numbered separately for each name of a source table.
            rows = rows.withColumn("__schema", f.lit(0))
        if source == target:
            others = (
                " AND ".join(f"__destination <> {literal(one)}" for one in sorted(own)) or "true"
            )
            here.append(f"({others})")
        return rows.where(" OR ".join(here))


def united(held: Shape, other: Shape) -> Shape:
    """Return the shape that holds the rows of two tables; raise KeyChanged or TypeConflict."""
    name = f"{held.database}.{held.table}"
    if sorted(held.key) != sorted(other.key):
        raise KeyChanged(
            f"{name} has {list(held.key) or 'none'}, rows moved to it {list(other.key)}"
        )
    columns = dict(held.columns)
    for column, kind in other.columns:
        own = held.spelling(column) or column
        wide = widened(columns.get(own, kind), kind)
        if wide is None:
            raise TypeConflict(f"{name}.{own} is {columns[own]} and would need to hold {kind}")
        columns[own] = wide
    there = {(one[:3], one[5:]) for one in held.followed}
    more = [one for one in other.followed if (one[:3], one[5:]) not in there]
    return replace(
        held,
        columns=tuple(columns.items()),
        mapped=held.mapped or other.mapped,
        followed=tuple(sorted([*held.followed, *more])),
    )


def _removed(pending: Iterable[Event]) -> set[Name]:
    """Names whose tables do not remain without rows: they were removed, or moved to another name."""
    found: set[Name] = set()
    for event in pending:
        found -= {new for new in event.moves.values() if new is not None}
        found |= {*event.removed, *(old for old, new in event.moves.items() if new is not None)}
    return found


def _held_up(name: Name, held: Name) -> TableError:
    """The error of a name that gets rows of a waiting table."""
    return RenamedWhileWaiting(
        f"{'.'.join(name)} has rows of {'.'.join(held)}, which waited when it was renamed",
        advice=_again(name),
    )


def _failed(name: Name, fault: TableError, *, is_built: bool) -> RenameFailed:
    """The error of a table that rows cannot be moved to or from.

    `is_built` means that a reload finds the rows that were built for it.
    """
    advice = _again(name)
    if is_built:
        advice = f"Remove what prevents it, then run: {_RELOAD} {argument(name)}; or add --from-beginning"
    what = "" if isinstance(fault, RenameFailed) else f"{type(fault).__name__}: "
    return RenameFailed(f"{'.'.join(name)}: {what}{fault.where}", advice=advice)


def is_unplaced(held: WaitState | None) -> bool:
    """Whether a table waits because its rows could not be moved; what was built for it may exist."""
    return held is not None and table_error(held.waits_for).own_rows is OwnRows.UNPLACED


def _again(name: Name) -> str:
    return f"Run: {_RELOAD} {argument(name)} --from-beginning"
