"""The commit participants that request existing rows: of renamed, entered, unlogged and signalled tables.

Invariant: what a piece's statements mean is judged as of that piece. The reader's thread may be further in the
schema history, and the worker may have yet to follow the journal up to the requests of earlier pieces.
"""

from __future__ import annotations

import logging
import shlex
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.worker.pipeline.piece import Piece, SignalRow, TableChanges, UnloggedChange
from connectors.mysql.ddl.definition import TableChange, TableName
from connectors.mysql.ddl.online import ShadowRules
from tables.history.record import SchemaRecord
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.snapshots.request import (
    SnapshotAction,
    SnapshotRequest,
    after_request,
    latest,
    note_of,
    pending,
    unapplied_starts,
)
from tables.state.snapshots.signal_row import (
    Signal,
    SignalRefused,
    left_out,
    requests_of,
    signal_in,
    without_table,
)
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot, unreadable
from tables.state.snapshots.snapshot_progress import note_of as note_of_table


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTables:
    """The tables of a destination."""

    destination: str
    captured: Callable[[int | None], Iterable[TableName]]
    """Returns the captured tables that exist after the schema history's record with this number."""
    snapshots: Mapping[TableName, TableSnapshot]
    """The states of their snapshots, updated as they change."""
    requests: Callable[[], Iterable[SnapshotRequest]] = tuple
    """The last request on each table, as far as this worker has followed the journal."""
    _made: dict[TableName, SnapshotRequest] = field(default_factory=dict)
    """The last request of this run on each table, with the least offset that its record can have."""

    def existing(
        self, piece: Piece, cursor: Cursor, *, statements: int | None = None
    ) -> set[TableName]:
        """The captured tables that exist after a piece, or after this many of its statements.

        ``cursor`` is the one before the piece.
        """
        history = piece.tables.history[:statements]
        return set(self.captured(TableChanges(history=history).last_record(cursor.history)))

    def states(self) -> Mapping[TableName, TableSnapshot]:
        """The states of the snapshots once all requests are applied."""
        found = dict(self.snapshots)
        for one in self.unapplied():
            if one.action is SnapshotAction.STOP and one.name not in found:
                # It is in place of a start that was not applied: none of the table's existing rows was read.
                continue
            found[one.name] = after_request(one, found.get(one.name), now_ms=one.ts_ms)
        return found

    def unapplied(self) -> list[SnapshotRequest]:
        """The last request on each table, unless it was applied."""
        return pending(latest(self.requests(), self._made.values()), self.snapshots)

    def records(self, requests: Sequence[SnapshotRequest]) -> list[Entry]:
        """The journal's records of new requests."""
        last = {one.name: one for one in latest(self.requests(), self._made.values())}
        for one in requests:
            known = last.get(one.name)
            self._made[one.name] = replace(one, offset=known.offset + 1 if known else 0)
        return [note_of(one) for one in requests]


def start_command(destination: str, name: TableName, *, replaces: bool) -> str:
    """The command that publishes a table's existing rows; ``replaces``: in place of those of subscribers."""
    option = " --replace" if replaces else ""
    return f"python -m app snapshot start {destination} {shlex.quote('.'.join(name))}{option}"


def is_renaming(record: SchemaRecord) -> bool:
    """Whether a statement renames tables."""
    return any(isinstance(one, TableChange) and one.renamed_to for one in record.changes)


def name_after(name: TableName, records: Iterable[SchemaRecord]) -> TableName | None:
    """The name that a table has after statements; None if it is dropped."""
    for record in records:
        for change in record.changes:
            if isinstance(change, TableChange) and change.name == name and change.new is None:
                if change.renamed_to is None:
                    return None
                name = change.renamed_to
    return name


def first_names(record: SchemaRecord) -> dict[TableName, TableName]:
    """The name of each renamed table before a statement, by its name after it."""
    first: dict[TableName, TableName] = {}
    for change in record.changes:
        if isinstance(change, TableChange) and change.renamed_to is not None:
            first[change.renamed_to] = first.pop(change.name, change.name)
    return first


# Tables that are renamed while their existing rows are read, which are then read under their new
# names.
#
# A table whose reading is paused is read too: under its old name, there is nothing left to
# resume. So is a table that takes the name of one that is not read to its end: no change contains
# its rows up to the last key read.
#
# Invariant: the request is in the Kafka transaction of the statement, so it is made once. The new
# reading begins with the first row: rows that were published under the old name are published
# again.


class RenamedTables:
    """The renamed tables of one run of a destination."""

    def __init__(self, tables: ReadTables, *, can_replace: Callable[[TableName], bool]) -> None:
        """``can_replace``: whether a table's subscribers can be sent a record that all its rows are gone."""
        self._tables = tables
        self._can_replace = can_replace

    def before(self, piece: Piece, cursor: Cursor, /) -> Iterable[Entry]:
        """The requests that a piece's statements make."""
        history = piece.tables.history
        if not any(map(is_renaming, history)):
            return ()
        states = self._tables.states()
        wanted = {
            name_after(name, history[number:]): (read, record.type)
            for number, record in enumerate(history, 1)
            for name, read in _moved(record, states)
        }
        existing = self._tables.existing(piece, cursor) if wanted else set()
        return self._tables.records(
            [
                self._request(name, read, by)
                for name, (read, by) in wanted.items()
                if name is not None and name in existing
            ]
        )

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Do nothing: each worker follows the journal."""

    def _request(self, name: TableName, read: TableSnapshot, by: str) -> SnapshotRequest:
        # Rows of the whole table that should not be in the topic are not removed by reading its rows alone.
        is_unfit = read.replaces or read.replacing or (read.unlogged and read.where is None)
        return SnapshotRequest(
            destination=self._tables.destination,
            database=name[0],
            table=name[1],
            id=uuid.uuid4().hex[:12],
            action=SnapshotAction.START,
            where=read.where,
            replaces=bool(is_unfit) and self._can_replace(name),
            removes=read.removes,
            by=by,
            ts_ms=time.time_ns() // 1_000_000,
        )


def _moved(
    record: SchemaRecord, states: Mapping[TableName, TableSnapshot]
) -> Iterator[tuple[TableName, TableSnapshot]]:
    """The new and old names of renamed tables not read to the end; another may have an old name now."""
    for change in record.changes:
        if not isinstance(change, TableChange) or change.renamed_to is None:
            continue
        read = states.get(change.name)
        if read is not None and read.is_open:
            yield change.renamed_to, read
            yield change.name, read
            continue
        # The table takes the name of a dropped table, of which rows up to some key are published.
        replaced = states.get(change.renamed_to)
        if replaced is not None and replaced.is_open:
            yield change.renamed_to, replaced


# Rows of the signal table, which become requests for snapshots.
#
# Invariant: a request is in the Kafka transaction of its row, so each row makes its requests
# once. A row concerns the tables as they are named at its position; one that is renamed right
# after is read as any that is renamed while it is read. What a row names without a request is
# logged once.

log = logging.getLogger(__name__)

_NAMED = 10
"""The most tables that a line of the log names."""


class SignalRows:
    """The signal rows of one run of a destination."""

    def __init__(self, tables: ReadTables) -> None:
        self._tables = tables
        self._said: list[str] = []
        """What is logged once the piece is committed."""

    def before(self, piece: Piece, cursor: Cursor, /) -> Iterable[Entry]:
        """The requests that a piece's rows make."""
        self._said = []
        return [note for row in piece.signals for note in self._notes(row, piece, cursor)]

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Log what was not requested; each worker follows the journal for the requests."""
        for said in self._said:
            log.warning("%s: %s", self._tables.destination, said)
        self._said = []

    def _notes(self, row: SignalRow, piece: Piece, cursor: Cursor) -> list[Entry]:
        # No log line contains a row's values, not even its id; who made a request is logged, too.
        which = f"a signal after {cursor.offset.coordinates}"
        tables = self._tables
        try:
            signal = signal_in(row.row)
        except SignalRefused as error:
            self._said.append(f"{which} is passed by, as {error}")
            return []
        if signal is None:
            return []
        existing = tables.existing(piece, cursor, statements=row.statements)
        started = unapplied_starts(tables.unapplied(), tables.snapshots)
        requests = list(
            requests_of(
                signal,
                tables.destination,
                captured=lambda: existing,
                snapshots=tables.snapshots,
                started=started,
                name=uuid.uuid4().hex[:12],
                by=which,
                now_ms=time.time_ns() // 1_000_000,
            )
        )
        which = f"{which} ({signal.action.value})"
        others = left_out(signal, snapshots=tables.snapshots, started=started)
        concerned = {one.name for one in requests}.union(*others.values())
        self._said += [f"{which}{said}" for said in _unmatched(signal, concerned)]
        self._said += [
            f"{which} leaves out {_listed(names)}: {why}" for why, names in others.items()
        ]
        return tables.records(requests)


def _unmatched(signal: Signal, concerned: set[TableName]) -> Iterator[str]:
    """What is to be said of the expressions of a signal that concern no table; they are values of the row."""
    if not concerned:
        yield " concerns no table"
    elif numbers := without_table(signal, concerned):
        *first, last = map(str, numbers)
        which = f"s {', '.join(first)} and {last} concern" if first else f" {last} concerns"
        yield f": of the expressions in its data, number{which} no table"


def _listed(names: Sequence[TableName]) -> str:
    shown = ", ".join(".".join(one) for one in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


# Tables that a RENAME brings in from a name that is not captured, so that their existing rows are
# in no topic.
#
# Invariant: the record is in the Kafka transaction of the statement, so no table lacks it if a
# worker dies. A destination that began with existing rows reads the table's rows; any other one
# shows the table as failed until an operator starts its snapshot.


@dataclass(slots=True, kw_only=True)
class EnteredTables:
    """The entered tables of one run of a destination."""

    tables: ReadTables
    captures: Callable[[TableName], bool]
    shadows: ShadowRules
    is_mapped: Callable[[TableName], bool]
    """Whether subscribers know a table by a logical name, in which its rows have the real table's name."""
    can_replace: Callable[[TableName], bool]
    """Whether a table's subscribers can be sent a record that all its rows are gone."""
    is_read: bool
    """Whether existing rows are read without a request."""
    show: Callable[[TableSnapshot], None]
    """Shows the state of a table that is not read."""
    _changed: list[TableSnapshot] = field(default_factory=list)

    def before(self, piece: Piece, cursor: Cursor, /) -> Iterable[Entry]:
        """The requests for the tables that a piece's statements bring in, or the states of these tables."""
        self._changed = []
        history = piece.tables.history
        if not any(map(is_renaming, history)):
            return ()
        found = {
            name_after(name, history[number:]): origin
            for number, record in enumerate(history, 1)
            for name, origin in self._entered(record)
        }
        existing = self.tables.existing(piece, cursor) if found else set()
        entered = {
            name: origin for name, origin in found.items() if name is not None and name in existing
        }
        read = {one for one, origin in entered.items() if self.is_read or self._lost(one, origin)}
        self._changed = [
            self._unread(name, origin) for name, origin in entered.items() if name not in read
        ]
        requests = [self._request(name) for name in entered if name in read]
        return [*self.tables.records(requests), *map(note_of_table, self._changed)]

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Show the tables whose existing rows cannot be read."""
        for one in self._changed:
            self.show(one)
        self._changed = []

    def _entered(self, record: SchemaRecord) -> Iterator[tuple[TableName, TableName]]:
        """The new names of tables whose existing rows are in no topic, each with its old name."""
        first = first_names(record)
        if not first:
            return
        moved = [one.name for one in record.changes if isinstance(one, TableChange)]
        known = {*self.tables.captured(record.number), *moved}
        for name, origin in first.items():
            if name == origin or not self.captures(name):
                continue
            is_copy = self.shadows.could_shadow(origin, name) is not None
            is_shadow = self.shadows.shadow(name, known) is not None
            is_captured = self.captures(origin) and self.shadows.shadow(origin, known) is None
            if not (is_copy or is_shadow or (is_captured and not self._lost(name, origin))):
                yield name, origin

    def _lost(self, name: TableName, origin: TableName) -> bool:
        """Whether subscribers had a table's rows under its old name, and have them no more.

        Rows of mapped tables have the real table's name, so a RENAME removes them as a DROP does.
        """
        return self.captures(origin) and (self.is_mapped(name) or self.is_mapped(origin))

    def _request(self, name: TableName) -> SnapshotRequest:
        now_ms = time.time_ns() // 1_000_000
        return SnapshotRequest(
            destination=self.tables.destination,
            database=name[0],
            table=name[1],
            id=uuid.uuid4().hex[:12],
            action=SnapshotAction.START,
            # Subscribers may have the rows of an earlier table of that name.
            replaces=self.can_replace(name),
            by="RENAME TABLE",
            ts_ms=now_ms,
        )

    def _unread(self, name: TableName, origin: TableName) -> TableSnapshot:
        known = self.tables.snapshots.get(name)
        command = start_command(self.tables.destination, name, replaces=self.can_replace(name))
        return unreadable(
            self.tables.destination,
            name,
            f"renamed from {'.'.join(origin)}, which is not captured, so its existing rows are in no topic. "
            f"Run: {command}",
            request=known.request if known is not None else "",
        )


# Tables whose rows a statement changed without row events, such as EXCHANGE PARTITION.
#
# These changes are not published: the topics have rows that the source no longer has, and lack
# other rows. If existing rows of a table are being read, they are read to the end, but rows read
# before the statement stay as they were.
#
# Invariant: the record is in the Kafka transaction of the statement, so no table lacks it if a
# worker dies. The record names the table until an operator has its rows published again.


@dataclass(slots=True, kw_only=True)
class UnloggedRows:
    """The unlogged changes of tables in one run of a destination."""

    tables: ReadTables
    can_replace: Callable[[TableName], bool]
    """Whether a table's subscribers can be sent a record that all its rows are gone."""
    is_read: Callable[[TableName], bool]
    """Whether rows of a table are being read now."""
    show: Callable[[TableSnapshot], None]
    """Shows the state of a table that is not read."""
    _failed: list[TableSnapshot] = field(default_factory=list)

    def before(self, piece: Piece, cursor: Cursor, /) -> Iterable[Entry]:
        """The marks or the states of the tables that a piece's statements concern, by their names after it."""
        self._failed = []
        if not piece.tables.unlogged:
            return ()
        existing, states = self.tables.existing(piece, cursor), self.tables.states()
        found = {_name_after(one, piece.tables.history): one for one in piece.tables.unlogged}
        requests = []
        for name, one in found.items():
            if name is None or name not in existing:
                continue
            before, why = states.get(name), self._why(name, one)
            if before is None:
                self._failed.append(unreadable(self.tables.destination, name, why))
            elif self._has_published(before):
                log.error("%s: %s: %s", self.tables.destination, ".".join(name), why)
                requests.append(self._again(name) or self._mark(name, one, why))
        return [*map(note_of_table, self._failed), *self.tables.records(requests)]

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Show the tables that have no snapshot; the marks of other tables come with the journal."""
        for one in self._failed:
            self.show(one)
        self._failed = []

    def _has_published(self, before: TableSnapshot) -> bool:
        """Whether rows from before the statement may be in the topic, or come into it."""
        is_first = before.replaces or not before.request
        is_unread = before.state is SnapshotState.WAITING and not self.is_read(before.name)
        return not (is_unread and is_first and not before.chunks)

    def _again(self, name: TableName) -> SnapshotRequest | None:
        """The request to read a table, if that is yet to be applied: a mark would take its place.

        It is made again, so that it replaces the rows that subscribers have, if it is for all rows.
        """
        for one in self.tables.unapplied():
            if one.name == name and one.action is SnapshotAction.START:
                replaces = one.replaces or (one.where is None and self.can_replace(name))
                return replace(one, id=uuid.uuid4().hex[:12], replaces=replaces)
        return None

    def _why(self, name: TableName, one: UnloggedChange) -> str:
        gtid = f"GTID {one.gtid}, " if one.gtid else ""
        command = start_command(self.tables.destination, name, replaces=self.can_replace(name))
        return (
            f"{one.what} ({gtid}before {one.coordinates}) changed rows of which the binlog has no row events: "
            f"its topic may lack rows, and have rows that are gone. Run: {command}"
        )

    def _mark(self, name: TableName, one: UnloggedChange, why: str) -> SnapshotRequest:
        return SnapshotRequest(
            destination=self.tables.destination,
            database=name[0],
            table=name[1],
            id=uuid.uuid4().hex[:12],
            action=SnapshotAction.MARK,
            by=one.what,
            ts_ms=time.time_ns() // 1_000_000,
            why=why,
        )


def _name_after(one: UnloggedChange, history: Iterable[SchemaRecord]) -> TableName | None:
    """The name that the table has after the piece; None if it is dropped by then."""
    end = one.coordinates.order
    return name_after(one.name, (each for each in history if each.position.end.order >= end))
