"""The journal of one destination for commands, which read it, write requests, and wait for a worker's answer.

Invariant: only committed records are read, and no transactional id is taken over, so the worker continues
meanwhile.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from app.settings.model import Settings
from app.worker.destination.plan import Plan
from app.worker.destination.takeover.recovery import committed_state, whole_state
from app.worker.merge.plan import UNIT as MERGE
from app.worker.wiring import destination_plan, is_mapped, kafka_client, merge_plans, topic_plans
from connectors.errors import StateUnknown, UsageError
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import StoredRecord, Tail
from connectors.kafka.topics import Topics
from tables.history.logical_schemas.decisions import UNIT as LOGICAL_SCHEMAS
from tables.journal_format import Entry as Note
from tables.state.journal.state import DestinationState, JournalPartition
from wire.topics import journal_topic

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitJournal:
    """The journal, for one destination or another unit of work."""

    settings: Settings
    partition: JournalPartition

    @classmethod
    def of(cls, settings: Settings, name: str) -> UnitJournal:
        """Return the journal by a worker's settings; see ``journal_of``."""
        return cls(settings=settings, partition=journal_of(settings, name))

    @property
    def name(self) -> str:
        """The unit's name."""
        return self.partition.destination

    async def latest_state(self) -> DestinationState:
        """Return the present state without the history, even if it is incomplete.

        Raise StateUnknown if there is no journal.
        """
        await self.find()
        return await committed_state(self.partition)

    async def find(self) -> None:
        """Raise StateUnknown if Kafka has no journal of this prefix; a reader would wait for it in vain."""
        topics, end = Topics(self.partition.options), journal_topic("")
        if await topics.has(topic_plans(self.settings).journal()):
            return
        names = await topics.counts()
        others = sorted(name.removesuffix(end) for name in names if name.endswith(end))
        there = (
            f"The prefixes there: {', '.join(others)}"
            if others
            else "There is none of another prefix"
        )
        raise StateUnknown(
            f"Kafka has no topic {self.partition.topic}, as no worker has run with this prefix. {there}",
            destination=self.name,
        )

    async def write(self, note: Note) -> int:
        """Add a record, which every worker receives; return its offset."""
        (offset,) = await write_notes(self.partition, [note])
        return offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The journal, for one destination."""

    settings: Settings
    plan: Plan
    options: dict[str, Any]

    @classmethod
    def of(cls, settings: Settings, destination: str) -> Journal:
        """Return the journal by a worker's settings; raise UsageError if they have no such destination."""
        check_destination(settings, destination)
        options = kafka_client(settings).options()
        plan = destination_plan(settings, destination, options, topic_plans(settings))
        return cls(settings=settings, plan=plan, options=options)

    @property
    def unit(self) -> UnitJournal:
        """The part of the journal's access that other units of work have too."""
        return UnitJournal(settings=self.settings, partition=self.plan.journal)

    @property
    def topic(self) -> str:
        """The name of the journal topic."""
        return self.plan.journal.topic

    @property
    def partition(self) -> int:
        """The partition of the destination's records."""
        return self.plan.journal.number

    async def state(self, *, whole_history: bool = True) -> DestinationState:
        """Return the state now; raise StateUnknown if the destination has never run.

        With ``whole_history``, raise JournalDamaged if records of the history are missing.
        """
        await self.unit.find()
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
        """See UnitJournal."""
        return await self.unit.latest_state()

    async def write(self, note: Note) -> int:
        """See UnitJournal."""
        return await self.unit.write(note)

    async def write_all(self, notes: Iterable[Note]) -> int:
        """Add several records at once, or none of them; return the offset of the first."""
        return (await write_notes(self.plan.journal, notes))[0]

    async def wait(
        self, read: Callable[[DestinationState], T | None], *, after: int, seconds: float
    ) -> T | None:
        """Return what ``read`` finds in the state that the records after an offset make; None on timeout."""
        state = DestinationState(self.plan.name)

        def take(record: StoredRecord) -> T | None:
            state.apply(record)
            return read(state)

        try:
            return await wait_for_record(self.plan.journal, after, take, seconds)
        except TimeoutError:
            return None


def journal_of(settings: Settings, name: str) -> JournalPartition:
    """Return the journal partition of a destination, a merge, or the decisions on logical schemas.

    A merge is named ``merge.NAME``, the decisions ``logical.schemas``. Raise UsageError if the settings have no
    such unit.
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


def other_units(settings: Settings) -> list[str]:
    """Return the names of the units of work beside the destinations: merges, and the logical schemas."""
    mapped = [LOGICAL_SCHEMAS] if is_mapped(settings) else []
    return [*(f"{MERGE}{name}" for name in sorted(settings.merge)), *mapped]


async def wait_for_record(
    journal: JournalPartition, after: int, take: Callable[[StoredRecord], T | None], seconds: float
) -> T:
    """Pass the records after an offset to ``take``; return its first result that is not None.

    Raise TimeoutError, or the error that ``take`` raises.
    """
    found: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def receive(_: int, record: StoredRecord) -> None:
        if found.done():
            return
        try:
            answer = take(record)
        except Exception as error:
            # If the error ended the tail, the caller would wait in vain.
            found.set_exception(error)
        else:
            if answer is not None:
                found.set_result(answer)

    tail = Tail(
        options=journal.options,
        topic=journal.topic,
        partitions=(journal.number,),
        take=receive,
        start={journal.number: after + 1},
    )
    reading = asyncio.create_task(tail.run())
    try:
        async with asyncio.timeout(max(seconds, 0)):
            return await found
    finally:
        reading.cancel()
        await asyncio.wait([reading])


async def write_notes(journal: JournalPartition, notes: Iterable[Note]) -> list[int]:
    """Add records to a partition of the journal in one transaction; return their offsets."""
    name = f"{journal.prefix}.command.{uuid.uuid4().hex[:12]}"
    producer = TransactionalProducer(name, options=journal.options, compression=None)
    try:
        await producer.init_transactions()
        async with producer.transaction() as kafka:
            return await journal.send(kafka, notes)
    finally:
        await producer.discard()


def check_destination(settings: Settings, destination: str) -> None:
    """Raise UsageError if the settings have no such destination."""
    if destination not in settings.destinations:
        known = ", ".join(sorted(settings.destinations))
        raise UsageError(f"the settings have no destination {destination!r}, only: {known}")
