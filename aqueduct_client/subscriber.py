"""The asynchronous subscriber: get, ack and rollback as Canal's client has them.

Invariant: the offsets of a batch are committed only by its acknowledgement, in the order of delivery, under the
assignment that delivered it. A rebalance, a rollback and a reconnection take batches back; their records are
delivered again. A record that cannot be judged is never skipped, and holds back only its own partition.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol

from aqueduct_client.errors import (
    BatchesInFlight,
    BrokersDenied,
    BrokersLost,
    MalformedRecord,
    StaleBatch,
    SubscriberClosed,
    SubscriberError,
    TopicReplaced,
)
from aqueduct_client.in_flight import EMPTY, NOTHING, Batch, InFlight, Offsets
from aqueduct_client.notes import Notes, TopicNote
from aqueduct_client.protocol import Consumer, JoinsGroup, Log, OpensLog, TopicFacts
from aqueduct_client.record_selection import Selection, Window
from aqueduct_client.records import Partition, RawRecord, Record
from aqueduct_client.schemas import Schemas, TableVersion
from aqueduct_client.start_positions import Start, start_offsets

# Pauses between attempts while Kafka is lost.
#
# Invariant: a pause doubles up to a limit, with jitter, and is kept over calls: a caller that
# asks more often does not make more attempts. An outage is logged once, and once more when it is
# over. An outage begins with the first attempt that fails, not with its failure: a broker that accepts
# connections and is silent lets an attempt take long.


FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
_LEAST_ANSWER_SECONDS = 1.0
"""Seconds that Kafka has for an answer, however near the limit is."""


@dataclass(slots=True)
class Outage:
    """The present outage of Kafka, if there is one."""

    limit: float | None = None
    """Seconds after which the error is raised; None: never."""
    _since: float | None = field(default=None, init=False)
    _pause: float = field(default=FIRST_PAUSE, init=False)
    _retry_at: float = field(default=0.0, init=False)
    _is_logged: bool = field(default=False, init=False)

    def answer_limit(self) -> float | None:
        """Return the seconds that Kafka now has for one answer; None: as many as it needs."""
        if self.limit is None:
            return None
        past = 0.0 if self._since is None else time.monotonic() - self._since
        return max(_LEAST_ANSWER_SECONDS, self.limit - past)

    def failed(self, error: BrokersLost, began: float | None = None) -> None:
        """Note a failed attempt; raise the error if the outage is past the limit.

        ``began``: when the attempt began, by the monotonic clock; None: now.
        """
        now = time.monotonic()
        if self._since is None:
            self._since = now if began is None else began
        if self.limit is not None and now - self._since >= self.limit:
            raise error
        log.log(logging.DEBUG if self._is_logged else logging.WARNING, "%s", error)
        self._is_logged = True
        self._retry_at = now + self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def over(self) -> None:
        """Note a success."""
        if self._is_logged and self._since is not None:
            log.info("Kafka answers again, after %.0f s", time.monotonic() - self._since)
        self._since, self._pause, self._is_logged = None, FIRST_PAUSE, False

    async def may_try(self, seconds: float | None = None) -> bool:
        """Wait up to ``seconds`` for the next attempt; return whether it is due."""
        remaining = self._retry_at - time.monotonic()
        if remaining > 0:
            await asyncio.sleep(remaining if seconds is None else max(0.0, min(remaining, seconds)))
        return time.monotonic() >= self._retry_at


log = logging.getLogger(__name__)

_SLICE_SECONDS = 0.2
"""The longest poll, or wait for Kafka's answers, so that a rollback in another task waits no longer."""
_IDLE_COMMIT_SECONDS = 5.0
_END_SECONDS = 5.0
_LOOK_SECONDS = 10.0
"""Seconds after which the topics' ids are compared again."""
_NOTE_SECONDS = 600.0
"""Seconds after which progress is noted again besides Kafka's offsets: far less than Kafka keeps these."""


class Turn(Protocol):
    """An election."""

    @property
    def is_mine(self) -> bool:
        """Whether this client is the active one, as far as it knows."""
        ...

    async def mine(self, seconds: float) -> bool:
        """Wait up to ``seconds`` to become the active client; return whether this client is."""
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
    notes: Notes | None = None
    """The notes about the group besides Kafka's offsets; None: they are not kept."""
    turn: Turn | None = None
    """The election of the one active client; None: all clients of the group share the partitions."""
    before_positions: TakesOver | None = None
    """Called with new partitions before the group's offsets are read."""
    _in_flight: InFlight = field(default_factory=InFlight)
    _records: dict[int, tuple[Record, ...]] = field(default_factory=dict)
    """The records of the batches in flight, for the window."""
    _consumer: Consumer | None = None
    _member: AsyncExitStack = field(default_factory=AsyncExitStack)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while records are read or the position is changed."""
    _preparing: asyncio.Task[Consumer] | None = None
    """What comes before a poll and needs answers of Kafka; it continues when the call that began it is over."""
    _began: float = 0.0
    """When ``_preparing`` began."""
    _assigned: frozenset[Partition] = frozenset()
    _unplaced: frozenset[Partition] = frozenset()
    """Partitions whose position is not chosen yet."""
    _topics: dict[str, TopicFacts] = field(default_factory=dict)
    """The topics to read that existed when last seen."""
    _noted: dict[str, TopicNote] = field(default_factory=dict)
    """By topic, the group's start positions and its noted progress."""
    _unnoted: Offsets = field(default_factory=dict)
    """Offsets that were committed and are not noted yet."""
    _stuck: dict[Partition, SubscriberError] = field(default_factory=dict)
    """The partitions whose next record cannot be judged, with the reason."""
    _due: set[Partition] = field(default_factory=set)
    """Those of ``_stuck`` whose error was not raised yet."""
    _warned: bool = False
    _looked: float = 0.0
    _last_note: float = 0.0
    _generation: int = 0
    _closed: bool = False
    _idle_since: float = 0.0

    async def __aenter__(self) -> Subscriber:
        while self.turn is None and self._consumer is None:
            await self.outage.may_try()
            began = time.monotonic()
            try:
                await self._joined()
            except BrokersLost as error:
                self.outage.failed(error, began)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the group; nothing is acknowledged. A call of get that waits raises SubscriberClosed."""
        self._closed = True
        await self._note_at_end()
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
        if batch.id != NOTHING:
            # Not by ack: if it fails, nothing is returned, so the window must not have the records.
            await self._commit(batch.id, self.offsets_of(batch.id))
        return batch

    async def get_without_ack(self, most: int = 1000, timeout: float = 1.0) -> Batch:  # noqa: ASYNC109 - as get
        """Return up to ``most`` records as soon as there are some; an empty batch after ``timeout`` seconds.

        If the client is still joining the group then, or waits for Kafka's answer, the next call waits on.

        The error of a record that cannot be judged is raised once what precedes it in its partition is
        acknowledged, and then by each call that has nothing else to return; the other partitions continue.
        """
        deadline = time.monotonic() + timeout
        while True:
            batch = await self._attempt(most, deadline - time.monotonic())
            if batch.records:
                return batch
            if time.monotonic() >= deadline:
                self._refuse_stuck(self._stuck)
                return batch

    async def ack(self, batch: int) -> None:
        """Acknowledge the first batch in flight; its records are not delivered again."""
        if batch == NOTHING:
            return
        offsets = self.offsets_of(batch)
        self.window.add(self._records.get(batch, ()))
        await self._commit(batch, offsets)

    async def _commit(self, batch: int, offsets: Offsets) -> None:
        """Commit the offsets of a batch, and remove it from those in flight."""
        try:
            await self._active().commit(offsets)
        except StaleBatch as error:
            self._take_back("the group has rebalanced")
            raise StaleBatch(error.detail, batch=batch, **error.where) from error
        except BrokersLost:
            # It is not known whether they were committed; records that were not are delivered again.
            await self.rejoin("Kafka did not answer an acknowledgement")
            raise
        self.acknowledged(batch)

    def offsets_of(self, batch: int) -> Offsets:
        """Return the offsets that a batch's acknowledgement commits; raise if it is not allowed now."""
        offsets = self._in_flight.offsets_of(batch)
        self._active()
        return offsets

    def acknowledged(self, batch: int) -> None:
        """Note that the offsets of a batch were committed, for example in a Kafka transaction."""
        if batch in self._in_flight.ids:
            self._unnoted.update(self._in_flight.offsets_of(batch))
        self._in_flight.acknowledged(batch)
        self.window.add(self._records.pop(batch, ()))

    async def rollback(self, batch: int | None = None) -> None:
        """Deliver a batch and all later batches again (None: all in flight)."""
        if batch == NOTHING:
            return
        async with self._lock:
            starts = self._in_flight.rolled_back(batch)
            self._forget()
            self._unstick(starts)
            if self._consumer is not None:
                await self._consumer.seek(starts)

    async def schema_of(self, record: Record) -> TableVersion:
        """Return the columns and the key of a record's table, as of the record."""
        assert self.schemas is not None, "subscribe_async makes subscribers with schemas"
        return await self.schemas.of(record)

    # --- reading ---

    async def _attempt(self, most: int, seconds: float) -> Batch:
        """Return the batch of one poll; an empty batch while Kafka is lost or another client is active."""
        if not await self.outage.may_try(seconds):
            return EMPTY
        async with self._lock:
            if self._closed:
                raise SubscriberClosed
            try:
                if self.turn is not None and not await self.turn.mine(min(seconds, _SLICE_SECONDS)):
                    await self._left("another client is the active one")
                    return EMPTY
                consumer = await self._prepared()
                if consumer is None:
                    return EMPTY
                batch = await self._next(consumer, most, max(0.0, min(seconds, _SLICE_SECONDS)))
            except BrokersLost as error:
                began = self._began
                await self._left("Kafka was lost")
                self.outage.failed(error, began)
                return EMPTY
            except StaleBatch:  # of offsets, before a record was delivered; they are read again
                return EMPTY
        self.outage.over()
        return batch

    async def _prepared(self) -> Consumer | None:
        """Return the member once all partitions have a position; None if that takes longer than a poll.

        Joining is not begun again at each call, which would never end with a timeout shorter than it takes.
        """
        if self._preparing is None:
            self._began = time.monotonic()
            self._preparing = asyncio.create_task(self._prepare())
        await asyncio.wait([self._preparing], timeout=_SLICE_SECONDS)
        if not self._preparing.done():
            return None
        done, self._preparing = self._preparing, None
        return done.result()

    async def _prepare(self) -> Consumer:
        """Join the group, place new partitions, look at the topics, and commit what is due."""
        consumer = self._consumer or await self._joined()
        if self._unplaced:
            await self._place(consumer)
        await self._look(consumer)
        await self._commit_idle(consumer)
        return consumer

    async def _next(self, consumer: Consumer, most: int, seconds: float) -> Batch:
        if self._unplaced:
            return EMPTY  # a rebalance since they were placed
        self._refuse_stuck(self._due)
        generation = self._generation
        # If all are stuck they are read again: a consumer that reads nothing would count as stuck itself.
        without = () if self._is_all_stuck() else tuple(self._stuck)
        raws = await consumer.poll(seconds=seconds, most=most, without=without)
        if generation != self._generation:
            return EMPTY  # read again after the rebalance
        judged, found = self._judged(raws)
        if found:
            await consumer.seek({tp: at for tp, (at, _) in found.items()})
            if generation != self._generation:
                return EMPTY
            self._due |= found.keys() - self._stuck.keys()
            self._stuck |= {tp: error for tp, (_, error) in found.items()}
        batch = self._delivered(judged)
        if not batch.records:
            self._refuse_stuck(self._stuck if self._is_all_stuck() else self._due)
        return batch

    def _judged(
        self, raws: list[RawRecord]
    ) -> tuple[list[tuple[RawRecord, Record | None]], dict[Partition, tuple[int, SubscriberError]]]:
        """Return the records before the first one of each partition that cannot be judged, each as it is taken.

        Also, by partition, the offset of that one and the error.
        """
        judged: list[tuple[RawRecord, Record | None]] = []
        found: dict[Partition, tuple[int, SubscriberError]] = {}
        for raw in raws:
            if raw.partition in found:
                continue
            try:
                judged.append((raw, self.selection.take(raw, self.window)))
            except SubscriberError as error:
                found[raw.partition] = raw.offset, error
            except (ValueError, TypeError, AttributeError) as error:
                # Such as a header that is no text.
                topic, number = raw.partition
                where = {"topic": topic, "partition": number, "offset": raw.offset}
                found[raw.partition] = raw.offset, MalformedRecord(repr(error), **where)
        return judged, found

    def _delivered(self, judged: list[tuple[RawRecord, Record | None]]) -> Batch:
        raws = [raw for raw, _ in judged]
        records = tuple(record for _, record in judged if record is not None)
        ends = {raw.partition: raw.offset + 1 for raw in raws}
        if not records:
            self._in_flight.passed(ends)
            return EMPTY
        batch = Batch(self._in_flight.delivered(_starts(raws), ends), records, ends)
        if self.window.size:
            self._records[batch.id] = records
        return batch

    def _refuse_stuck(self, partitions: Collection[Partition]) -> None:
        """Raise the error of the first of these partitions that has nothing in flight, if there is one.

        Until then the group's offset is before the records in flight, and the command that the error names
        would skip them if they are never acknowledged.
        """
        for tp in sorted(partitions):
            if not self._in_flight.has(tp):
                self._due.discard(tp)
                raise self._stuck[tp].with_traceback(None)

    def _is_all_stuck(self) -> bool:
        return self._assigned <= self._stuck.keys()

    def _unstick(self, partitions: Collection[Partition]) -> None:
        """Read these partitions again, as their position was changed."""
        for tp in partitions:
            self._stuck.pop(tp, None)
            self._due.discard(tp)

    async def _commit_idle(self, consumer: Consumer) -> None:
        """Commit the offsets after dropped records now and then, if nothing is in flight."""
        offsets = self._in_flight.idle_offsets()
        if offsets and time.monotonic() - self._idle_since > _IDLE_COMMIT_SECONDS:
            if not self._warned and (unmet := self.selection.unmet()) is not None:
                self._warned = True
                log.warning("%s", unmet)
            await consumer.commit(offsets)
            self._unnoted.update(offsets)
            self._in_flight.committed_idle(offsets)
            self._idle_since = time.monotonic()

    # --- positions ---

    async def _place(self, consumer: Consumer) -> None:
        """Place new partitions at the group's offset, or at their start position, which is then committed."""
        new, generation = self._unplaced, self._generation
        if self.before_positions is not None:
            await self.before_positions(new)
        committed = await consumer.committed(new)
        begun: Offsets = {}
        unknown = new - committed.keys()
        identified = {topic for topic, note in self._noted.items() if note.topic_ids}
        if unknown or {tp.topic for tp in new} - identified:
            # Of a topic that came later, another member may have noted the id since.
            await self._begin(consumer)
        if unknown:
            async with self.logs() as reader:
                begun = {tp: await self._begins_at(reader, tp) for tp in sorted(unknown)}
        self._refuse_replaced()
        if generation == self._generation:
            if begun:
                await consumer.commit(begun)
            positions = {**committed, **begun}
            await self._note({tp: at for tp, at in positions.items() if self._is_note_due(tp)})
            await consumer.seek(positions)
            self._unplaced = frozenset()

    async def _begin(self, consumer: Consumer) -> None:
        """Note the start positions of all topics that are new to the group, in all partitions."""
        self._topics = await consumer.topics(self.selection.tables)
        self._looked = time.monotonic()
        await self._refuse_without_topic(consumer)
        self._noted = {} if self.notes is None else await self.notes.read()
        self._refuse_replaced()
        await self._refuse_absent(consumer)
        new = self.selection.tables.keys() - self._noted.keys()
        if new:
            begun = await self._new(consumer, sorted(new))
            self._noted = (
                {**self._noted, **begun} if self.notes is None else await self.notes.begin(begun)
            )

    async def _refuse_without_topic(self, consumer: Consumer) -> None:
        """Raise UnknownTable if a table has no topic, before anything is written for a wrong prefix."""
        without = self.selection.tables.keys() - self._topics.keys()
        if self.selection.expected(without):
            self.selection.refuse_without_topic(without, await consumer.topics(None))

    async def _refuse_absent(self, consumer: Consumer) -> None:
        """Raise UnknownTable if the installation lacks a table that is wanted of a shared topic."""
        shared = [topic for topic in self._topics if self.selection.tables[topic] is not None]
        if self.schemas is None or not shared:
            return
        try:
            known, has_logical = await self.schemas.tables(consumer)
        except BrokersDenied as error:
            log.warning(
                "the names of the tables cannot be checked: a wrong one gets no records. The account needs "
                "Read and Describe on <prefix>.__schemas and <prefix>.__logical_schemas [error=%s]",
                error.detail,
            )
            return
        begun = self._noted.keys() & set(shared)
        for topic in set(shared) - begun:
            if await consumer.committed(self._partitions(topic)):  # by an earlier client
                begun.add(topic)
        self.selection.refuse_absent(shared, known, has_logical=has_logical, begun=begun)

    async def _new(self, consumer: Consumer, topics: list[str]) -> dict[str, TopicNote]:
        """Return the notes of new topics: at the group's offsets if it already has any, else at ``start``."""
        begun = {topic: await consumer.committed(self._partitions(topic)) for topic in topics}
        unread = [tp for topic in topics if not begun[topic] for tp in self._partitions(topic)]
        async with self.logs() as reader:
            found = await start_offsets(reader, unread, self.start)
        for tp, at in found.items():
            begun[tp.topic][tp] = at
        return {
            topic: TopicNote(
                topic_id=self._topics[topic].id if topic in self._topics else None,
                starts={tp.number: at for tp, at in offsets.items()},
            )
            for topic, offsets in begun.items()
        }

    def _partitions(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic; an empty list if it does not exist."""
        count = self._topics[topic].partitions if topic in self._topics else 0
        return [Partition(topic, number) for number in range(count)]

    async def _begins_at(self, reader: Log, tp: Partition) -> int:
        """Return the position in a partition for which the group has no offset."""
        note, (beginning, _) = self._noted[tp.topic], await reader.bounds(tp)
        if (reached := note.reached.get(tp.number)) is not None:
            log.warning(
                "Kafka has forgotten a group's offset: it continues where a client last noted it, ten minutes "
                "earlier at most, so some changes may come again [group=%s, topic=%s, partition=%d, offset=%d]",
                "" if self.notes is None else self.notes.group,
                *tp,
                reached.offset,
            )
            return reached.offset
        if tp.number in note.starts:
            return note.starts[tp.number]
        log.info("a new partition is read from its first record [topic=%s, partition=%d]", *tp)
        return beginning

    async def _look(self, consumer: Consumer) -> None:
        """Check now and then whether a topic was deleted or created again, and note the progress."""
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._topics = await consumer.topics(self.selection.tables)
            self._looked = time.monotonic()
            await self._refuse_without_topic(consumer)
        self._refuse_replaced()
        if self._unnoted and time.monotonic() - self._last_note > _NOTE_SECONDS:
            await self._note(dict(self._unnoted))

    def _refuse_replaced(self) -> None:
        for topic, facts in self._topics.items():
            if topic in self._noted and self._noted[topic].is_of_another(facts.id):
                raise TopicReplaced(topic=topic)

    def _is_note_due(self, tp: Partition) -> bool:
        reached = self._noted[tp.topic].reached.get(tp.number) if tp.topic in self._noted else None
        return reached is None or time.time() - reached.ts_ms / 1000 > _NOTE_SECONDS

    async def _note(self, offsets: Offsets) -> None:
        if self.notes is not None and offsets:
            ids = {topic: facts.id for topic, facts in self._topics.items()}
            # Of a topic that is gone or was made again, the note that has its id must remain.
            valid = {
                tp: at
                for tp, at in offsets.items()
                if tp.topic in ids and not self._noted[tp.topic].is_of_another(ids[tp.topic])
            }
            self._noted = await self.notes.reached(self._noted, valid, ids)
            self._last_note = time.monotonic()
        self._unnoted = {tp: at for tp, at in self._unnoted.items() if offsets.get(tp) != at}

    async def _note_at_end(self) -> None:
        """Note the progress; do not wait for a broker that does not answer."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                while self._unnoted:  # again, if another task acknowledged meanwhile
                    await self._note(dict(self._unnoted))
        except (SubscriberError, TimeoutError) as error:
            log.warning("the progress of the last minutes was not noted: %s", error)

    # --- membership ---

    def _on_assigned(self, partitions: frozenset[Partition]) -> None:
        self._generation += 1
        self._assigned = self._unplaced = partitions
        self._unnoted = {}
        self._unstick(list(self._stuck))
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
            await self._begin(consumer)
        except BaseException:
            await stack.aclose()
            raise
        self._member, self._consumer = stack, consumer
        return consumer

    async def _left(self, reason: str) -> None:
        """Leave the group, to join it again at the next call."""
        if self._preparing is not None:
            preparing, self._preparing = self._preparing, None
            preparing.cancel()
            await asyncio.wait([preparing])
            if not preparing.cancelled():
                preparing.exception()
        self._consumer = None
        self._take_back(reason)
        self._on_assigned(frozenset())
        await self._member.aclose()

    async def rejoin(self, reason: str) -> None:
        """Leave the group, to join it again at the next call; all batches in flight are delivered again."""
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
