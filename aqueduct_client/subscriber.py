"""The asynchronous subscriber: get, ack and rollback as Canal's client has them.

Invariant: offsets are committed by ``ack`` alone, in the order of delivery, for batches of the present
assignment. A rebalance, a rollback and a reconnection take batches back, and their records are delivered again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol

from aqueduct_client.backoff import Outage
from aqueduct_client.batch import EMPTY, Batch
from aqueduct_client.dedup import Window
from aqueduct_client.errors import (
    BatchesInFlight,
    BrokersLost,
    StaleBatch,
    SubscriberClosed,
    SubscriberError,
)
from aqueduct_client.in_flight import NOTHING, InFlight, Offsets
from aqueduct_client.protocol import Consumer, JoinsGroup, OpensLog
from aqueduct_client.records import Partition, RawRecord, Record
from aqueduct_client.schemas import Schemas, TableVersion
from aqueduct_client.selection import Selection
from aqueduct_client.start import Start, offset_of

_SLICE_SECONDS = 0.2
"""The longest poll, so that a rollback in another task waits no longer."""
_IDLE_COMMIT_SECONDS = 5.0


class Turn(Protocol):
    """An election."""

    @property
    def is_mine(self) -> bool:
        """Whether this client is the active one, as far as it knows."""
        ...

    async def mine(self, seconds: float) -> bool:
        """The same, after waiting for it for so many seconds at most."""
        ...

    async def close(self) -> None:
        """Leave the election."""
        ...


TakesOver = Callable[[Collection[Partition]], Awaitable[object]]


@dataclass(slots=True, kw_only=True)
class Subscriber:
    """A member of a group of subscribers. Use it in one event loop, within ``async with``."""

    joins: JoinsGroup
    logs: OpensLog
    selection: Selection
    start: Start
    window: Window = field(default_factory=lambda: Window(0))
    outage: Outage = field(default_factory=Outage)
    schemas: Schemas | None = None
    turn: Turn | None = None
    """The election among clients of which one is active; None: the group shares the partitions."""
    before_positions: TakesOver | None = None
    """Called with new partitions before the group's offsets are read."""
    _in_flight: InFlight = field(default_factory=InFlight)
    _records: dict[int, tuple[Record, ...]] = field(default_factory=dict)
    """Of the batches in flight, for the window."""
    _consumer: Consumer | None = None
    _member: AsyncExitStack = field(default_factory=AsyncExitStack)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while records are read or the position is changed."""
    _assigned: frozenset[Partition] = frozenset()
    _unplaced: frozenset[Partition] = frozenset()
    """Partitions whose position is not chosen yet."""
    _generation: int = 0
    _closed: bool = False
    _idle_since: float = 0.0

    async def __aenter__(self) -> Subscriber:
        while self.turn is None and self._consumer is None:
            await self.outage.may_try()
            try:
                await self._joined()
            except BrokersLost as error:
                self.outage.failed(error)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the group; nothing is acknowledged. A call of get that waits raises SubscriberClosed."""
        self._closed = True
        await self.rejoin("the subscriber was closed")
        if self.turn is not None:
            await self.turn.close()

    @property
    def assignment(self) -> frozenset[Partition]:
        """The partitions that this client reads now."""
        return self._assigned

    @property
    def in_flight(self) -> tuple[int, ...]:
        """The ids of the batches that are not acknowledged, in order."""
        return self._in_flight.ids

    async def get(self, most: int = 1000, timeout: float = 1.0) -> Batch:  # noqa: ASYNC109 - it returns then
        """Return the next records, acknowledged at once: they are lost if handling them fails."""
        if self._in_flight:
            raise BatchesInFlight(f"in flight are {list(self.in_flight)}")
        batch = await self.get_without_ack(most, timeout)
        await self.ack(batch.id)
        return batch

    async def get_without_ack(self, most: int = 1000, timeout: float = 1.0) -> Batch:  # noqa: ASYNC109 - likewise
        """Return up to ``most`` records as soon as there are some; an empty batch after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            batch = await self._attempt(most, deadline - time.monotonic())
            if batch.records or time.monotonic() >= deadline:
                return batch

    async def ack(self, batch: int) -> None:
        """Acknowledge the first batch in flight; its records are not delivered again."""
        if batch == NOTHING:
            return
        offsets = self.offsets_of(batch)
        self.window.add(self._records.get(batch, ()))
        try:
            await self._active().commit(offsets)
        except StaleBatch as error:
            self._take_back("the group has rebalanced")
            raise StaleBatch(error.detail, batch=batch, **error.where) from error
        except BrokersLost:
            # Whether it was committed is not known; what was not comes again.
            await self.rejoin("Kafka did not answer an acknowledgement")
            raise
        self.acknowledged(batch)

    def offsets_of(self, batch: int) -> Offsets:
        """Return what the acknowledgement of a batch commits; raise if it may not be acknowledged now."""
        offsets = self._in_flight.offsets_of(batch)
        self._active()
        return offsets

    def acknowledged(self, batch: int) -> None:
        """Note that the offsets of a batch were committed, for example in a Kafka transaction."""
        self._in_flight.acknowledged(batch)
        self._records.pop(batch, None)

    async def rollback(self, batch: int | None = None) -> None:
        """Deliver a batch and all later ones again (None: all in flight)."""
        if batch == NOTHING:
            return
        async with self._lock:
            starts = self._in_flight.rolled_back(batch)
            self._forget()
            if self._consumer is not None:
                await self._consumer.seek(starts)

    async def schema_of(self, record: Record) -> TableVersion:
        """Return the columns and the key of a record's table, as of the record."""
        assert self.schemas is not None, "subscribe_async makes subscribers with schemas"
        return await self.schemas.of(record)

    # --- reading ---

    async def _attempt(self, most: int, seconds: float) -> Batch:
        """Return what one poll gives; nothing while Kafka is lost or another client is the active one."""
        if not await self.outage.may_try(seconds):
            return EMPTY
        async with self._lock:
            if self._closed:
                raise SubscriberClosed
            try:
                if self.turn is not None and not await self.turn.mine(min(seconds, _SLICE_SECONDS)):
                    await self._left("another client is the active one")
                    return EMPTY
                batch = await self._next(most, max(0.0, min(seconds, _SLICE_SECONDS)))
            except BrokersLost as error:
                await self._left("Kafka was lost")
                self.outage.failed(error)
                return EMPTY
            except StaleBatch:  # of offsets before the first record; they are read again
                return EMPTY
        self.outage.over()
        return batch

    async def _next(self, most: int, seconds: float) -> Batch:
        consumer = self._consumer or await self._joined()
        if self._unplaced:
            await self._place(consumer)
        await self._commit_idle(consumer)
        generation = self._generation
        raws = await consumer.poll(seconds=seconds, most=most)
        if generation != self._generation:
            return EMPTY  # read again after the rebalance
        try:
            return self._delivered(raws)
        except SubscriberError:
            await consumer.seek(_starts(raws))
            raise

    def _delivered(self, raws: list[RawRecord]) -> Batch:
        taken = [self.selection.take(raw, self.window) for raw in raws]
        records = tuple(record for record in taken if record is not None)
        ends = {raw.partition: raw.offset + 1 for raw in raws}
        if not records:
            self._in_flight.passed(ends)
            return EMPTY
        batch = Batch(self._in_flight.delivered(_starts(raws), ends), records, ends)
        if self.window.size:
            self._records[batch.id] = records
        return batch

    async def _commit_idle(self, consumer: Consumer) -> None:
        """Commit the offsets after dropped records now and then, if nothing is in flight."""
        offsets = self._in_flight.idle_offsets()
        if offsets and time.monotonic() - self._idle_since > _IDLE_COMMIT_SECONDS:
            await consumer.commit(offsets)
            self._in_flight.committed_idle(offsets)
            self._idle_since = time.monotonic()

    async def _place(self, consumer: Consumer) -> None:
        """Choose the position of new partitions: the group's offset, or the start, which is stored."""
        new, generation = self._unplaced, self._generation
        if self.before_positions is not None:
            await self.before_positions(new)
        committed = await consumer.committed(new)
        starts = await self._starts(new - committed.keys()) if new - committed.keys() else {}
        if generation == self._generation:
            if starts:
                await consumer.commit(starts)
            await consumer.seek({**committed, **starts})
            self._unplaced = frozenset()

    async def _starts(self, partitions: Iterable[Partition]) -> Offsets:
        async with self.logs() as reader:
            return {tp: await offset_of(reader, tp, self.start) for tp in sorted(partitions)}

    # --- membership ---

    def _on_assigned(self, partitions: frozenset[Partition]) -> None:
        self._generation += 1
        self._assigned = self._unplaced = partitions
        self._take_back("the group has rebalanced")

    def _active(self) -> Consumer:
        """Return the member; raise StaleBatch if this client is not the active one."""
        if self._consumer is None or (self.turn is not None and not self.turn.is_mine):
            raise StaleBatch("this client is no longer the active one")
        return self._consumer

    async def _joined(self) -> Consumer:
        stack = AsyncExitStack()
        try:
            consumer = await stack.enter_async_context(self.joins(self._on_assigned))
        except BaseException:
            await stack.aclose()
            raise
        self._member, self._consumer = stack, consumer
        return consumer

    async def _left(self, reason: str) -> None:
        """Leave the group, to join it again at the next call."""
        self._consumer = None
        self._take_back(reason)
        self._on_assigned(frozenset())
        await self._member.aclose()

    async def rejoin(self, reason: str) -> None:
        """Leave the group and join it again; all batches in flight are delivered again."""
        async with self._lock:
            await self._left(reason)

    def _take_back(self, reason: str) -> None:
        self._in_flight.taken_back(reason)
        self._forget()

    def _forget(self) -> None:
        kept = self._records.keys() & set(self.in_flight)
        self._records = {batch: self._records[batch] for batch in kept}


def _starts(raws: list[RawRecord]) -> Offsets:
    """Return the first offset of each partition."""
    return {raw.partition: raw.offset for raw in reversed(raws)}
