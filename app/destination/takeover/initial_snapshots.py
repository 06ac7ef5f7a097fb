"""The snapshots that a run begins with."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from app.destination.plan import Plan
from connectors.errors import SnapshotUnsupported
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.unseen_tables import seen_in_part
from connectors.mysql.server.facts import ServerFacts, SourceAddress
from connectors.mysql.snapshot.read_views import FIRST_COUNTED, shows_what_is_visible
from tables.journal.state import DestinationState
from tables.schema_history.history import SchemaHistory
from tables.snapshots.table_snapshot import TableSnapshot, requested


def snapshots_of_run(
    plan: Plan,
    state: DestinationState,
    history: SchemaHistory | None,
    server: tuple[ServerFacts, SourceAddress],
    *,
    missed: bool,
    names: Collection[TableName] = (),
) -> list[TableSnapshot]:
    """The snapshots that a run begins, besides those that are pending.

    At the first start that of all captured tables, if so set. Once changes were ``missed``, it is that of all
    captured tables, and of all that were published before, whose rows may be gone. Else it is, if so set, that
    of captured tables of which nothing was published yet. ``names``: the server's tables, of which one that is
    granted in part waits until the history has it.
    Raises SnapshotUnsupported if the first ones cannot be read exactly at this server.
    """
    facts, address = server
    is_first = state.cursor is None
    wanted = plan.snapshot
    if not (missed or (wanted.is_initial if is_first else wanted.includes_new)):
        return []
    refusal = unsupported(facts, address, has_history=history is not None)
    if refusal is not None and (is_first or missed):
        raise refusal
    if refusal is not None or history is None:
        return []
    known_tables = history.now().tables()
    tables = {*known_tables, *seen_in_part(address, facts, {*names} - known_tables.keys())}
    if missed:
        return _of(plan, {*tables, *state.versions}, replaces=True)
    known = set() if is_first else {*state.snapshots.all, *state.versions}
    return _of(plan, (name for name in tables if name not in known))


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
