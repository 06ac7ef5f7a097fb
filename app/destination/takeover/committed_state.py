"""The committed state of a destination in the journal, read without a checkpoint and beside any run.

Invariant: committed records only; nothing is written or kept, and leaders are not affected.
"""

from __future__ import annotations

from app.destination.takeover.recovery import folded
from connectors.errors import JournalDamaged
from tables.journal.checkpoint import MemoryCheckpoint
from tables.journal.partition import JournalPartition
from tables.journal.state import DestinationState
from tables.schema_history.history import SchemaHistory


async def committed_state(
    journal: JournalPartition, *, whole_history: bool = False
) -> DestinationState:
    """The present state, with ``whole_history`` the schema history from its oldest checkpoint on."""
    return await folded(
        journal.destination, MemoryCheckpoint(), journal.fold_into, whole_history=whole_history
    )


async def committed_history(journal: JournalPartition) -> SchemaHistory:
    """The whole schema history; raises JournalDamaged if there is none."""
    state = await committed_state(journal, whole_history=True)
    history = state.history() if state.is_whole() else None
    if history is None:
        raise JournalDamaged(state.lack(), destination=journal.destination, topic=journal.topic)
    return history
