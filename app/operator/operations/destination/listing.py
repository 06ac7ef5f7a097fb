"""All destinations of the settings: desired state, leader and cursor, and each leader's report of
its run.

Invariant: it reads the journal and ZooKeeper, asks the leaders, and changes nothing; a part that
does not answer is named, and the rest is listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.operator.operations.destination.worker_status import WorkerAt, read_statuses
from app.operator.operations.journal_access import Journal
from app.settings.model import Settings
from app.worker.coordination.cluster_view import View, read_views
from app.worker.coordination.znodes import Nodes
from app.worker.wiring import coordination_plan
from connectors.errors import AqueductError
from connectors.zookeeper.kazoo_session import opens
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState
from tables.state.operator_requests import DesiredState

NOT_LED = "NOT LED"
"""The state of a destination that is to run, and that no worker leads."""
_WITHOUT_LEADER = (DesiredState.STOP, DesiredState.DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A run as its leader reports it; without a state it is not known, and the error gives the reason."""

    state: str | None = None
    error: str | None = None
    lag_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDestination:
    """One destination."""

    name: str
    desired: DesiredState
    requested_by: str | None
    leader: str | None
    address: str | None
    candidates: tuple[str, ...]
    cursor: Cursor | None
    run: RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All destinations, including deleted ones; ``fault``: why ZooKeeper did not answer."""

    destinations: tuple[ListedDestination, ...]
    fault: AqueductError | None


async def list_destinations(settings: Settings) -> Listing:
    """Return the destinations by name."""
    views, fault = await _views(settings)
    states = {
        name: await Journal.of(settings, name).latest_state()
        for name in sorted(settings.destinations)
    }
    leaders = {name: _leader(settings, one, views.get(name)) for name, one in states.items()}
    answers = await read_statuses(one for one in leaders.values() if one is not None)
    return Listing(
        destinations=tuple(
            _listed(
                name,
                state,
                views.get(name),
                _run_status(name, state, leaders[name], answers, fault),
            )
            for name, state in states.items()
        ),
        fault=fault,
    )


def _leader(settings: Settings, state: DestinationState, view: View | None) -> WorkerAt | None:
    """Return the leader and its address: from ZooKeeper, or without ZooKeeper from the journal."""
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


def _run_status(
    name: str,
    state: DestinationState,
    leader: WorkerAt | None,
    answers: Mapping[WorkerAt, dict[str, Any] | str],
    fault: AqueductError | None,
) -> RunStatus:
    """Return the run as the leader reports it; ``fault``: why ZooKeeper does not name one."""
    desired = state.control.desired if state.control else DesiredState.RUN
    if fault is not None:
        return RunStatus(error=f"the leader is unknown: {fault.name}")
    if leader is None:
        if desired in _WITHOUT_LEADER:
            return RunStatus(state="STOPPED")
        return RunStatus(state=NOT_LED, error="no worker leads it")
    answer = answers[leader]
    if isinstance(answer, str):
        return RunStatus(error=answer)
    one = answer.get(name)
    if one is None:
        state_of = "STOPPED" if desired in _WITHOUT_LEADER else None
        return RunStatus(state=state_of, error=f"worker {leader.worker} does not run it")
    return RunStatus(state=one["state"], error=one["error"], lag_seconds=one["lag_seconds"])


def _listed(
    name: str, state: DestinationState, view: View | None, run: RunStatus
) -> ListedDestination:
    control, leader = state.control, state.leader
    if view is not None:
        worker, address = view.leader, view.address
    else:
        worker, address = (leader.worker, leader.address) if leader else (None, None)
    return ListedDestination(
        name=name,
        desired=control.desired if control else DesiredState.RUN,
        requested_by=control.by if control else None,
        leader=worker,
        address=address or None,
        candidates=tuple(sorted(view.candidates)) if view else (),
        cursor=state.cursor,
        run=run,
    )


async def _views(settings: Settings) -> tuple[dict[str, View], AqueductError | None]:
    """Return ZooKeeper's views; nothing without ZooKeeper."""
    coordination = coordination_plan(settings)
    if coordination is None:
        return {}, None
    client, root, _ = coordination
    try:
        async with opens(client)(lambda: None) as session:
            return await read_views(session, Nodes(root), settings.destinations), None
    except AqueductError as error:
        return {}, error
