"""Requests on the snapshots of tables: start, pause, resume, stop.

Invariant: only the journal is changed, and only if every table can be acted on; a running worker applies the
request while it publishes changes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from app.operator.journal_access import Journal
from app.operator.request import not_tried_error
from app.operator.source_connection import ReachableSource, ReportUnreachable, reachable_source
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.takeover.initial_snapshots import unsupported
from connectors.errors import UsageError
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.schema.unseen_tables import unseen_tables
from connectors.mysql.select.row_condition import check_readable
from tables.state.journal.state import DestinationState
from tables.state.snapshots.request import SnapshotAction, SnapshotRequest, note_of
from tables.state.snapshots.table_snapshot import SnapshotState, TableSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSnapshot:
    """What an operator asks."""

    action: SnapshotAction
    tables: Sequence[TableName] = ()
    """Empty: all tables that it can be asked of."""
    where: str | None = None
    """For a start: a condition in SQL on the rows to read."""
    replaces: bool = False
    """For a start: whether the rows that subscribers have are replaced."""
    removes: tuple[str, ...] = ()
    """For a start: keys of records, deleted if no row of ``where``, which finds any of theirs, has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSnapshots:
    """The written requests, and the states after them; no states if that was not waited for."""

    requests: tuple[SnapshotRequest, ...]
    offset: int
    """That of the first of them in the journal."""
    applied: tuple[TableSnapshot, ...] | None


async def request_snapshots(
    journal: Journal,
    wanted: WantedSnapshot,
    report: ReportUnreachable,
    *,
    by: str,
    wait: float | None,
) -> RequestedSnapshots:
    """Request it; ``wait``: seconds for a worker to apply it, None: do not.

    Raises UsageError if it cannot be asked of one of the tables, SnapshotUnsupported if their rows cannot be
    read exactly, NotApplied if no worker applied it in time.
    """
    state = await journal.state()
    if wanted.action is SnapshotAction.START:
        source = await reachable_source(journal, state, report)
        unseen = await in_its_own_thread(partial(_unseen, source, state))
        names = _tables_to_start(journal, state, wanted.tables, unseen)
        if wanted.where is not None:
            _check_keys(state, names)
        if wanted.replaces:
            _check_replaceable(journal, names)
        if wanted.removes:
            _check_removable(journal, names)
        await _check_readable(source, state, names, wanted.where)
    else:
        names = _tables_to_change(state, wanted.action, wanted.tables)
    name, now_ms = uuid.uuid4().hex[:12], time.time_ns() // 1_000_000
    requests = tuple(
        SnapshotRequest(
            destination=journal.plan.name,
            database=database,
            table=table,
            id=name,
            action=wanted.action,
            where=wanted.where,
            replaces=wanted.replaces,
            removes=wanted.removes,
            by=by,
            ts_ms=now_ms,
        )
        for database, table in names
    )
    offset = await journal.write_all(map(note_of, requests))
    applied = None if wait is None else await _applied(journal, requests, offset, wait)
    return RequestedSnapshots(requests=requests, offset=offset, applied=applied)


def _known(state: DestinationState) -> Collection[TableName]:
    history = state.history()
    return history.now().tables().keys() if history is not None else ()


def _unseen(source: ReachableSource, state: DestinationState) -> Collection[TableName]:
    """The tables that the history lacks, as the account may not see them, or not all columns; they wait."""
    if state.history() is None:
        return ()
    known, waiting = _known(state), state.snapshots.all
    return unseen_tables(source.address, source.facts, known, waiting).keys()


def _tables_to_start(
    journal: Journal,
    state: DestinationState,
    given: Sequence[TableName],
    unseen: Collection[TableName],
) -> list[TableName]:
    """The captured tables among those given, or all; raises UsageError for one that cannot be started."""
    known, routes = {*_known(state), *unseen}, journal.plan.rules.routes
    captured = {name for name in known if routes.captures(*name)}
    if not given and not captured:
        raise UsageError("the destination captures no table that exists")
    for name in given:
        if name not in captured:
            why = "does not exist" if name not in known else "is not captured by this destination"
            raise UsageError(f"table {'.'.join(name)} {why}")
    names = sorted(set(given) or captured)
    read = [one for name in names if (one := state.snapshots.all.get(name)) and one.is_pending]
    if read:
        listed = ", ".join(".".join(one.name) for one in read)
        raise UsageError(f"is being read already: {listed}; end that first with `snapshot stop`")
    return names


def _check_keys(state: DestinationState, names: Collection[TableName]) -> None:
    """Raise UsageError for a table without a primary key, whose rows are read all or not at all."""
    history = state.history()
    for name in names:
        table = history.now().find(*name) if history is not None else None
        if table is not None and not table.primary_key:
            raise UsageError(f"table {'.'.join(name)} has no primary key: leave out the condition")


def _check_replaceable(journal: Journal, names: Collection[TableName]) -> None:
    """Raise UsageError for a table whose subscribers cannot be sent that its rows are gone."""
    for name in names:
        route = journal.plan.rules.routes.of(name)
        if route is None or not route.publishes_truncates:
            raise UsageError(
                f"cannot replace the rows of {'.'.join(name)}: nothing is published that removes all of them "
                "(truncates: omit, or operations without delete)"
            )


def _check_removable(journal: Journal, names: Collection[TableName]) -> None:
    """Raise UsageError for a table of which some operations are not published."""
    for name in names:
        route = journal.plan.rules.routes.of(name)
        if route is None or not route.publishes_all:
            raise UsageError(
                f"cannot remove rows of {'.'.join(name)}: its mapping does not publish all changes"
            )


def _tables_to_change(
    state: DestinationState, action: SnapshotAction, given: Sequence[TableName]
) -> list[TableName]:
    """The tables whose snapshot can be paused, resumed or stopped; raises UsageError if one cannot."""
    fits = {
        SnapshotAction.PAUSE: (SnapshotState.WAITING, SnapshotState.READING),
        SnapshotAction.RESUME: (SnapshotState.PAUSED,),
        SnapshotAction.STOP: (SnapshotState.WAITING, SnapshotState.READING, SnapshotState.PAUSED),
    }[action]
    snapshots = state.snapshots.all
    for name in given:
        now = snapshots[name].state if name in snapshots else None
        if now not in fits:
            found = f"its snapshot is {now.value}" if now is not None else "it has no snapshot"
            raise UsageError(f"cannot {action.value} table {'.'.join(name)}: {found}")
    names = sorted(set(given) or {name for name, one in snapshots.items() if one.state in fits})
    if not names:
        raise UsageError(f"there is no snapshot to {action.value}")
    return names


async def _check_readable(
    source: ReachableSource,
    state: DestinationState,
    names: Collection[TableName],
    where: str | None,
) -> None:
    """Check that the source returns rows of the tables by the condition."""
    has_history = state.history() is not None
    refusal = unsupported(source.facts, source.address, has_history=has_history)
    if refusal is not None:
        raise refusal
    await in_its_own_thread(partial(check_readable, source.address, names, where))


async def _applied(
    journal: Journal, requests: Sequence[SnapshotRequest], offset: int, seconds: float
) -> tuple[TableSnapshot, ...]:
    """The states once a worker has applied all requests."""

    def are_applied(state: DestinationState) -> bool:
        known = state.snapshots.all
        return all(one.name in known and known[one.name].request == one.id for one in requests)

    state = await journal.wait(are_applied, after=offset, seconds=seconds)
    if state is None:
        raise await not_tried_error(journal, f"snapshot {requests[0].action.value}", seconds)
    return tuple(state.snapshots.all[one.name] for one in requests)
