"""Coordination on the status page: the session, and who leads a destination or why this worker does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.worker.coordination.cluster_view import View
from connectors.errors import NodeUnfit
from connectors.zookeeper.protocol import Session


def session_report(
    session: Session | None, views: Mapping[str, View], error: str | None
) -> dict[str, Any]:
    """The session and the workers that it sees."""
    workers = {worker for view in views.values() for worker in view.candidates}
    return {
        "state": "none" if session is None else session.state.value,
        "session": None if session is None else f"0x{session.id:x}",
        "timeout_seconds": None if session is None else session.timeout,
        "workers": sorted(workers),
        "error": error,
    }


def leader_report(view: View | None, *, here: bool) -> dict[str, Any]:
    """Return the leader and the candidates of a destination."""
    return {
        "here": here,
        "vacant": view is not None and not view.exists and not here,
        "worker": view.leader if view else None,
        "address": view.address if view else None,
        "candidates": sorted(view.candidates) if view else [],
    }


def reason_not_led(view: View, path: str, *, is_wanted: bool) -> str:
    """Why this worker does not lead a destination whose znode is at ``path``."""
    if view.exists and view.owner == 0:
        unfit = NodeUnfit(f"{path} does not end with a session")
        return f"{unfit.name}: {unfit}"
    if view.exists:
        return f"{view.leader} leads it"
    if not is_wanted:
        return "it was lost here a moment ago, or is not requested"
    return "it is about to be taken"
