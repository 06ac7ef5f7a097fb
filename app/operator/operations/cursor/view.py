"""The cursor of a destination, with pending skips and the operators' changes.

Invariant: it is read from the journal alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from app.operator.operations.journal_access import Journal
from tables.state.cursor import Cursor
from tables.state.operator_requests import Current, Intervention, Skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorView:
    """A cursor and its history."""

    cursor: Cursor
    source: Current | None
    """The source that is read; None if the journal does not have it."""
    skips: tuple[Skip, ...]
    """The oldest first."""
    interventions: tuple[Intervention, ...]
    """The oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A cursor for another installation."""

    prefix: str
    exported_ms: int
    cursor: Cursor


async def read_cursor(journal: Journal) -> CursorView:
    """Return the cursor; raise StateUnknown if the destination has never run."""
    state = await journal.state(whole_history=False)
    assert state.cursor is not None
    return CursorView(
        cursor=state.cursor,
        source=state.source_choice.current,
        skips=tuple(sorted(state.skips.all.values(), key=lambda one: one.ts_ms)),
        interventions=tuple(state.interventions.in_order()),
    )


async def export_cursor(journal: Journal) -> Export:
    """Return the cursor with its destination and time; raise StateUnknown if the destination has
    never run."""
    cursor = (await read_cursor(journal)).cursor
    return Export(
        prefix=journal.settings.prefix, exported_ms=time.time_ns() // 1_000_000, cursor=cursor
    )
