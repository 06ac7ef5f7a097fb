"""The journal of one destination, as operations read it and write requests to it.

Invariant: only committed records are read, and nothing is taken over; the worker continues
meanwhile.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from app.operator.operations.destination_check import check_destination
from app.settings.model import Settings
from app.worker.destination.plan import Plan
from app.worker.destination.takeover.committed_state import committed_state, whole_state
from app.worker.merge.plan import UNIT as MERGE
from app.worker.wiring import destination_plan, is_mapped, kafka_client, merge_plans, topic_plans
from connectors.errors import StateUnknown, UsageError
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.topics.topics import Topics
from connectors.wire import journal_topic
from tables.history.logical_schemas.decisions import UNIT as LOGICAL_SCHEMAS
from tables.journal_format import Entry as Note
from tables.state.journal.state import DestinationState, JournalPartition

_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The journal, for one destination."""

    settings: Settings
    plan: Plan
    options: dict[str, Any]

    @classmethod
    def of(cls, settings: Settings, destination: str) -> Journal:
        """Return it by a worker's settings; raise UsageError if they have no such destination."""
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
        """The partition of the destination's records."""
        return self.plan.journal.number

    async def state(self, *, whole_history: bool = True) -> DestinationState:
        """Return the state now; raise StateUnknown if the destination has never run.

        With the whole history, raise JournalDamaged if records of it are missing.
        """
        await self._find()
        return await self._state(whole_history=whole_history)

    async def _state(self, *, whole_history: bool) -> DestinationState:
        read = whole_state if whole_history else committed_state
        state = await read(self.plan.journal)
        if state.cursor is None:
            raise StateUnknown(
                "the journal has no cursor of the destination", destination=self.plan.name
            )
        return state

    async def initialized_state(self) -> DestinationState:
        """Return the state now, without the history; also for a destination that has never run."""
        # A new installation may have no journal yet.
        await Topics(self.options).ensure(self.plan.topics.journal())
        return await committed_state(self.plan.journal)

    async def latest_state(self) -> DestinationState:
        """Return the state now, without the history, even if it is incomplete; raise StateUnknown without a
        journal."""
        await self._find()
        return await committed_state(self.plan.journal)

    async def _find(self) -> None:
        """Raise StateUnknown if Kafka has no journal of this prefix; a reader would wait for it in vain."""
        topics, end = Topics(self.options), journal_topic("")
        if await topics.has(self.plan.topics.journal()):
            return
        names = await topics.counts()
        others = sorted(name.removesuffix(end) for name in names if name.endswith(end))
        there = (
            f"The prefixes there: {', '.join(others)}"
            if others
            else "There is none of another prefix"
        )
        raise StateUnknown(
            f"Kafka has no topic {self.topic}, as no worker has run with this prefix. {there}",
            destination=self.plan.name,
        )

    async def write(self, note: Note) -> int:
        """Add a record, which every worker receives; return its offset."""
        return await write_note(self.plan.journal, note)

    async def write_all(self, notes: Iterable[Note]) -> None:
        """Add several records at once, or none of them."""
        await write_notes(self.plan.journal, notes)

    async def wait(
        self, reached: Callable[[DestinationState], bool], seconds: float
    ) -> DestinationState | None:
        """Return the state once it is as wanted; None on time-out."""
        deadline = time.monotonic() + seconds
        while True:
            state = await self._state(whole_history=False)
            if reached(state):
                return state
            if time.monotonic() >= deadline:
                return None
            await asyncio.sleep(_POLL_SECONDS)


def journal_of(settings: Settings, name: str) -> JournalPartition:
    """Return the partition of a destination's records; or of a merge's, which is ``merge.NAME``; or of the
    decisions on logical schemas, ``logical.schemas``.

    Raises UsageError if the settings have no such one.
    """
    topics = topic_plans(settings)
    if name == LOGICAL_SCHEMAS and is_mapped(settings):
        return JournalPartition.of(name, topics.journal(), kafka_client(settings).options())
    if not name.startswith(MERGE):
        return Journal.of(settings, name).plan.journal
    options = kafka_client(settings).options()
    plans = {one.unit: one for one in merge_plans(settings, options, topics)}
    if name not in plans:
        raise UsageError(f"the settings have no merge {name!r}, only: {', '.join(sorted(plans))}")
    return plans[name].journal


async def write_note(journal: JournalPartition, note: Note) -> int:
    """Add a record to a partition of the journal; return its offset."""
    (offset,) = await write_notes(journal, [note])
    return offset


async def write_notes(journal: JournalPartition, notes: Iterable[Note]) -> list[int]:
    """Add records to a partition of the journal in one transaction; return their offsets."""
    name = f"{journal.prefix}.command.{uuid.uuid4().hex[:12]}"
    producer = TransactionalProducer(name, options=journal.options, compression=None)
    try:
        await producer.init_transactions()
        async with producer.transaction() as kafka:
            sent = [
                await kafka.send(journal.topic, key=key, value=value, partition=journal.number)
                for key, value in notes
            ]
            return [int((await one).offset) for one in sent]
    finally:
        await producer.discard()
