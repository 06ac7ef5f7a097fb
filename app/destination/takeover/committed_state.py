"""State of a destination as the journal has it committed, read without a checkpoint and beside any run.

Invariant: committed records only; nothing is written, nothing is kept, and no leader notices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.destination.takeover.recovery import folded
from connectors.errors import JournalDamaged
from connectors.kafka.reading.partition_reader import read_each
from tables.journal import state as journal
from tables.journal.checkpoint import MemoryCheckpoint
from tables.journal.state import DestinationState
from tables.schema_history.history import SchemaHistory


async def committed_state(
    destination: str,
    *,
    topic: str,
    partitions: int,
    options: Mapping[str, Any],
    whole_history: bool = False,
) -> DestinationState:
    """The state now; ``whole_history``: with the schema history from its oldest checkpoint on."""
    partition = journal.partition_of(destination, partitions)

    async def read(state: DestinationState, start: int) -> None:
        await read_each(options, topic, partition, start=start, take=state.apply)

    return await folded(destination, MemoryCheckpoint(), read, whole_history=whole_history)


async def committed_history(
    destination: str, *, topic: str, partitions: int, options: Mapping[str, Any]
) -> SchemaHistory:
    """The whole schema history; raise JournalDamaged where there is none."""
    state = await committed_state(
        destination, topic=topic, partitions=partitions, options=options, whole_history=True
    )
    history = state.history() if state.is_whole() else None
    if history is None:
        raise JournalDamaged(state.lack(), destination=destination, topic=topic)
    return history
