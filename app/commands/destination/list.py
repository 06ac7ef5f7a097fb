"""`python -m app destination list`: all destinations: state, leader, lag, position, error, and what is wanted.

Invariant: it reads the journal and ZooKeeper, asks the leaders, and changes nothing; what does not answer is
named, and the rest is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from app.commands.destination.worker_status import WorkerAt, statuses
from app.commands.journal_access import Journal
from app.commands.output import aligned, answer
from app.coordination.cluster_view import View, read_views
from app.coordination.znodes import Nodes
from app.settings.model import Settings, load
from app.wiring import coordination_plan
from connectors.errors import AqueductError
from connectors.zookeeper.kazoo_session import opens
from tables.journal.state import DestinationState
from tables.operator.control import Wish

_HEAD = (
    "destination",
    "state",
    "wish",
    "leader",
    "epoch",
    "lag",
    "position",
    "candidates",
    "error",
)
_NOT_LED = (Wish.STOP, Wish.DELETE)


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the form of the answer."""
    parser.add_argument("--all", action="store_true", help="those that were deleted, too")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(options: argparse.Namespace) -> int:
    """Print them; 0 where all could be asked, 1 where ZooKeeper or a leader did not answer."""
    settings = load()
    views, fault = _views(settings)
    states = {name: Journal.of(name).now() for name in sorted(settings.destinations)}
    leaders = {name: _leader(settings, one, views.get(name)) for name, one in states.items()}
    answers = statuses(one for one in leaders.values() if one is not None)
    told = [
        {**_told(name, one, views.get(name)), **_shown(name, one, leaders[name], answers, fault)}
        for name, one in states.items()
    ]
    shown = [each for each in told if options.all or each["wish"] != Wish.DELETE.value]
    rows = [_row(each) for each in shown]
    answer(options.format, shown, aligned(list(_HEAD), rows))
    if fault is not None:
        sys.stderr.write(f"aqueduct: {fault.name}: {fault}\n")
    is_whole = all(each["state"] is not None for each in shown)
    return 0 if fault is None and is_whole else 1


def _leader(settings: Settings, state: DestinationState, view: View | None) -> WorkerAt | None:
    """Who leads it and where that is reached: as ZooKeeper has it, and without ZooKeeper as the journal has."""
    if coordination_plan(settings) is not None:
        found = (view.leader, view.address) if view is not None else (None, None)
    else:
        found = (state.leader.worker, state.leader.address) if state.leader else (None, None)
    worker, address = found
    if worker is None:
        return None
    if not address and worker == settings.worker.id and settings.http.port:
        # These are the worker's own settings, on its own machine.
        address = f"{settings.http.bind}:{settings.http.port}"
    return WorkerAt(worker, address or "")


def _shown(
    name: str,
    state: DestinationState,
    leader: WorkerAt | None,
    answers: dict[WorkerAt, dict[str, Any] | str],
    fault: AqueductError | None = None,
) -> dict[str, Any]:
    """State, error, lag and position as the leader says them; ``fault``: why ZooKeeper does not name one."""
    wish = state.control.wish if state.control else Wish.RUN
    nothing = {"state": None, "error": None, "lag_seconds": None}
    if fault is not None:
        return {**nothing, "error": f"who leads it is not known: {fault.name}"}
    if leader is None:
        if wish in _NOT_LED:
            return {**nothing, "state": "STOPPED"}
        return {**nothing, "state": "NOT LED", "error": "no worker leads it"}
    told = answers[leader]
    if isinstance(told, str):
        return {**nothing, "error": told}
    one = told.get(name)
    if one is None:
        state_of = "STOPPED" if wish in _NOT_LED else None
        return {**nothing, "state": state_of, "error": f"worker {leader.worker} does not run it"}
    return {column: one[column] for column in nothing}


def _told(name: str, state: DestinationState, view: View | None) -> dict[str, Any]:
    cursor, said, leader = state.cursor, state.control, state.leader
    if view is not None:
        worker, address = view.leader, view.address
    else:
        worker, address = (leader.worker, leader.address) if leader else (None, None)
    return {
        "destination": name,
        "wish": (said.wish if said else Wish.RUN).value,
        "said_by": said.by if said else None,
        "leader": worker,
        "address": address or None,
        "candidates": sorted(view.candidates) if view else [],
        "epoch": cursor.epoch if cursor else None,
        "seq": cursor.seq if cursor else None,
        "position": str(cursor.offset.coordinates) if cursor else None,
        "gtid_set": str(cursor.offset.gtid_set) if cursor and cursor.offset.gtid_set else None,
    }


def _row(told: dict[str, Any]) -> list[str]:
    lag = told["lag_seconds"]
    shown = {**told, "lag": None if lag is None else f"{lag:.1f} s"}
    return [_cell(shown[column]) for column in _HEAD]


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value) or "-"
    return "-" if value is None else str(value)


def _views(settings: Settings) -> tuple[dict[str, View], AqueductError | None]:
    """What ZooKeeper has; nothing without it."""
    coordination = coordination_plan(settings)
    if coordination is None:
        return {}, None
    client, root, _ = coordination

    async def look() -> dict[str, View]:
        async with opens(client)(lambda: None) as session:
            return await read_views(session, Nodes(root), settings.destinations)

    try:
        return asyncio.run(look()), None
    except AqueductError as error:
        return {}, error
