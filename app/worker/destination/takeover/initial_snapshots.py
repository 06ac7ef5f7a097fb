"""The snapshots that a run begins with."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable

from app.worker.destination.plan import Plan
from app.worker.destination.takeover.initial_state import InitialState
from app.worker.destination.takeover.source_answers import Answer
from connectors.errors import SnapshotUnsupported
from connectors.mysql.ddl.definition import TableChange, TableName
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.unseen_tables import Sight, sight_of
from connectors.mysql.select.read_views import FIRST_COUNTED, shows_what_is_visible
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts
from tables.history.history import SchemaHistory
from tables.history.record import Dropped, Known
from tables.history.view import SchemaView
from tables.rules.table_filter import named_tables
from tables.state.journal.state import DestinationState
from tables.state.snapshots.snapshot_progress import TableSnapshot, gone, requested

_MAY_EXIST = re.compile(r"\bIF\s+NOT\s+EXISTS\b", re.IGNORECASE)


def snapshots_of_run(
    plan: Plan,
    state: DestinationState,
    opened: InitialState,
    server: Answer,
    *,
    missed: bool,
    names: Collection[TableName] = (),
) -> list[TableSnapshot]:
    """The snapshots that a run begins, besides those that are pending.

    At the first start: all captured tables, if so set. After changes were ``missed``: all captured tables, and
    all tables published before, whose rows may be gone. In later runs: if the first start published existing
    rows, captured tables that existed already and could not be seen before; and, if so set, captured tables of
    which nothing was published yet. A table that cannot be seen, but whose name is known, waits until it can be
    seen. ``names``: the tables that the server lists. Raise SnapshotUnsupported if rows are needed at the first
    start, or after missed changes, and cannot be read exactly at this server.
    """
    address, facts = server
    is_first, wanted, history = state.cursor is None, plan.snapshot, opened.history
    if not (missed or wanted.is_initial or (wanted.includes_new and not is_first)):
        return []
    refusal = unsupported(facts, address, has_history=history is not None)
    if refusal is not None and (is_first or missed):
        raise refusal
    if refusal is not None or history is None:
        return []
    now = history.now()
    tables = {*now.tables(), *opened.found}
    unseen = set(unseen_names(plan, state, now, sight_of(*server, names)))
    if missed:
        return _of(plan, {*tables, *state.versions, *unseen}, replaces=True)
    if is_first:
        return _of(plan, tables | unseen)
    read = state.snapshots.all.keys()
    found: set[TableName] = set()
    if wanted.is_initial:
        found = unseen | (opened.found and opened.found - _settled(state, history))
    if wanted.includes_new:
        found |= tables - state.versions.keys()
    return _of(plan, found - read)


def gone_snapshots(
    state: DestinationState,
    opened: InitialState,
    server: Answer,
    names: Collection[TableName],
) -> list[TableSnapshot]:
    """The states of tables that have failed or are paused, and that do not exist at the cursor.

    A statement ends such a state; these are of tables that are gone without one that the stream has had.
    ``names``: the tables that the server lists; empty if they are not known.
    """
    history = opened.history
    if history is None:
        return []
    now, sight = history.now(), sight_of(*server, names)

    def is_gone(name: TableName) -> bool:
        found = now.state(*name)
        is_absent = bool(names) and name not in names and sight.why_unseen(name) is None
        return isinstance(found, Dropped) or (found is None and is_absent)

    return [
        gone(one)
        for name, one in sorted(state.snapshots.all.items())
        if one.is_missing and is_gone(name)
    ]


def unseen_names(
    plan: Plan, state: DestinationState, now: SchemaView, sight: Sight
) -> Iterable[TableName]:
    """The known names of tables that the account may not see, from the filter and from the stream."""
    named = {
        *map(sight.spelled, named_tables(plan.rules.routes.include)),
        *state.quarantine.quarantined,
        *state.versions,
    }
    for name in named:
        is_known = isinstance(now.state(*name), Known | Dropped)
        if not is_known and sight.why_unseen(name) is not None:
            yield name


def _settled(state: DestinationState, history: SchemaHistory) -> set[TableName]:
    """The tables that were in the history before, or that a statement has created since.

    It was settled then which of their rows are published. They may have left the history since, because of a
    statement that was not understood, or because an operator has set the cursor.
    """
    first = history.checkpoints[0]
    found = set(history.content(first).tables)
    if first.begins and first.number > 1:
        # A table that could not be seen, but whose rows the stream has had, waits by its name already.
        found.update(state.versions)
    for record in history.records:
        if record.kind != "statement":
            # Such a record may be of the tables that the history takes in now.
            continue
        for change in record.changes:
            if isinstance(change, TableChange):
                (found.discard if change.new is None else found.add)(change.name)
        if len(record.unresolved) > 1:
            # Another table may have taken one of these names.
            found.difference_update(record.unresolved)
        elif record.type == "CREATE TABLE" and not _MAY_EXIST.search(record.statement):
            found.update(record.unresolved)
    return found


def _of(plan: Plan, names: Iterable[TableName], *, replaces: bool = False) -> list[TableSnapshot]:
    captured = [name for name in names if plan.rules.routes.captures(*name)]
    now_ms = time.time_ns() // 1_000_000
    return requested(plan.name, captured, name=f"{now_ms:x}", now_ms=now_ms, replaces=replaces)


def unsupported(
    facts: ServerFacts, address: SourceAddress, *, has_history: bool
) -> SnapshotUnsupported | None:
    """Why existing rows cannot be read exactly at a server; None if they can."""
    if not shows_what_is_visible(server_of(facts), has_gtids=facts.has_gtids):
        oldest = ".".join(map(str, FIRST_COUNTED))
        return SnapshotUnsupported(
            f"existing rows cannot be read, as MySQL before {oldest} without GTIDs does not show what a SELECT "
            "sees",
            source=address,
            remedy="Set gtid_mode to ON, or snapshot.mode to never and load the existing rows by another way.",
        )
    if not has_history:
        return SnapshotUnsupported(
            "existing rows cannot be read, as no schema history is kept",
            source=address,
            remedy="Set schema_history.store to journal, or snapshot.mode to never.",
        )
    return None
