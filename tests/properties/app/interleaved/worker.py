"""A worker that leads a destination, with the product's publisher and recovery, one request at a time.

Invariant: each request waits until it is released; the request or its answer may be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import Enum
from typing import Any, TypeVar, cast

from app.worker.destination.takeover.recovery import folded
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.publish.publisher import Publisher, TopicPlans
from app.worker.pipeline.rules import PublishingRules
from connectors.errors import AqueductError, Fenced, JournalDamaged, KafkaLost
from connectors.kafka.record_batches import Sendable
from connectors.mysql.gtid import GtidSet
from tables.state.cursor import Cursor
from tables.state.journal import state as journal
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.journal.state import DestinationState
from tests.made import SERVER
from tests.properties.app.interleaved.broker import Broker, Place
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import first_cursor, gtids_to, joined, pickled, run

T = TypeVar("T")
DESTINATION, ID = "shop", "i.shop"
JOURNAL: Place = ("aq.__journal", 0)
PLANS = TopicPlans(
    prefix="aq",
    replication_factor=1,
    cleanup_policy="delete",
    retention_ms=-1,
    max_message_bytes=1_000_000,
    journal_partitions=1,
    offline_seconds=120.0,
)


class Fate(Enum):
    """The outcome of a request."""

    ANSWERED = "answered"
    LOST = "lost"
    ANSWER_LOST = "answer lost"


class Link:
    """The requests of one worker, which wait to be let through."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[Fate] | None = None

    @property
    def waits(self) -> bool:
        """Whether there is a request."""
        return self._waiting is not None and not self._waiting.done()

    def let(self, fate: Fate) -> None:
        """Decide the outcome of the request that waits."""
        assert self._waiting is not None
        self._waiting.set_result(fate)

    async def ask(self, what: Callable[[], T]) -> T:
        """Send a request; raise KafkaLost where no answer comes."""
        self._waiting = asyncio.get_running_loop().create_future()
        fate = await self._waiting
        if fate is Fate.LOST:
            raise KafkaLost("the request was lost")
        answer = what()
        if fate is Fate.ANSWER_LOST:
            raise KafkaLost("the answer was lost")
        return answer


class _Producer:
    """The twin of TransactionalProducer, and of aiokafka's producer within a transaction."""

    def __init__(self, broker: Broker, link: Link) -> None:
        self._broker, self._link = broker, link
        self._epoch = -1

    async def init_transactions(self) -> None:
        self._epoch = await self._link.ask(lambda: self._broker.take_over(ID))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[_Producer]:
        yield self
        await self._link.ask(lambda: self._broker.commit(ID, self._epoch))

    async def send(
        self, topic: str, *, key: bytes, value: bytes, partition: int
    ) -> asyncio.Future[None]:
        return await self._sent((topic, partition), key, value)

    async def send_batch(
        self, batch: Sendable, topic: str, *, partition: int
    ) -> asyncio.Future[None]:
        return await self._sent((topic, partition), b"", bytes(batch._build()))

    async def _sent(self, position: Place, key: bytes, value: bytes) -> asyncio.Future[None]:
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            await self._link.ask(lambda: self._broker.write(ID, self._epoch, position, key, value))
        except AqueductError as error:
            # As aiokafka has it: the future has the outcome.
            sent.set_exception(error)
            return sent
        sent.set_result(None)
        return sent

    async def learn(self, _topics: object) -> None:
        """All partitions are known."""

    async def ensure(self, *_plans: object, before: Container[str] = ()) -> None:
        """All topics are there."""

    async def unwritable(self, _topics: object) -> dict[str, AqueductError]:
        """All topics may be written to."""
        return {}


def delivered(cursor: Cursor) -> int:
    """How many transactions are before a cursor."""
    gtids = cursor.offset.gtid_set
    assert isinstance(gtids, GtidSet)
    count = 0
    while f"{SERVER}:{count + 1}" in gtids:
        count += 1
    assert gtids == gtids_to(count)
    return count


class Worker:
    """A process: its link and its checkpoint, which outlives its runs and not its death."""

    def __init__(self, broker: Broker, sources: Callable[[], Sequence[Source]]) -> None:
        self.link = Link()
        self.checkpoint = MemoryCheckpoint()
        self.folded = 0
        """Up to which offset its agent has folded the journal."""
        self.epoch = 0
        self.is_superseded = False
        self.ended: AqueductError | None = None
        self._broker, self._sources = broker, sources

    async def lead(self, *, server: int, cut: Sequence[bool], rules: PublishingRules) -> None:
        """A run: take over, recover, claim, publish; ends only by an error."""
        self.epoch, self.is_superseded, self.ended = 0, False, None
        try:
            await self._run(server=server, cut=cut, rules=rules)
        except AqueductError as error:
            self.ended = error
            if isinstance(error, JournalDamaged):
                raise

    async def _run(self, *, server: int, cut: Sequence[bool], rules: PublishingRules) -> None:
        producer = _Producer(self._broker, self.link)
        await producer.init_transactions()
        state = await folded(DESTINATION, self.checkpoint, self.read)
        if not state.is_whole():
            raise JournalDamaged(state.lack())
        old = state.cursor
        cursor = replace(old, epoch=old.epoch + 1) if old else first_cursor(self._sources()[0])
        publisher = Publisher(
            cast(Any, producer), plans=PLANS, topics=cast(Any, producer), cursor=cursor
        )
        await publisher.claim()
        self.epoch = cursor.epoch
        versions = dict(state.versions)
        while True:
            await self.link.ask(lambda: None)
            for piece in self._pieces(publisher.cursor, versions, server, cut, rules):
                if self.is_superseded:
                    raise Fenced
                await publisher.publish(piece)
                versions |= {(one.database, one.table): one for one in piece.tables.versions}

    def _pieces(
        self,
        cursor: Cursor,
        versions: Any,
        server: int,
        cut: Sequence[bool],
        rules: PublishingRules,
    ) -> list[Piece]:
        source = self._sources()[server]
        count = delivered(cursor)
        if count == len(source.starts):
            return []
        # Any server with GTIDs is as good as another: the next transaction stands somewhere in each.
        start = source.starts[count]
        return joined(run(source.chunks(start, cut), pickled(cursor), versions, rules))

    async def read(self, state: DestinationState, start: int) -> None:
        """Fold the journal from an offset on, up to the end that it has now."""
        end = await self.link.ask(lambda: self._broker.end(JOURNAL))
        while (records := self._broker.read(JOURNAL, start, end)) is None:
            await self.link.ask(lambda: None)
        for record in records:
            state.apply(record)

    def fold(self, count: int) -> None:
        """What the agent does meanwhile: fold some more of the journal."""
        end = min(self._broker.end(JOURNAL), self.folded + count)
        records = self._broker.read(JOURNAL, self.folded, end)
        if records is None:
            return
        for record in records:
            self.checkpoint.fold(record)
            if record.key == journal.cursor_key(DESTINATION):
                cursor = Cursor.from_json(journal.decoded(record))
                self.is_superseded |= bool(self.epoch and cursor.epoch > self.epoch)
        self.folded = end
