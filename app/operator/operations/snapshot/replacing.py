"""Requests to publish all rows again, for a cursor that is set past changes that were not read.

Invariant: all tables that are captured now are concerned, and all whose rows were published before, as they may
have been dropped meanwhile.
"""

from __future__ import annotations

import time
import uuid
from functools import partial

from app.operator.journal_access import Journal
from app.operator.source_connection import ReachableSource
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.takeover.initial_snapshots import unsupported
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.information_schema import InventoryReader
from connectors.mysql.server.facts import connected
from tables.journal_format import Entry as Note
from tables.state.journal.state import DestinationState
from tables.state.snapshots.request import SnapshotAction, SnapshotRequest, note_of


async def replacing_requests(
    journal: Journal, state: DestinationState, source: ReachableSource, *, by: str
) -> list[Note]:
    """The journal's records; raises SnapshotUnsupported if rows cannot be read exactly at the source."""
    plan, routes = journal.plan, journal.plan.rules.routes
    has_history = plan.history is not None
    refusal = unsupported(source.facts, source.address, has_history=has_history)
    if refusal is not None:
        raise refusal
    present = await in_its_own_thread(partial(_tables, source))
    names = {name for name in {*present, *state.versions} if routes.captures(*name)}
    request, now_ms = uuid.uuid4().hex[:12], time.time_ns() // 1_000_000
    return [
        note_of(
            SnapshotRequest(
                destination=plan.name,
                database=database,
                table=table,
                id=request,
                action=SnapshotAction.START,
                replaces=True,
                by=by,
                ts_ms=now_ms,
            )
        )
        for database, table in sorted(names)
    ]


def _tables(source: ReachableSource) -> set[TableName]:
    """The tables of a source that the account can see."""
    with connected(source.address) as cursor:
        return set(InventoryReader(cursor, server_of(source.facts)).names())
