"""The snapshots that a destination begins with."""

from __future__ import annotations

import time

from app.destination.plan import Plan
from connectors.errors import SnapshotUnsupported
from connectors.mysql.server.facts import ServerFacts, SourceAddress
from tables.schema_history.history import SchemaHistory
from tables.snapshot import TableSnapshot, requested


def initial_snapshots(
    plan: Plan, history: SchemaHistory | None, facts: ServerFacts, address: SourceAddress
) -> list[TableSnapshot]:
    """The snapshots of all captured tables, for a destination that begins with its existing rows.

    Raises SnapshotUnsupported if they cannot be read exactly at this server.
    """
    if not facts.has_gtids or facts.is_mariadb:
        raise without_gtids(address)
    if history is None:
        raise SnapshotUnsupported(
            "existing rows cannot be read, as no schema history is kept",
            source=address,
            remedy="Set schema_history.store to journal, or snapshot.mode to never.",
        )
    if plan.topics.progress_of(plan.name):
        raise SnapshotUnsupported(
            "existing rows have no commits, and a merge puts this destination's changes in the order of theirs",
            source=address,
            remedy="Set snapshot.mode to never, and load the existing rows by another way.",
        )
    routes = plan.rules.routes
    names = [name for name in history.now().tables() if routes.captures(*name)]
    now_ms = time.time_ns() // 1_000_000
    return requested(plan.name, names, name=f"{now_ms:x}", now_ms=now_ms)


def without_gtids(address: SourceAddress) -> SnapshotUnsupported:
    """The error for a server at which nothing proves what a SELECT sees."""
    return SnapshotUnsupported(
        "existing rows cannot be read, as the server is no MySQL with GTIDs",
        source=address,
        remedy="Set gtid_mode to ON, or snapshot.mode to never and load the existing rows by another way.",
    )
