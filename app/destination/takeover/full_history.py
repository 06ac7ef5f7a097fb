"""All that the journal has of a schema history, for whoever reads it beside the run that writes it.

The law: committed records only, from the journal's beginning; nothing is written and nothing is kept.
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


async def whole_history(
    destination: str, *, topic: str, partitions: int, options: Mapping[str, Any]
) -> SchemaHistory:
    """The history of a destination; raise JournalDamaged where there is none."""
    partition = journal.partition_of(destination, partitions)

    async def read(state: DestinationState, start: int) -> None:
        await read_each(options, topic, partition, start=start, take=state.apply)

    state = await folded(destination, MemoryCheckpoint(), read, whole_history=True)
    history = state.history() if state.is_whole() else None
    if history is None:
        raise JournalDamaged(state.lack(), destination=destination, topic=topic)
    return history
