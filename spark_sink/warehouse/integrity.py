"""The comparison of tables with what the ledger has of them, before anything is merged into them.

Invariant: a table into which rows are merged descends from the commit at which the sink left it. The commits
since are the sink's own, or changed no row, or their changes are noted: before the sink's next commit of the
table, and until the table's rows are read again from its topics or its source. The table has the columns that
the sink made. The same holds for its history, and for the markers of deleted rows beside it. If several sinks
share a warehouse, each of them checks the tables that it fills.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from spark_sink.errors import (
    ColumnsChanged,
    HistoryReplaced,
    LedgerLost,
    TableError,
    TableFailed,
    TableReplaced,
)
from spark_sink.spark.files import side_by_side
from spark_sink.text.quoting import CHANGED_ELSEWHERE, PUT_BACK, SINKS, argument
from spark_sink.warehouse.common.conflicts import again, replaced
from spark_sink.warehouse.milestones import Commit, Milestone, Stated
from spark_sink.warehouse.moves import Event, Place
from spark_sink.warehouse.notes import Notes, json_of, note_of_table
from spark_sink.warehouse.protocol import Commits, ForeignCommit, Name, Standing, Warehouse
from spark_sink.warehouse.spark_failures import FAILURES, is_shared, twice
from spark_sink.warehouse.table_rules import NO_RULES, TableRules
from spark_sink.warehouse.waiting_tables import LOADED, WaitState
from wire.text import utc_seconds

_log = logging.getLogger(__name__)
_KEPT: Final = 20
_NONE: Final[Mapping[str, Any]] = {"version": 1, "commits": []}


def note_foreign(notes: Notes, name: Name, commits: Sequence[ForeignCommit]) -> None:
    """Note commits of other programs that changed rows of a table; only the last ones are kept."""
    found = {one[0]: one for one in _noted(notes, name)}
    found |= {one.version: [one.version, one.operation, one.at_ms] for one in commits}
    body = {"version": 1, "commits": [found[version] for version in sorted(found)][-_KEPT:]}
    notes.write(_path(name), json.dumps(body))


def forget_foreign(notes: Notes, name: Name) -> None:
    """Clear the note of a table whose rows are again those of its topics or its source."""
    if _noted(notes, name):
        notes.write(_path(name), json.dumps(_NONE, separators=(",", ":")))


def foreign_lines(warehouse: Warehouse[Any]) -> Iterator[tuple[Name, str]]:
    """A line for each table with such rows."""
    there = set(warehouse.notes.names(CHANGED_ELSEWHERE))
    for name in warehouse.tables.names() if there else ():
        if _path(name).rpartition("/")[2] in there and (found := _noted(warehouse.notes, name)):
            version, operation, at_ms = found[-1]
            more = f", and {len(found) - 1} more before" if len(found) > 1 else ""
            yield (
                name,
                f"{described(operation, version)} ({utc_seconds(at_ms)}{more}); {advice(name)}",
            )


def described(operation: str, version: int) -> str:
    """A commit of another program, in words."""
    return f"another program changed rows: {operation} made version {version}"


def advice(name: Name) -> str:
    """The advice for restoring the source's rows."""
    own = argument(name)
    return (
        f"to have the source's rows again, run: python -m spark_sink reload {own} --from-beginning"
    )


def _noted(notes: Notes, name: Name) -> list[list[Any]]:
    # If the text is incomplete, the commits after the ledger's are found again.
    found: list[list[Any]] = json_of(notes, _path(name), _NONE)["commits"]
    return found


def _path(name: Name) -> str:
    return note_of_table(CHANGED_ELSEWHERE, name)


_MARKERS: Final = "markers"
_HISTORY: Final = "history"
"""The kinds of what is stored beside a table."""


@dataclass(slots=True, kw_only=True)
class Integrity:
    """The commits at which the sink left the tables."""

    warehouse: Warehouse[Any]
    sink: str = ""
    """The name of the sink."""
    rules: TableRules = NO_RULES
    """The settings of single tables."""
    _left: dict[Name, Commit] = field(default_factory=dict)
    _beside: dict[tuple[str, str, str], Commit] = field(default_factory=dict)
    """The last known commits of what is stored beside the tables, by its kind, database and table."""
    _reloaded: dict[Name, int] = field(default_factory=dict)
    """Tables that were reloaded since the last batch, each with the time (ms) at which its wait began."""
    _filled: set[Name] = field(default_factory=set)
    """The tables that this process has filled."""
    ddl: dict[str, Place] = field(default_factory=dict)
    """For each destination, the position up to which its DDL was carried out when this process began."""
    unchanged: dict[Name, Commit] = field(default_factory=dict)
    """The tables that were found at the start to be at the commit at which the sink left them."""
    _has_begun: bool = False
    _stated: list[Stated] | None = None

    @property
    def left(self) -> Mapping[Name, Commit]:
        """The last known commit of each table that the sink fills, for the ledger."""
        return dict(self._left)

    @property
    def beside(self) -> Mapping[tuple[str, str, str], Commit]:
        """The last known commit of what is stored beside these tables."""
        return dict(self._beside)

    def stated(self) -> list[Stated]:
        """The result of the ledger's `last_of_sinks` when this process began; read once."""
        if self._stated is None:
            self._stated = self.warehouse.log.last_of_sinks()
        return self._stated

    def begin(self, events: Iterable[Event], states: Iterable[WaitState]) -> None:
        """Take over the commits in the ledger; only the first call of a process has an effect.

        `events` are the DDL that was carried out, and `states` the states of tables that waited: either may
        mean that a table has changed since the last batch.
        """
        if self._has_begun:
            return
        self.warehouse.commits.announce()
        stated = self.stated()
        at_ms, last = stated[-1] if stated else (0, None)
        self._has_begun = True
        if last is None:
            return
        self.ddl = dict(last.ddl)
        newest = [one for _, one in stated if one is not None]
        own = Milestone(reached={}, versions={})
        for applied_ms, one in stated:
            if one is not None and one.sink == self.sink:
                own, at_ms = one, applied_ms
        self._left = dict(own.left)
        self._beside = {
            kept: commit
            for kept, commit in own.beside.items()
            if kept[0] == _MARKERS or self.rules.has_history(kept[1:])
        }
        for other in newest:
            for kept, commit in other.beside.items():
                if kept in self._beside and self._beside[kept].version < commit.version:
                    del self._beside[kept]
            # Another sink has filled these tables since.
            for name, commit in other.left.items():
                if name in self._left and self._left[name].version < commit.version:
                    del self._left[name]
        nowhere, moved = (-1, -1), set[Name]()
        for event in events:
            if event.place > own.ddl.get(event.destination, nowhere):
                for name in event.names:
                    self._left.pop(name, None)
                    moved.add(name)
        for state in states:
            if state.kind == LOADED and state.since_ms and state.at_ms >= at_ms:
                self._left.pop(state.name, None)
                self._forget_beside(state.name)
                if not state.error and state.name not in moved:
                    self._reloaded[state.name] = state.since_ms

    def forget(self, name: Name) -> None:
        """Forget the commit of a table, as something other than a batch has written it."""
        self.unchanged.pop(name, None)
        self._left.pop(name, None)
        self._reloaded.pop(name, None)

    def took(self, name: Name, *, has_history: bool = True) -> None:
        """Record the commit of a table that a reload has just made, and accept what is beside the table.

        Its history is accepted only with `has_history`.
        """
        self._filled.add(name)
        self._forget_beside(name, *((_HISTORY,) if has_history else ()))
        if (found := self.warehouse.commits.since(name, None)) is not None:
            self._left[name] = found.commit

    def drops_markers(self, name: Name) -> None:
        """Note that markers were put back into their table, and that those beside it are removed."""
        self._beside.pop((_MARKERS, *name), None)
        stated = [one for _, one in self.warehouse.log.last_of_sinks() if one is not None]
        held = [one.beside.get((_MARKERS, *name)) for one in stated if one.sink == self.sink]
        if held and (left := held[-1]) is not None:
            notes = [one for one in self._put_back() if tuple(one[:2]) != name]
            notes.append([*name, left.version, left.number])
            self.warehouse.notes.write(PUT_BACK, json.dumps(notes))

    def _put_back(self) -> list[list[Any]]:
        """Tables whose markers were put back, with the commit that the ledger has of the markers."""
        return list(json_of(self.warehouse.notes, PUT_BACK, []))

    def _forget_beside(self, name: Name, *more: str) -> None:
        """Forget the commits of the markers beside a table, which a reload has put back, and of `more`."""
        for kind in (_MARKERS, *more):
            self._beside.pop((kind, *name), None)

    def misfits(
        self, states: Mapping[Name, WaitState], absent: Collection[Name]
    ) -> list[tuple[Name, TableError]]:
        """The tables that are not as the sink left them, each with its error.

        `states` are the states of all tables; tables in `absent` may be gone.
        """
        found: list[tuple[Name, TableError]] = []
        waiting = {name for name, held in states.items() if held.waits}
        beside = {(database, table) for _, database, table in self._beside}
        names = sorted({*self._left, *self._reloaded, *beside} - waiting)
        for name, fault in zip(names, side_by_side(self._fault_of, names), strict=True):
            if fault is None:
                continue
            is_gone = name in absent and not isinstance(fault, TableFailed)
            if is_gone and self.warehouse.commits.since(name, None) is None:
                self.forget(name)
            else:
                found.append((name, fault))
        return found

    def _fault_of(self, name: Name) -> TableError | None:
        """The error of a table that is not as the sink left it; None if it is."""
        try:
            if self._is_as_left(name):
                self.unchanged[name] = self._left[name]
            else:
                twice(partial(self._checked, name), name, self.warehouse)
        except TableError as fault:
            return fault
        return None

    def _is_as_left(self, name: Name) -> bool:
        """Whether nothing was committed to a table, or to what is beside it, since the sink left them."""
        if name not in self._left or name in self._reloaded:
            return False
        beside = [
            (self._commits(kind), self._beside[kind, *name])
            for kind in (_MARKERS, _HISTORY)
            if (kind, *name) in self._beside
        ]
        try:
            held = [(self.warehouse.commits, self._left[name]), *beside]
            return all(commits.is_at(name, left) for commits, left in held)
        except (TableError, ValueError, *FAILURES):
            # The check that follows names what is wrong.
            return False

    def checked(self, name: Name) -> Standing | None:
        """The present state of a table that this sink fills; None if the table is new.

        Raise TableReplaced, ColumnsChanged and HistoryReplaced.
        """
        self._filled.add(name)
        return self._checked(name)

    def _checked(self, name: Name) -> Standing | None:
        found = self._standing(name)
        if found is not None:
            refuse_changed(name, found)
        else:
            # It was dropped, and its history may be removed.
            self._forget_beside(name, _HISTORY)
        for kind in (_MARKERS, _HISTORY):
            if (kind, *name) in self._beside:
                self._check_beside(kind, name)
        return found

    def _check_beside(self, kind: str, name: Name) -> None:
        """Raise TableReplaced or HistoryReplaced if what is beside a table is not as the sink left it."""
        left = self._beside[kind, *name]
        commits = self._commits(kind)
        try:
            found = commits.since(name, left)
            if found is None:
                reason = f"it is gone, and the ledger has its version {left.version}"
                raise replaced(name, reason)
        except TableReplaced as fault:
            if kind == _HISTORY:
                raise _history_replaced(name, fault) from fault
            if [*name, left.version, left.number] in self._put_back():
                del self._beside[kind, *name]
                return
            where = f"the table of markers of deleted rows beside {fault.where}"
            raise TableReplaced(where, advice=fault.advice) from fault
        if found.foreign and kind == _MARKERS:
            # Other programs may remove rows of a history.
            note_foreign(self.warehouse.notes, name, found.foreign)
            last = found.foreign[-1]
            _log.warning(
                "markers of deleted rows: %s table=%s.%s; %s",
                *(described(last.operation, last.version), *name, advice(name)),
            )
        self._beside[kind, *name] = found.commit

    def _commits(self, kind: str) -> Commits:
        warehouse = self.warehouse
        return warehouse.deleted.commits if kind == _MARKERS else warehouse.histories.commits

    def _wrote_beside(self, name: Name) -> None:
        """Record the commits at which a batch leaves what is beside a table."""
        kinds = [_MARKERS] if self.rules.has_hard_deletes(name) else []
        kinds += [_HISTORY] if self.rules.has_history(name) else []
        for kind in kinds:
            # A fault is found before the next merge.
            with suppress(TableError, *FAILURES):
                if (kind, *name) in self._beside:
                    self._check_beside(kind, name)
                elif (found := self._commits(kind).since(name, None)) is not None:
                    self._beside[kind, *name] = found.commit

    def wrote(self, names: Iterable[Name], waiting: Collection[Name]) -> None:
        """Record the commits at which a batch leaves tables; waiting tables keep their earlier commits."""
        own = self._filled | self._left.keys()
        filled = set(names) & own
        if filled != set(names) and len(self.warehouse.notes.names(SINKS)) < 2:
            # There is no other sink, so this sink has filled these tables before.
            filled = set(names)
        for name in sorted(filled - set(waiting)):
            try:
                found = self._standing(name)
            except (TableError, *FAILURES) as fault:
                if is_shared(fault):
                    raise
                # The fault is found before the next merge.
                continue
            if found is None:
                self._left.pop(name, None)
            else:
                self._left.setdefault(name, found.commit)
                self._reloaded.pop(name, None)
            self._wrote_beside(name)

    def _standing(self, name: Name) -> Standing | None:
        """Note foreign changes of a table's rows, and return its present state. Raise TableReplaced."""
        left = self._left.get(name)
        found = self.warehouse.commits.since(name, left)
        if found is None:
            if left is not None:
                raise replaced(name, f"it is gone, and the ledger has its version {left.version}")
        elif (since := self._reloaded.get(name)) is not None:
            cut = self.warehouse.tables.cut(*name)
            if cut is None or cut[0] != since:
                raise replaced(name, "its last reload is not in it: an older copy")
        if found is None:
            return None
        if found.foreign:
            note_foreign(self.warehouse.notes, name, found.foreign)
            last = found.foreign[-1]
            what = described(last.operation, last.version)
            _log.warning("%s table=%s.%s; %s", what, *name, advice(name))
        if left is not None and not changed(found):
            self._left[name] = found.commit
        return found


def ledger_lost(name: Name) -> LedgerLost:
    """The error for a table while the ledger is gone."""
    own = argument(name)
    return LedgerLost(
        ".".join(name),
        advice=f"Load it (docs/sink/bulk-load.md); or run: python -m spark_sink reload {own} --from-beginning "
        "--topic TOPIC, if Kafka has its own topic from the beginning",
    )


def _history_replaced(name: Name, fault: TableReplaced) -> HistoryReplaced:
    own = argument(name)
    return HistoryReplaced(
        f"the history of {fault.where}",
        advice=f"Run: python -m spark_sink reload {own} --from-beginning, which adds what Kafka has to it; or "
        f"reload {own}, which continues with the history as it is, also if you put it back",
    )


def changed(found: Standing) -> str:
    """How the columns of a table differ from those that the sink made; empty if they do not."""
    if found.obstacle:
        return found.obstacle
    if found.made is None or found.is_altering:
        # A change that an interrupted batch began is finished when that batch is applied again.
        return ""
    gone = [*(name for name in found.made if name not in found.columns)]
    if gone:
        return f"it has no column {gone[0]} any more"
    if lost := [name for name in found.lost if name in found.made]:
        return f"its column {lost[0]} was removed, and another one added"
    for name, kind in found.made.items():
        if found.columns[name] != kind:
            return f"its column {name} is {found.columns[name]}, and was {kind}"
    return ""


def refuse_changed(name: Name, found: Standing) -> None:
    """Raise ColumnsChanged if another program changed what the sink made."""
    if reason := changed(found):
        raise ColumnsChanged(f"{'.'.join(name)}: {reason}", advice=again(name))


def refuse_taken(name: Name, found: Standing, wanted: Iterable[str]) -> None:
    """Raise ColumnsChanged if another program has added a column that the source has now, too."""
    if found.made is None or found.is_altering:
        return
    made = {one.lower() for one in found.made}
    foreign = {one.lower(): one for one in found.columns if one.lower() not in made}
    for column in wanted:
        if column.lower() in foreign:
            raise ColumnsChanged(
                f"{'.'.join(name)}: the source has a column {column} now, and another program has added one of "
                "that name",
                advice=again(name),
            )
