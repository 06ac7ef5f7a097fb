"""What commands know of a destination: its settings, and what the journal says of it.

The law: a command reads what is committed and takes nothing over; the worker goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from dataclasses import dataclass
from typing import Any

from app.commands.schema_history import check_destination
from app.destination.plan import Plan
from app.destination.takeover.recovery import folded
from app.settings.model import Settings, load
from app.wiring import destination_plan, kafka_client, topic_plans
from connectors.errors import StateUnknown
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading.partition_reader import read_each
from connectors.kafka.topics.topics import Topics
from tables.journal import state as journal
from tables.journal.checkpoint import MemoryCheckpoint
from tables.journal.state import DestinationState
from tables.journal_format import Entry as Note

_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The journal, for one destination."""

    settings: Settings
    plan: Plan
    options: dict[str, Any]

    @classmethod
    def of(cls, destination: str) -> Journal:
        """By the settings that a worker would take; raise UsageError where they have no such destination."""
        settings = load()
        check_destination(settings, destination)
        options = kafka_client(settings).options()
        plan = destination_plan(settings, destination, options, topic_plans(settings))
        return cls(settings=settings, plan=plan, options=options)

    @property
    def topic(self) -> str:
        """Its name."""
        return self.plan.topics.journal().name

    @property
    def partition(self) -> int:
        """Where the destination's records are."""
        return journal.partition_of(self.plan.name, self.plan.topics.journal_partitions)

    def state(self, *, whole_history: bool = True) -> DestinationState:
        """What it says now; raise StateUnknown where the destination has never run."""
        state = asyncio.run(self._state(whole_history=whole_history))
        if state.cursor is None:
            raise StateUnknown("the journal has no cursor of it", destination=self.plan.name)
        return state

    def begun(self) -> DestinationState:
        """What it says now, without the history; of a destination that has never run, too."""
        return asyncio.run(self._begun())

    async def _begun(self) -> DestinationState:
        # Of a new installation there may be no journal yet.
        await Topics(self.options).ensure(self.plan.topics.journal())
        return await self._state(whole_history=False)

    def now(self) -> DestinationState:
        """What it says now, if only little; without the history."""
        return asyncio.run(self._state(whole_history=False))

    async def _state(self, *, whole_history: bool) -> DestinationState:
        async def read(state: DestinationState, start: int) -> None:
            await read_each(self.options, self.topic, self.partition, start=start, take=state.apply)

        return await folded(self.plan.name, MemoryCheckpoint(), read, whole_history=whole_history)

    def write(self, note: Note) -> int:
        """Add a record, which every worker receives; its offset."""
        return asyncio.run(self._write(note))

    async def _write(self, note: Note) -> int:
        name = f"{self.settings.prefix}.command.{uuid.uuid4().hex[:12]}"
        producer = TransactionalProducer(name, options=self.options, compression=None)
        try:
            await producer.init_transactions()
            async with producer.transaction() as kafka:
                sent = await kafka.send(
                    self.topic, key=note[0], value=note[1], partition=self.partition
                )
                return int((await sent).offset)
        finally:
            await producer.discard()

    def wait(self, reached: Any, seconds: float) -> DestinationState | None:
        """The state once it is as wanted; None where that takes longer."""
        deadline = time.monotonic() + seconds
        while True:
            state = self.state(whole_history=False)
            if reached(state):
                return state
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_SECONDS)


def operator() -> str:
    """Who calls, for the record."""
    return os.environ.get("SUDO_USER") or os.environ.get("USER") or f"uid {os.getuid()}"
