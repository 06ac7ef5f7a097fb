"""The journal of one destination, as operations read it and write requests to it.

Invariant: only what is committed is read, and nothing is taken over; the worker goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.destination.plan import Plan
from app.destination.takeover.committed_state import committed_state
from app.operations.destinations import check_destination
from app.settings.model import Settings
from app.wiring import destination_plan, kafka_client, topic_plans
from connectors.errors import StateUnknown
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.topics.topics import Topics
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
    def of(cls, settings: Settings, destination: str) -> Journal:
        """By the settings that a worker would take; raise UsageError where they have no such destination."""
        check_destination(settings, destination)
        options = kafka_client(settings).options()
        plan = destination_plan(settings, destination, options, topic_plans(settings))
        return cls(settings=settings, plan=plan, options=options)

    @property
    def topic(self) -> str:
        """Its name."""
        return self.plan.journal.topic

    @property
    def partition(self) -> int:
        """Where the destination's records are."""
        return self.plan.journal.number

    async def state(self, *, whole_history: bool = True) -> DestinationState:
        """The state now; raise StateUnknown where the destination has never run."""
        state = await self._committed(whole_history=whole_history)
        if state.cursor is None:
            raise StateUnknown(
                "the journal has no cursor of the destination", destination=self.plan.name
            )
        return state

    async def begun(self) -> DestinationState:
        """The state now, without the history; of a destination that has never run, too."""
        # Of a new installation there may be no journal yet.
        await Topics(self.options).ensure(self.plan.topics.journal())
        return await self.now()

    async def now(self) -> DestinationState:
        """The state now, without the history and however little is known."""
        return await self._committed(whole_history=False)

    async def _committed(self, *, whole_history: bool) -> DestinationState:
        return await committed_state(self.plan.journal, whole_history=whole_history)

    async def write(self, note: Note) -> int:
        """Add a record, which every worker receives; its offset."""
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

    async def wait(
        self, reached: Callable[[DestinationState], bool], seconds: float
    ) -> DestinationState | None:
        """The state once it is as wanted; None where that takes longer."""
        deadline = time.monotonic() + seconds
        while True:
            state = await self.state(whole_history=False)
            if reached(state):
                return state
            if time.monotonic() >= deadline:
                return None
            await asyncio.sleep(_POLL_SECONDS)
