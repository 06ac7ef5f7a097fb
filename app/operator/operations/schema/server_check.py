"""The schema history compared with a server's present tables.

Invariant: both are compared at one position, that of the server's answer. If the worker does not
reach it in time, the history's end is compared instead, and the result reports this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.operator.operations.schema.destination_history import DestinationHistory, ReadHistory
from connectors.mysql.schema.baseline import Baseline
from tables.history.differences import Deviation, deviations
from tables.history.position import HistoryPosition, reached

_PAUSE = 1.0

AskServer = Callable[[], Awaitable[Baseline]]
"""Reads a server's tables as they are now."""
Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerComparison:
    """The history, the server, and their differences."""

    history: DestinationHistory
    server: Baseline
    is_same_position: bool
    """Whether the history reaches the position of the server's answer; else its end was compared."""
    deviations: tuple[Deviation, ...]


async def compare_with_server(
    read: ReadHistory, ask: AskServer, *, wait: float, pause: Pause = asyncio.sleep
) -> ServerComparison:
    """Compare them, waiting some seconds for the worker to reach the server's position."""
    # The history first: without one, no server need be asked.
    await read()
    server = await ask()
    found = await _history_at_server(read, server, wait, pause)
    is_there = _has_reached(found, server)
    view = found.history.at(server.at) if is_there else found.history.now()
    deviating = deviations(
        view, server.tables, server.databases, server=server.server, unseen=server.unseen
    )
    return ServerComparison(
        history=found, server=server, is_same_position=is_there, deviations=tuple(deviating)
    )


async def _history_at_server(
    read: ReadHistory, server: Baseline, seconds_left: float, pause: Pause
) -> DestinationHistory:
    """Return the history once its worker has reached the server's position, or as it is on time-out."""
    while True:
        found = await read()
        if _has_reached(found, server) or seconds_left <= 0:
            return found
        await pause(_PAUSE)
        seconds_left -= _PAUSE


def _has_reached(found: DestinationHistory, server: Baseline) -> bool:
    return bool(reached(HistoryPosition.between(server.at, ts_ms=0), found.cursor.offset))
