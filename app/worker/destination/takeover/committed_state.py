"""The committed state of a destination in the journal, read without a checkpoint and beside any run.

Invariant: committed records only; nothing is written or kept, and leaders are not affected.

A run may expire records of the schema history while they are read: records that one pass over the
journal found to be needed may be gone in the next pass. So an incomplete state is read again before it
counts as damaged.
"""

from __future__ import annotations

import asyncio

from app.worker.destination.takeover.recovery import folded, of_partition
from connectors.errors import JournalDamaged, JournalTooNew, JournalUnreadable
from tables.history.history import SchemaHistory
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.journal.state import DestinationState, JournalPartition

_READS = 5
_PAUSE_SECONDS = 0.2


async def committed_state(
    journal: JournalPartition, *, whole_history: bool = False
) -> DestinationState:
    """The present state; with ``whole_history``, its schema history begins with the oldest checkpoint.

    It is incomplete only if records are missing in the journal; see ``DestinationState.is_whole``.
    """
    state = await _read(journal, whole_history=whole_history)
    for _ in range(_READS - 1):
        if state.is_whole():
            break
        await asyncio.sleep(_PAUSE_SECONDS)
        state = await _read(journal, whole_history=whole_history)
    return state


async def _read(journal: JournalPartition, *, whole_history: bool) -> DestinationState:
    try:
        return await folded(
            journal.destination, MemoryCheckpoint(), journal.fold_into, whole_history=whole_history
        )
    except (JournalUnreadable, JournalTooNew) as error:
        error.context = {**of_partition(journal), **error.context}
        raise


async def whole_state(journal: JournalPartition) -> DestinationState:
    """The present state with the whole schema history; raise JournalDamaged if records are missing."""
    state = await committed_state(journal, whole_history=True)
    if not state.is_whole():
        raise JournalDamaged(state.lack(), destination=journal.destination, topic=journal.topic)
    return state


async def committed_history(journal: JournalPartition) -> SchemaHistory:
    """The whole schema history; raise JournalDamaged if there is none."""
    state = await whole_state(journal)
    history = state.history()
    if history is None:
        raise JournalDamaged(state.lack(), destination=journal.destination, topic=journal.topic)
    return history
