"""Operators' requests on the snapshot of a table, and the snapshot's state after each request.

Invariant: the last request on a table counts. It is applied once: the table's state, which is written in the
same Kafka transactions as rows, has the id of the request that was applied last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Any

from connectors.kafka.reading import StoredRecord
from tables.journal_format import Entry as Note
from tables.journal_format import encoded, read_as
from tables.journal_kind import FoldedOffsets, Kind, StatePart
from tables.state.snapshots.snapshot_progress import (
    Name,
    SnapshotState,
    TableSnapshot,
    without_empty,
)


class SnapshotAction(StrEnum):
    """The requested action."""

    START = "start"
    """To read the table's existing rows, from the first row on."""
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    MARK = "mark"
    """To state that a statement changed rows without row events. Operators do not request it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """A request on one table."""

    destination: str
    database: str
    table: str
    id: str
    action: SnapshotAction
    where: str | None = None
    """For a start: a condition in SQL on the rows to read."""
    replaces: bool = False
    """For a start: whether the rows that subscribers have are replaced, rather than only added to."""
    removes: tuple[str, ...] = ()
    """For a start: keys of records to delete, unless a row that ``where`` finds has the key. ``where`` finds
    any row with one of these keys."""
    by: str
    ts_ms: int
    why: str = ""
    """Of a mark: what changed rows, and what to do."""
    offset: int = -1
    """The record's offset in the journal; -1 for one that is not written yet."""

    @property
    def name(self) -> Name:
        """Database and table."""
        return self.database, self.table


@dataclass(slots=True)
class SnapshotRequests:
    """The requests on one destination's tables in the journal."""

    all: dict[Name, SnapshotRequest] = field(default_factory=dict)
    """The last request on each table."""
    _folded: FoldedOffsets = field(default_factory=FoldedOffsets, compare=False)

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in; one that was folded before changes nothing."""
        found = request_in(record)
        if self._folded.is_new(record):
            self.all[found.name] = found


def request_in(record: StoredRecord) -> SnapshotRequest:
    """The request in a record; raise JournalUnreadable."""

    def read(value: dict[str, Any]) -> SnapshotRequest:
        more = {
            "action": SnapshotAction(value["action"]),
            "removes": tuple(value.get("removes", ())),
            "offset": record.offset,
        }
        if value["by"].startswith("signal "):
            # An earlier version wrote the id of the row, which is not to be logged.
            more["by"] = "a signal"
        return SnapshotRequest(**{**value, **more})

    return read_as("a request for a snapshot", record, read)


SNAPSHOT_REQUEST_PART = StatePart(lambda _: SnapshotRequests())
SNAPSHOT_REQUEST: Kind[SnapshotRequest] = Kind(
    name="snapshot-request", part=SNAPSHOT_REQUEST_PART, notice=request_in
)


def note_of(request: SnapshotRequest) -> Note:
    """A record for the journal: ``snapshot-request/<destination>/<database>/<table>``."""
    key = SNAPSHOT_REQUEST.key(request.destination, request.database, request.table)
    value = asdict(request)
    del value["offset"]
    return key, encoded(without_empty(value))


def latest(*sources: Iterable[SnapshotRequest]) -> list[SnapshotRequest]:
    """The last request on each table among the requests of several sources."""
    found: dict[Name, SnapshotRequest] = {}
    for one in chain(*sources):
        known = found.setdefault(one.name, one)
        if one.offset > known.offset:
            found[one.name] = one
    return list(found.values())


def pending(
    requests: Iterable[SnapshotRequest], snapshots: Mapping[Name, TableSnapshot]
) -> list[SnapshotRequest]:
    """The requests that were not applied yet, in the order of their tables' names."""
    found = [one for one in requests if _is_pending(one, snapshots.get(one.name))]
    return sorted(found, key=lambda one: one.name)


def unapplied_starts(
    requests: Iterable[SnapshotRequest], snapshots: Mapping[Name, TableSnapshot]
) -> set[Name]:
    """The tables whose last request is a start that was not applied yet; any other request replaces it."""
    return {one.name for one in pending(requests, snapshots) if one.action is SnapshotAction.START}


def _is_pending(request: SnapshotRequest, snapshot: TableSnapshot | None) -> bool:
    if snapshot is None:
        # A stop may be in place of a start that is on its way into the journal; nothing else is to be done.
        return request.action in (SnapshotAction.START, SnapshotAction.STOP)
    return snapshot.request != request.id


def after_request(
    request: SnapshotRequest, snapshot: TableSnapshot | None, *, now_ms: int
) -> TableSnapshot:
    """The state of a table's snapshot after a request; only a start or a stop needs no earlier snapshot."""
    if request.action is SnapshotAction.START:
        return TableSnapshot(
            destination=request.destination,
            database=request.database,
            table=request.table,
            id=request.id,
            where=request.where,
            replaces=request.replaces,
            removes=request.removes,
            began_ms=now_ms,
            ts_ms=now_ms,
            request=request.id,
            unlogged=None if request.where is None else _failure_of_all(snapshot),
        )
    if snapshot is None:
        assert request.action is SnapshotAction.STOP
        # No start of it was applied: its state only answers the request.
        return TableSnapshot(
            destination=request.destination,
            database=request.database,
            table=request.table,
            id=request.id,
            state=SnapshotState.STOPPED,
            began_ms=now_ms,
            ts_ms=now_ms,
            request=request.id,
        )
    if request.action is SnapshotAction.MARK:
        return _marked(snapshot, request, now_ms)
    state = _next_state(request.action, snapshot)
    replacing = snapshot.replacing and state is not SnapshotState.STOPPED
    return replace(snapshot, state=state, replacing=replacing, ts_ms=now_ms, request=request.id)


def _failure_of_all(snapshot: TableSnapshot | None) -> str | None:
    """Why rows of the whole table may differ, which the reading of some rows does not change."""
    if snapshot is None or snapshot.state is SnapshotState.GONE:
        return None
    has_failed = snapshot.state is SnapshotState.FAILED and snapshot.where is None
    return snapshot.error if has_failed else snapshot.unlogged


def _marked(snapshot: TableSnapshot, request: SnapshotRequest, now_ms: int) -> TableSnapshot:
    """A reading that has not ended continues, and fails at its end."""
    if snapshot.is_open:
        return replace(snapshot, ts_ms=now_ms, request=request.id, unlogged=request.why)
    return replace(
        snapshot,
        state=SnapshotState.FAILED,
        error=request.why,
        ts_ms=now_ms,
        request=request.id,
        unlogged=request.why,
    )


def _next_state(action: SnapshotAction, snapshot: TableSnapshot) -> SnapshotState:
    """The state after a request other than a start; one that does not apply changes nothing."""
    state = snapshot.state
    if action is SnapshotAction.PAUSE and snapshot.is_pending:
        return SnapshotState.PAUSED
    if action is SnapshotAction.RESUME and state is SnapshotState.PAUSED:
        return SnapshotState.READING if snapshot.chunks else SnapshotState.WAITING
    if action is SnapshotAction.STOP and snapshot.is_open:
        return SnapshotState.STOPPED
    return state
