"""DDL beside the rows: new statements are read before a batch, decided on, stored and carried out.

Invariant: a row is merged only once each statement before it is known, so it always reaches the table under the
present name of its incarnation. Statements are stored before any table is changed. Without new DDL a batch
costs two requests to Kafka; if no row from before a known statement can come any more, it costs nothing else.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from operator import itemgetter
from typing import Final

from pyspark.sql import DataFrame

from spark_sink.batch.drops_and_renames.decision import Earlier, decided, is_left_by_drop
from spark_sink.batch.drops_and_renames.moving import Moving
from spark_sink.batch.drops_and_renames.statement import DdlTopics, Statement, parse_statement
from spark_sink.errors import ReloadRefused, TableError, TableReplaced, ValuesChanged
from spark_sink.metrics import Metrics
from spark_sink.settings.model import OnDrop, OnRename
from spark_sink.source.positions import Offsets
from spark_sink.source.schemas import SchemaBook
from spark_sink.spark.error_mapping import place
from spark_sink.text.quoting import OR_DISCARD, SETTLED, action, argument, of_sink
from spark_sink.warehouse.ledger import Floor
from spark_sink.warehouse.moves import (
    BEGINNING,
    Event,
    History,
    Name,
    Piece,
    Place,
    belongs,
    of_open,
    pieces,
    pieces_of,
    present,
    routed_sql,
    superseded,
    superseded_alters,
)
from spark_sink.warehouse.notes import json_of
from spark_sink.warehouse.protocol import Warehouse
from spark_sink.warehouse.spark_failures import twice
from spark_sink.warehouse.waiting_tables import RELOADING, Waits
from wire.table_version import VersionKey

_log = logging.getLogger(__name__)
_MANY: Final = 200
"""Statements."""
_BEGUN: Final = ("", 0)
"""Stored in place of a partition: the topics are followed, though none exists yet."""


@dataclass(slots=True, kw_only=True)
class Ddl:
    """Follows the DDL topics; all calls are made while the batches' gate is held, or before the first batch."""

    topics: DdlTopics
    warehouse: Warehouse[DataFrame]
    waits: Waits
    on_drop: OnDrop
    on_rename: OnRename
    metrics: Metrics | None = None
    sources: Callable[[Name], Collection[str]] = lambda _: ()
    """Returns the destinations that publish a table."""
    earlier: Earlier = lambda *_: {}
    keep_seconds: float = 3600.0
    """Seconds for which readers' cuts of the past may still go back to before a statement."""
    clock: Callable[[], float] = time.monotonic
    is_lost: bool = False
    """Whether the log is gone, though there are tables."""
    _passed: tuple[float, Mapping[str, Place]] | None = None
    """The time at which settled positions were first known, and these positions by destination."""
    _fold_from: int = _MANY
    """The number of statements from which on superseded statements are removed."""
    _history: History | None = None
    _until: dict[tuple[str, int], int] = field(default_factory=dict)
    _open: dict[tuple[str, Place], Offsets] = field(default_factory=dict)
    """Events before which rows may still come, with the offsets up to which these rows are."""
    _altered: dict[tuple[str, Place], Event] | None = None
    """Statements that altered tables, for which no batch has brought the tables to the new versions yet. None
    until it is known which of them an earlier process has left."""
    _is_resumed: bool = False
    _is_reopened: bool = False
    _routes: dict[tuple[str, Name], list[Piece]] | None = None

    @property
    def history(self) -> History:
        """All known events."""
        if self._history is None:
            self._history = self.warehouse.log.ddl()
            self._until = self.warehouse.log.ddl_read()
        return self._history

    def follow(
        self,
        applied: Offsets,
        start: Offsets,
        *,
        put_back: Callable[[Name], object] = lambda _: None,
        done: Mapping[str, Place] | None = None,
    ) -> frozenset[Name]:
        """Read new statements and carry them out; return the tables that have changed or must wait.

        `applied` are the offsets up to which the row topics are applied; `start` are the offsets at which the
        batch begins, which may have been applied before. `put_back` is called with each table that rows may
        move from or to, before they move. `done` is the position up to which, by the ledger, each destination's
        DDL is carried out.
        """
        changed = self.resume()
        if self._altered is None:
            self._altered = {}
            self._take_altered(self.history.since(done or {}))
        self._reopen(applied, start)
        earliest, end = self.topics.settled()
        if not self._until and not self.history.done:
            self._begin(applied, end)
        # If a topic ends before what was read, it was recreated.
        since = {
            at: first if self._until.get(at, 0) > end[at] else max(first, self._until.get(at, 0))
            for at, first in earliest.items()
        }
        if any(until > since[at] for at, until in end.items()):
            self._warn_of_lost(earliest)
            records = self.topics.read(since, end)
            parsed = [parse_statement(text, place(*at)) for *at, text in records]  # type: ignore[arg-type]
            self._decide(parsed, end)
        if self.is_lost:
            self._hold_moved()
        self._settle(start)
        if self.metrics is not None:
            gaps = self.history.gaps() and self.history.gaps(self.warehouse.log.floors())
            self.metrics.gaps(len(gaps))
        changed |= self._carry_out(put_back)
        self._fold()
        return changed

    def _take_altered(self, events: Iterable[Event]) -> None:
        assert self._altered is not None
        self._altered |= {(one.destination, one.place): one for one in events if one.altered}

    def altered(self) -> list[Event]:
        """Return the statements that altered tables and were not passed to `brought`, by position."""
        return [event for _, event in sorted((self._altered or {}).items(), key=itemgetter(0))]

    def versions(
        self, events: Collection[Event], book: SchemaBook
    ) -> Iterator[tuple[Name | None, VersionKey, Place]]:
        """Yield the versions that statements have given tables, each with the name that its rows have now.

        The name is None if the schemas topic lacks the version. Versions of tables that are gone are omitted.
        """
        found = [
            (VersionKey(event.destination, *own, number), event)
            for event in events
            for own, number in event.altered
        ]
        book.fetch(key for key, _ in found)
        moved = pieces(self.history.events.values()) if found else {}
        for key, event in found:
            own, logical = (key.database, key.table), book.logical(key)
            name = present(moved, event, own) if logical == own else logical
            if name is not None or logical is None:
                yield name, key, event.place

    def brought(self, events: Iterable[Event]) -> None:
        """Forget statements once, by the ledger too, their tables are at the new versions or wait."""
        for event in events:
            (self._altered or {}).pop((event.destination, event.place), None)

    def begin_again(self, topics: Collection[str]) -> None:
        """Read recreated DDL topics from their beginning; statements that are known already change nothing."""
        _log.error("DDL topics were deleted and made again topics=%s", ", ".join(sorted(topics)))
        self.warehouse.log.void(topics)
        self._history = None

    def routed(self, batch: DataFrame, *, tables: Collection[Name] | None = None) -> DataFrame:
        """Return the envelopes with the tables to which their rows belong, without rows that are gone.

        `tables` are the only tables of interest; their rows may then be older than what is applied.
        """
        if tables is None:
            return routed(batch, self._pieces())
        return routed(batch, pieces_of(pieces(list(self.history.events.values())), tables))

    def floors(self, floors: Iterable[Floor]) -> list[Floor]:
        """Return the truncates that concern tables under their present names."""
        return self.history.floors(floors)

    def carried(self, floor: Floor) -> bool:
        """Store a truncate if it is from before its table got its present name; return whether it is."""
        if floor.is_mapped:
            return False
        name = floor.database, floor.table
        event = self.history.begun(floor.source.destination, name)
        if event is None or floor.place >= event.place:
            return False
        event = replace(event, carried={name: floor.place})
        self.warehouse.log.add_ddl([event], {})
        self.history.add([event])
        return True

    def is_unsettled(self, destination: str, name: Name, place: Place) -> bool:
        """Whether rows from before a table's rename may still come that precede a change at a position.

        `name` is the table's name at that position. Rows of another table that had this name earlier, and was
        dropped or renamed again, do not count. Nor do rows from before a later rename: the topic of `name` has
        them in order.
        """
        if not self._open:
            return False
        events = self.history.events.values()
        before = [one for one in events if one.destination == destination and one.place <= place]
        return any(
            target == name and old != name and (destination, below) in self._open
            for (_, old), own in pieces(before).items()
            for below, target in own
        )

    def is_emptied(self, name: Name) -> bool:
        """Whether a table of that name was dropped or renamed, so that a new table may have another key."""
        return self.history.is_moved(name)

    def concerns(self, name: Name) -> bool:
        """Whether a table of that name was dropped or renamed, or another table was renamed to it."""
        return any(name in event.names for event in self.history.events.values())

    def absent(self) -> set[Name]:
        """Return the tables that may be gone at the source: they have only rows that a DROP left.

        A table that a source has dropped and created again is not among them, nor is a renamed table.
        """
        left: dict[Name, bool] = {}
        for (_, name, _), note in self.history.last_notes().items():
            left[name] = left.get(name, True) and is_left_by_drop(note.text)
        return {name for name, is_left in left.items() if is_left}

    def advised(self, name: Name, fault: TableError) -> TableError:
        """Return a table's error, with advice that ends its wait if no source has the table any more."""
        if OR_DISCARD in fault.advice or name not in self.absent():
            return fault
        own, advice = argument(name), fault.advice or action(name)
        if isinstance(fault, ValuesChanged):
            advice = (
                "No source has the table any more. To keep its rows, with NULL in place of these values, run: "
                f"python -m spark_sink reload {own} --unknown-as-null"
            )
        if self._is_left(name):
            advice = f"{advice}{OR_DISCARD}python -m spark_sink reload {own} --discard"
        return type(fault)(fault.where, advice=advice)

    def give_up(self, name: Name) -> None:
        """Remove the rows that a DROP has left under a name, and rows that come later; safe to repeat.

        Raise ReloadRefused unless a DROP has moved rows to this name.
        """
        events = [one for one in self.history.events.values() if name in one.moves.values()]
        if not any(name in one.given_up for one in self.history.events.values()):
            if not self._is_left(name):
                raise ReloadRefused(
                    f"{'.'.join(name)} has other rows than those that a DROP TABLE left, which have a name of "
                    "their own",
                    advice="Reload it without --discard",
                )
            self.warehouse.tables.drop(*name)
        # The table is dropped first: once this is stored, the name no longer counts as having rows.
        given_up = [replace(one, given_up=(name,)) for one in events]
        self.warehouse.log.add_ddl(given_up, {})
        self.history.add(given_up)
        self._routes = None

    def _is_left(self, name: Name) -> bool:
        """Whether a table has only rows that a DROP has moved to a name of their own."""
        is_moved = any(name in one.moves.values() for one in self.history.events.values())
        return is_moved and name in self.absent()

    def resume(self) -> frozenset[Name]:
        """Finish, once, what an earlier run was interrupted in; return the tables that changed or must wait."""
        if self._is_resumed:
            return frozenset()
        outcome = self._moving(History()).finish()
        self._history, self._is_resumed = None, True
        return outcome.changed | outcome.faults

    def _reopen(self, applied: Offsets, start: Offsets) -> None:
        """Expect, once, rows from before events that an earlier process had not settled.

        Until a batch begins, rows from before all events are expected.
        """
        events = [one for one in self.history.events.values() if one.moves]
        if self._is_reopened or not events or (self._open and not start):
            return
        self._is_reopened = bool(start)
        ends = self.topics.written()
        is_continued = all(
            at in applied and start.get(at, 0) >= applied[at] for at, end in ends.items() if end
        )
        settled = self._stored(start) if is_continued else {}
        self._open = {
            (one.destination, one.place): self._open.get((one.destination, one.place), ends)
            for one in events
            if one.place > settled.get(one.destination, BEGINNING)
        }

    @property
    def _note(self) -> str:
        """The name of this sink's own note: what is settled depends on the topics that the sink reads."""
        return of_sink(SETTLED, self.waits.sink or "")

    def _stored(self, start: Offsets) -> Mapping[str, Place]:
        """Each destination's last event that is settled with all before it, as stored by an earlier process.

        Empty if that process had read further than `start`: Kafka or the ledger was restored or replaced.
        """
        try:
            body = json_of(self.warehouse.notes, self._note, {})
            is_older = sum(start.values()) < body.get("offsets", 0)
            return {} if is_older else {one: (at[0], at[1]) for one, *at in body.get("settled", ())}
        except (TypeError, IndexError):
            # A process that was killed has left the note incomplete.
            return {}

    def _begin(self, applied: Offsets, end: Offsets) -> None:
        """Record that DDL is followed from now on, also if there is no topic of it yet."""
        if applied and end:
            # The warehouse is from before the sink followed DDL: its tables stay as they are.
            _log.info("DDL is followed from now on; what came before is not carried out")
        self._record([], {_BEGUN: 0, **(end if applied else {})})

    def _hold_moved(self) -> None:
        """Make the tables that statements moved wait: the log that records which are carried out is gone.

        A statement that is carried out a second time could move the rows of another table.
        """
        moves = [event for event in self.history.ordered() if event.names]
        moved = pieces(moves)
        now = {belongs(own, BEGINNING) for own in moved.values()}
        there = {*self.warehouse.tables.names(), *now}
        self.warehouse.log.done({event.destination: event.place for event in moves})
        self.history.done.update({event.destination: event.place for event in moves})
        for name in sorted({one for event in moves for one in event.names if one in there}):
            if not self.waits.waiting(name):
                where = f"{'.'.join(name)}: the sink's log is gone, and with it which DROP and RENAME are done"
                again = f"Run: python -m spark_sink reload {argument(name)} --from-beginning"
                self._wait(name, TableReplaced(where, advice=again))
        self.is_lost = False

    def _warn_of_lost(self, earliest: Offsets) -> None:
        for at, first in sorted(earliest.items()):
            if first > self._until.get(at, 0):
                _log.warning(
                    "Kafka removed DDL that was not read, so tables may have kept their names or rows "
                    "topic=%s offsets=%d-%d",
                    at[0],
                    self._until.get(at, 0),
                    first,
                )

    def _decide(self, statements: Iterable[Statement], end: Offsets) -> None:
        events: list[Event] = []
        is_mapped = cache(self._is_apart)
        for statement in statements:
            event = decided(
                statement,
                on_drop=self.on_drop,
                on_rename=self.on_rename,
                is_mapped=is_mapped,
                floor=self._floor_of(events),
                is_noted=self._with(events).notes().__contains__,
                earlier=self.earlier,
                left=partial(self._left_by, self._with(events)),
            )
            if event is not None:
                events.append(event)
            self._warn(statement, event)
        self._record(events, end)

    def _left_by(self, history: History, destination: str, name: Name) -> set[Name]:
        """The tables that have rows of a source table that is gone, by the last notes on it."""
        notes = history.last_notes(self.warehouse.log.floors())
        return {
            note.name
            for (of, _, source), note in notes.items()
            if (of, source) == (destination, name) and note.is_gone
        }

    def _is_apart(self, name: Name) -> bool:
        """Whether several source tables fill a table; false if it cannot be read, since it waits then."""
        try:
            shape = twice(partial(self.warehouse.tables.shape, *name), name, self.warehouse)
        except TableError:
            return False
        return shape is not None and shape.apart

    def _warn(self, statement: Statement, event: Event | None) -> None:
        if statement.is_unknown:
            _log.warning(
                "a DROP or RENAME is not followed, as its record does not state its effect (no schema history) "
                "destination=%s epoch=%d seq=%d",
                statement.destination,
                statement.epoch,
                statement.seq,
            )
        for note in event.notes if event is not None else ():
            if note.text:
                _log.warning("table %s table=%s.%s", note.text, *note.name)

    def _floor_of(self, more: Collection[Event]) -> Callable[[str, Name], Place | None]:
        def floor(destination: str, name: Name) -> Place | None:
            held = self._with(more).floors(self.warehouse.log.floors())
            own = [
                one.place
                for one in held
                if not one.is_mapped
                and (one.database, one.table) == name
                and one.source.destination == destination
            ]
            return max(own, default=None)

        return floor

    def _with(self, more: Collection[Event]) -> History:
        held = self.history
        history = History(dict(held.events), dict(held.done), dict(held.alters))
        history.add(more)
        return history

    def _record(self, events: Collection[Event], end: Offsets) -> None:
        new = {at: until for at, until in end.items() if until > self._until.get(at, -1)}
        # All rows from before are written by now, though perhaps not visible yet.
        moving = [one for one in events if one.moves]
        if moving:
            ends = self.topics.written()
            self._open |= {(one.destination, one.place): ends for one in moving}
        self.warehouse.log.add_ddl(events, new)
        self._until |= new
        self.history.add(events)
        self._take_altered(events)
        self._routes = None

    def _settle(self, start: Offsets) -> None:
        """Forget events if no row from before them can come any more, in batches from `start` on."""
        over = [
            at
            for at, ends in self._open.items()
            if all(start.get(one, 0) >= end for one, end in ends.items())
        ]
        if not over:
            return
        for at in over:
            del self._open[at]
        self._routes = None
        body = {
            "settled": [[one, *at] for one, at in sorted(self._settled().items())],
            "offsets": sum(start.values()),
        }
        self.warehouse.notes.write(self._note, json.dumps(body))

    def _settled(self) -> dict[str, Place]:
        """Each destination's last event that is settled and carried out, with all events before it."""
        first: dict[str, Place] = {}
        for destination, opened in self._open:
            first[destination] = min(opened, first.get(destination, opened))
        return {
            event.destination: event.place
            for event in self.history.settled()
            if event.place < first.get(event.destination, (event.epoch, event.seq + 1))
        }

    def _fold(self) -> None:
        """Remove events that later events supersede, once no batch and no cut goes back to before them."""
        events = self.history.events.values()
        number = len(events) + len(self.history.alters)
        if number < self._fold_from:
            return
        if not self._is_reopened and any(one.moves for one in events):
            # It is not known yet where the batches begin.
            return
        if self._passed is None:
            self._passed = self.clock(), self._settled()
        since, settled = self._passed
        if self.clock() - since < self.keep_seconds:
            return
        self._passed = None
        if over := superseded(events, settled) + superseded_alters(self.history, self.history.done):
            self.warehouse.log.superseded(over)
            for one in over:
                self.history.events.pop((one.destination, one.place), None)
                self.history.alters.pop((one.destination, one.place), None)
            self._routes = None
            _log.info("DDL that later statements supersede is removed statements=%d", len(over))
        # The limit grows, so that this is done seldom, however many statements remain.
        self._fold_from = max(_MANY, 2 * (len(events) + len(self.history.alters)))

    def _pieces(self) -> Mapping[tuple[str, Name], list[Piece]]:
        if self._routes is None:
            # A row from before an event is moved by all later events too.
            found = pieces(self.history.events.values() if self._open else ())
            self._routes = of_open(found, lambda *at: at in self._open)
        return self._routes

    def _carry_out(self, put_back: Callable[[Name], object]) -> frozenset[Name]:
        pending = self.history.pending()
        if not pending:
            return frozenset()
        broken: dict[Name, TableError] = {}
        for name in sorted({one for event in pending for one in event.names}):
            try:
                twice(partial(put_back, name), name, self.warehouse)
            except TableError as fault:
                broken[name] = fault
        outcome = self._moving(self.history).carry_out(pending, broken=broken)
        for name in outcome.changed:
            held = self.waits.waiting(name)
            if held is not None and held.kind == RELOADING:
                # The rebuild began with the rows from before the move.
                self.waits.interrupt(held)
        for event in pending:
            at = event.destination
            self.history.done[at] = max(event.place, self.history.done.get(at, event.place))
        return outcome.changed | outcome.faults

    def _moving(self, history: History) -> Moving:
        return Moving(
            warehouse=self.warehouse,
            wait=self._wait,
            waiting=self.waits.waiting,
            end_wait=self.waits.pass_on,
            sources=self.sources,
            history=history,
        )

    def _wait(self, name: Name, fault: TableError) -> None:
        held, fault = self.waits.waiting(name), self.advised(name, fault)
        self.waits.begin(name, fault, held.offsets if held is not None else {})
        _log.error("table waits table=%s.%s: %s", *name, fault)


def routed(batch: DataFrame, found: Mapping[tuple[str, Name], list[Piece]]) -> DataFrame:
    """Return envelopes with the tables to which their rows belong, without rows that are gone."""
    if not found:
        return batch
    to, gone = routed_sql(found)
    names = [f"`{name}`" for name in batch.columns if name not in {"database", "table"}]
    moved = batch.where(f"NOT {gone}").selectExpr("*", f"{to} AS __aqueduct_to")
    return moved.selectExpr(*names, "__aqueduct_to.d AS database", "__aqueduct_to.t AS `table`")
