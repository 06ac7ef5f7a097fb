"""A move of a cursor in two steps: planned, so that an operator can confirm its cost, and made.

Invariant: planning changes nothing; making the move judges it again by the state that is valid once
no worker can write. Numbers continue, and a schema history that does not reach the position starts
again there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from app.operator.operations.cursor.consequences import Effect, move_effect
from app.operator.operations.cursor.epoch_claim import Change, ChangeReason, commit_change
from app.operator.operations.journal_access import Journal
from app.operator.operations.source_connection import ReachableSource
from app.worker.destination.background import in_its_own_thread
from connectors.errors import HistoryTooShort, PositionUnknown
from connectors.mysql.position import SourceOffset
from tables.state.cursor import Cursor, CursorProof
from tables.state.journal.state import DestinationState
from tables.state.operator_requests import Intervention

MakeChange = Callable[[DestinationState, str, Effect, str], Change]
"""Makes the change from the valid state, the installation's id, the effect at that time, and the author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A planned move: its position, its source, and its effect by the journal as it was read."""

    journal: Journal
    source: ReachableSource
    offset: SourceOffset
    effect: Effect
    change: MakeChange


async def plan_move(
    journal: Journal,
    before: Cursor | None,
    offset: SourceOffset,
    source: ReachableSource,
    *,
    change: MakeChange,
) -> Move:
    """Return the move of a cursor from its present position to a position of a source."""
    found = await in_its_own_thread(partial(_effect, before, offset, source))
    return Move(journal=journal, source=source, offset=offset, effect=found, change=change)


async def make_move(move: Move, reason: ChangeReason) -> Intervention:
    """Make the move; raise Fenced if workers repeatedly take the destination over meanwhile."""

    def change(state: DestinationState, installation: str) -> Change:
        found = _effect(state.cursor, move.offset, move.source)
        return move.change(state, installation, found, reason.by)

    return await commit_change(move.journal, change, reason=reason, sets=True)


def _effect(before: Cursor | None, offset: SourceOffset, source: ReachableSource) -> Effect:
    return move_effect(before, offset, source.address, source.facts)


def moved_cursor(
    offset: SourceOffset, state: DestinationState, installation: str, *, is_back: bool
) -> Cursor:
    """Return the cursor at another position, with continued numbers."""
    old = state.cursor
    if old is None:
        return Cursor(
            destination=state.destination,
            installation=installation,
            epoch=1,
            seq=0,
            versions=state.version_count,
            offset=offset,
        )
    return replace(
        old,
        offset=offset,
        resume=None,
        prepared={},
        proof=CursorProof(),
        is_new_start=not (is_back and _history_reaches(state, offset)),
    )


def _history_reaches(state: DestinationState, offset: SourceOffset) -> bool:
    """Return whether the schema history has the tables as of a position before the cursor."""
    history = state.history()
    if history is None:
        return False
    try:
        history.rollback(offset)
    except (HistoryTooShort, PositionUnknown):
        return False
    return True
