"""One destination's run: lead, recover, read, publish; and again after what time heals.

The law: a run begins from the journal, never from memory. Whatever ends it, its reader, its queue and its
producer are thrown away before the next begins.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app import metrics
from app.decoding.start import start as start_decoders
from app.handoff import MAX_BYTES, Handoff
from app.pipeline.numbers import Numbers
from app.pipeline.piece import Piece
from app.pipeline.rules import Rules
from app.pipeline.stage import StageSpec
from app.policy import ErrorPolicy
from app.publisher import Publisher, TopicPlans
from app.reader import Reader
from app.recovery import installation_of, recover
from app.status import DestinationStatus, State
from connectors.errors import AqueductError, Fenced, ServerIdConflict
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.topics import Topics
from connectors.mysql import preflight
from connectors.mysql.kinds import type_name
from connectors.mysql.server import ServerFacts, SourceAddress, read_facts
from connectors.mysql.start import Start, as_of_now, check, first_offset
from connectors.mysql.stream import BinlogStream
from tables.checkpoint import Checkpoint
from tables.cursor import Cursor
from tables.journal import DestinationState

log = logging.getLogger(__name__)

_IDLE_CURSOR_SECONDS = 10.0
"""How often the cursor alone is committed while nothing is captured."""
_JOURNAL_SECONDS = 3.0
"""Within which another leader's claim reaches us through the journal."""
_REPLICAS = uuid.UUID("5b1c2a52-6d0e-4a5c-8f2e-3f1f0c7d9a11")
"""The namespace of the UUIDs by which MySQL knows our destinations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a destination's run needs to know, from the settings."""

    name: str
    worker: str
    address: SourceAddress
    start: Start
    rules: Rules
    topics: TopicPlans
    kafka_options: Mapping[str, Any]
    compression: str | None
    interval: float
    """Seconds between two Kafka transactions, at the least."""
    decoders: int
    """Processes that decode; 0 decodes in the worker's own."""


class Destination:
    """A destination on this worker, over all its runs."""

    def __init__(self, plan: Plan, checkpoint: Checkpoint) -> None:
        self.plan = plan
        self.status = DestinationStatus(plan.name)
        self._checkpoint = checkpoint
        self._policy = ErrorPolicy()
        self._epoch = 0
        self._superseded_by = 0

    async def run(self) -> None:
        """Run until cancelled, or until an error that only a person can mend."""
        try:
            await self._run_again_and_again()
        except asyncio.CancelledError:
            self._show(State.STOPPED, None)
            raise

    async def _run_again_and_again(self) -> None:
        while True:
            try:
                self._show(State.STARTING, None)
                await self._run_once()
            except AqueductError as raised:
                error = await self._true_cause(raised)
                error.where = {"destination": self.plan.name, **error.where}
                decision = self._policy.decide(error)
                metrics.ERRORS.labels(self.plan.name, error.name).inc()
                if "event" in error.where:
                    kind = str(error.where["event"])
                    metrics.EVENTS.labels(self.plan.name, kind, "refused").inc()
                self._show(decision.state, f"{error.name}: {error}")
                log.error("%s: %s: %s: %s", self.plan.name, decision.state.value, error.name, error)
                if decision.pause is None:
                    return
                await asyncio.sleep(decision.pause)

    def observe(self, cursor: Cursor) -> None:
        """Take note of a cursor that was folded from the journal: a greater epoch is another leader's."""
        if self._epoch and cursor.epoch > self._epoch:
            self._superseded_by = cursor.epoch

    async def _true_cause(self, error: AqueductError) -> AqueductError:
        """MySQL drops the old connection of a destination when another worker takes it over; the journal
        tells that from a stranger with our server_id."""
        if isinstance(error, ServerIdConflict):
            await asyncio.sleep(_JOURNAL_SECONDS)
            if self._superseded_by:
                return self._superseded()
        return error

    def _superseded(self) -> Fenced:
        return Fenced(f"epoch {self._superseded_by} is in the journal, this is {self._epoch}")

    def _show(self, state: State, error: str | None) -> None:
        self.status.state, self.status.error = state, error
        metrics.UP.labels(self.plan.name).set(state is State.RUNNING)

    async def _run_once(self) -> None:
        plan = self.plan
        topics = Topics(plan.kafka_options)
        await topics.ensure(*plan.topics.of(plan.name))
        journal = plan.topics.journal().name
        installation = await installation_of(
            journal, options=plan.kafka_options, worker=plan.worker
        )
        producer = TransactionalProducer(
            f"{installation}.{plan.name}", options=plan.kafka_options, compression=plan.compression
        )
        try:
            await producer.init_transactions()
            state = await recover(
                plan.name,
                topic=journal,
                partitions=plan.topics.journal_partitions,
                options=plan.kafka_options,
                checkpoint=self._checkpoint,
                installation=installation,
            )
            await self._lead(state, producer, topics, installation=installation)
        finally:
            await producer.discard()

    async def _lead(
        self,
        state: DestinationState,
        producer: TransactionalProducer,
        topics: Topics,
        *,
        installation: str,
    ) -> None:
        plan = self.plan
        replica = str(uuid.uuid5(_REPLICAS, f"{installation}.{plan.name}"))
        address = replace(plan.address, replica_uuid=replica)
        facts = await asyncio.to_thread(read_facts, address)
        preflight.check(facts, address)
        cursor = await self._claimed(state, facts, address, installation=installation)
        publisher = Publisher(producer, plans=plan.topics, topics=topics, cursor=cursor)
        await publisher.claim()
        self._epoch, self._superseded_by = cursor.epoch, 0
        metrics.EPOCH.labels(plan.name).set(cursor.epoch)
        log.info("%s: leads in epoch %d, from %s", plan.name, cursor.epoch, cursor.offset)
        reader = await self._reader(cursor, state, facts, address)
        reader.thread.start()
        try:
            self._show(State.RUNNING, None)
            await self._publish_all(publisher, reader.handoff)
        finally:
            reader.handoff.close()
            await asyncio.to_thread(reader.thread.stop)

    async def _claimed(
        self,
        state: DestinationState,
        facts: ServerFacts,
        address: SourceAddress,
        *,
        installation: str,
    ) -> Cursor:
        """The cursor to begin with, in an epoch of our own."""
        old = state.cursor
        if old is not None:
            offset = await asyncio.to_thread(as_of_now, old.offset, facts, address)
            check(offset, facts, address)
            return replace(old, epoch=old.epoch + 1, offset=offset)
        offset = await asyncio.to_thread(first_offset, self.plan.start, facts, address)
        return Cursor(
            destination=self.plan.name,
            installation=installation,
            epoch=1,
            seq=0,
            versions=0,
            offset=offset,
        )

    async def _reader(
        self, cursor: Cursor, state: DestinationState, facts: ServerFacts, address: SourceAddress
    ) -> _Reading:
        rules = self.plan.rules
        handoff = Handoff(
            asyncio.get_running_loop(),
            max_bytes=max(MAX_BYTES, 2 * rules.max_bytes),
            enough=rules.max_bytes,
        )
        spec = StageSpec(
            rules=rules,
            server_uuid=facts.server_uuid,
            charsets=facts.charsets,
            mariadb=facts.is_mariadb,
            epoch=cursor.epoch,
            versions=state.versions,
        )
        decoders = await asyncio.to_thread(
            start_decoders,
            spec,
            count=self.plan.decoders,
            state=Numbers.of(cursor),
            deliver=handoff.put,
            fail=handoff.fail,
            name=self.plan.name,
        )
        stream = BinlogStream(address, cursor.offset, prepared=cursor.prepared)
        try:
            await asyncio.to_thread(stream.open)
        except BaseException:
            await asyncio.to_thread(decoders.close)
            raise
        return _Reading(Reader(stream, decoders), handoff)

    async def _publish_all(self, publisher: Publisher, handoff: Handoff) -> None:
        """Publish what is read, each interval or as soon as there is enough; ends only by an error."""
        self.status.cursor = publisher.cursor
        held: Piece | None = None
        committed = 0.0
        while True:
            piece = await handoff.take(max_bytes=self.plan.rules.max_bytes, timeout=1.0)
            if self._superseded_by:
                raise Fenced(
                    f"epoch {self._superseded_by} is in the journal, this is {self._epoch}"
                )
            if piece is not None:
                if held is not None:
                    held.absorb(piece)
                held = held or piece
            if held is None:
                continue
            began = time.monotonic()
            if not (held.batches or held.versions) and began - committed < _IDLE_CURSOR_SECONDS:
                continue
            await publisher.publish(held)
            committed = time.monotonic()
            self._published(held, publisher.cursor, seconds=committed - began)
            held = None
            await handoff.gather(began + self.plan.interval - committed)

    def _published(self, piece: Piece, cursor: Cursor, *, seconds: float) -> None:
        name = self.plan.name
        self._policy.succeeded()
        self.status.cursor = cursor
        self.status.rows += piece.rows.total()
        for (kind, handling), count in piece.events.items():
            metrics.EVENTS.labels(name, type_name(kind), handling).inc(count)
        if piece.committed_ms:
            self.status.lag_seconds = max(0.0, time.time() - piece.committed_ms / 1000)
            metrics.LAG.labels(name).set(self.status.lag_seconds)
        for op, count in piece.rows.items():
            metrics.ROWS.labels(name, op).inc(count)
        metrics.RECORDS.labels(name).inc(piece.records)
        metrics.BYTES.labels(name).inc(piece.size)
        metrics.COMMITS.labels(name).observe(seconds)
        metrics.SEQ.labels(name).set(cursor.seq)


@dataclass(frozen=True, slots=True)
class _Reading:
    thread: Reader
    handoff: Handoff
