"""One run of a destination: lead, recover, bring tables back, read, publish.

The law: a run begins from the journal, never from memory. Whatever ends it, its reader, its queue and its
producer are thrown away before the next begins.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app import metrics
from app.central_store import Mirror
from app.decoding.start import start as start_decoders
from app.expiry import Expiry
from app.handoff import MAX_BYTES, Handoff
from app.historian import Historian
from app.opening import Opened, Opening, tells_columns
from app.pipeline.numbers import Numbers
from app.pipeline.piece import Piece
from app.pipeline.rules import Rules
from app.pipeline.stage import StageSpec
from app.policy import ErrorPolicy
from app.publisher import Publisher, TopicPlans
from app.reader import Reader
from app.recovery import installation_of, recover
from app.releasing import Releasing
from app.schemas import Schemas
from app.status import DestinationStatus, State
from connectors.errors import BeginsAnew, Fenced, HistoryTooShort, WitnessesDiffer
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.topics import Topics
from connectors.mysql import preflight
from connectors.mysql.baseline import server_of
from connectors.mysql.kinds import type_name
from connectors.mysql.position import Coordinates
from connectors.mysql.server import ServerFacts, SourceAddress, read_facts
from connectors.mysql.start import Start
from connectors.mysql.stream import BinlogStream
from tables.checkpoint import Checkpoint
from tables.cursor import Cursor
from tables.history import SchemaHistory
from tables.journal import DestinationState, partition_of
from tables.journal_format import Entry as Note
from tables.place import HistoryPlace
from tables.quarantine import Quarantine, Resolution, note_of
from tables.schema_checkpoint import CheckpointPolicy

log = logging.getLogger(__name__)

_IDLE_CURSOR_SECONDS = 10.0
"""How often the cursor alone is committed while nothing is captured."""
_NEAR_SECONDS = 2.0
"""A destination that lags no more has all but reached the end of the binlog."""
_PARTIAL_SECONDS = 600.0
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
    history: CheckpointPolicy | None = field(default_factory=CheckpointPolicy)
    """How the schema history is kept; None keeps none."""


@dataclass(slots=True)
class Signals:
    """What reaches a run from outside, through the journal."""

    epoch: int = 0
    """The one this worker leads in; 0 before it does."""
    superseded_by: int = 0
    resolution: Resolution | None = None
    """What a person has said last of a table that is set aside."""

    def check(self) -> None:
        """Raise Fenced where another worker leads."""
        if self.superseded_by:
            raise Fenced(f"epoch {self.superseded_by} is in the journal, this is {self.epoch}")


@dataclass(slots=True, kw_only=True)
class Run:
    """A run, from the beginning to the error that ends it."""

    plan: Plan
    status: DestinationStatus
    checkpoint: Checkpoint
    policy: ErrorPolicy
    signals: Signals
    mirror: Mirror | None = None
    """What tells the central schema store of this destination."""
    unreadable: list[WitnessesDiffer] = field(default_factory=list)
    """Tables that the run before could not read."""
    _is_partial: bool = False
    """Whether the history lacks tables because this run began too far in the past."""
    _next_try: float = 0.0
    """By the monotonic clock."""

    async def run(self) -> None:
        """Go on until an error."""
        plan = self.plan
        topics = Topics(plan.kafka_options)
        await topics.ensure(*plan.topics.of(plan.name))
        journal_name = plan.topics.journal().name
        installation = await installation_of(
            journal_name, options=plan.kafka_options, worker=plan.worker
        )
        producer = TransactionalProducer(
            f"{installation}.{plan.name}", options=plan.kafka_options, compression=plan.compression
        )
        try:
            await producer.init_transactions()
            await self._lead(producer, topics, installation=installation)
        finally:
            await producer.discard()

    async def _recovered(
        self, installation: str, *, whole_history: bool = False
    ) -> DestinationState:
        plan = self.plan
        return await recover(
            plan.name,
            topic=plan.topics.journal().name,
            partitions=plan.topics.journal_partitions,
            options=plan.kafka_options,
            checkpoint=self.checkpoint,
            installation=installation,
            whole_history=whole_history,
        )

    async def _lead(
        self, producer: TransactionalProducer, topics: Topics, *, installation: str
    ) -> None:
        plan = self.plan
        state = await self._recovered(installation)
        replica = str(uuid.uuid5(_REPLICAS, f"{installation}.{plan.name}"))
        address = replace(plan.address, replica_uuid=replica)
        facts = await asyncio.to_thread(read_facts, address)
        preflight.check(facts, address, history=plan.history is not None)
        try:
            opened = await self._opened(state, facts, address, installation=installation)
        except HistoryTooShort:
            # The cursor was set back behind the newest checkpoint; the journal holds older ones.
            state = await self._recovered(installation, whole_history=True)
            opened = await self._opened(state, facts, address, installation=installation)
        self._is_partial = opened.is_partial
        publisher = Publisher(producer, plans=plan.topics, topics=topics, cursor=opened.cursor)
        aside = self._set_aside(state.quarantine, facts, opened.cursor)
        await publisher.claim([*opened.notes, *aside])
        self._leads(opened.cursor)
        spec = self._spec(facts, state, opened.cursor)
        if opened.history is not None:
            releasing = Releasing(publisher, opened.history, spec, options=plan.kafka_options)
            await releasing.release(state.quarantine)
            self.status.rows += releasing.rows
            spec = releasing.spec
        expiry = Expiry(
            plan.name,
            options=plan.kafka_options,
            topic=plan.topics.journal().name,
            partition=partition_of(plan.name, plan.topics.journal_partitions),
        )
        schemas = Schemas(
            opened.history,
            state.quarantine,
            plan.rules,
            self.status,
            expiry=expiry,
            mirror=self.mirror,
        )
        schemas.begun(publisher.cursor)
        spec = replace(spec, known=schemas.known())
        reading = await self._reading(publisher.cursor, spec, opened.history, address)
        reading.thread.start()
        try:
            self.status.show(State.RUNNING, None)
            await self._publish_all(publisher, reading.handoff, schemas)
        finally:
            expiry.close()
            reading.handoff.close()
            await asyncio.to_thread(reading.thread.stop)

    async def _opened(
        self,
        state: DestinationState,
        facts: ServerFacts,
        address: SourceAddress,
        *,
        installation: str,
    ) -> Opened:
        plan = self.plan
        opening = Opening(
            destination=plan.name,
            installation=installation,
            start=plan.start,
            facts=facts,
            address=address,
            policy=plan.history,
        )
        return await asyncio.to_thread(opening.open, state)

    def _set_aside(self, quarantine: Quarantine, facts: ServerFacts, cursor: Cursor) -> list[Note]:
        """Note the tables that the run before could not read."""
        found, self.unreadable = self.unreadable, []
        notes = []
        for error in found:
            place, gtid = error.where.get("coordinates"), error.where.get("gtid")
            at = place if isinstance(place, Coordinates) else cursor.offset.coordinates
            since = HistoryPlace(
                server_uuid=facts.server_uuid,
                start=at,
                end=at,
                gtid=str(gtid) if gtid else None,
                ts_ms=time.time_ns() // 1_000_000,
            )
            entry = quarantine.add(error.name_of_table, error.detail, since)
            notes.append(note_of(entry))
        return notes

    def _leads(self, cursor: Cursor) -> None:
        name = self.plan.name
        self.signals.epoch, self.signals.superseded_by = cursor.epoch, 0
        metrics.EPOCH.labels(name).set(cursor.epoch)
        log.info("%s: leads in epoch %d, from %s", name, cursor.epoch, cursor.offset)

    def _spec(self, facts: ServerFacts, state: DestinationState, cursor: Cursor) -> StageSpec:
        return StageSpec(
            rules=self.plan.rules,
            server_uuid=facts.server_uuid,
            charsets=facts.charsets,
            mariadb=facts.is_mariadb,
            epoch=cursor.epoch,
            versions=state.versions,
            server=server_of(facts),
            told=tells_columns(facts),
        )

    async def _reading(
        self,
        cursor: Cursor,
        spec: StageSpec,
        history: SchemaHistory | None,
        address: SourceAddress,
    ) -> _Reading:
        rules = self.plan.rules
        handoff = Handoff(
            asyncio.get_running_loop(),
            max_bytes=max(MAX_BYTES, 2 * rules.max_bytes),
            enough=rules.max_bytes,
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
        historian = Historian.of(history, spec) if history is not None else None
        return _Reading(Reader(stream, decoders, historian), handoff)

    async def _publish_all(self, publisher: Publisher, handoff: Handoff, schemas: Schemas) -> None:
        """Publish what is read, each interval or as soon as there is enough; ends only by an error."""
        self.status.cursor = publisher.cursor
        held: Piece | None = None
        committed = 0.0
        while True:
            piece = await handoff.take(max_bytes=self.plan.rules.max_bytes, timeout=1.0)
            self.signals.check()
            if schemas.waits_for(self.signals.resolution):
                raise BeginsAnew("to bring a table back")
            if piece is not None:
                if held is not None:
                    held.absorb(piece)
                held = held or piece
            if held is None:
                continue
            began = time.monotonic()
            if held.only_moves and began - committed < _IDLE_CURSOR_SECONDS:
                continue
            schemas.complete(held, publisher.cursor)
            await publisher.publish(held)
            committed = time.monotonic()
            schemas.committed(held, publisher.cursor)
            self._published(held, publisher.cursor, seconds=committed - began)
            if self._may_complete():
                raise BeginsAnew("to take tables into its schema history, now that it is near them")
            held = None
            await handoff.gather(began + self.plan.interval - committed)

    def _may_complete(self) -> bool:
        """Whether tables can be taken into the history at last; tried from time to time."""
        lag, now = self.status.lag_seconds, time.monotonic()
        if not self._is_partial or lag is None or lag > _NEAR_SECONDS or now < self._next_try:
            return False
        self._next_try = now + _PARTIAL_SECONDS
        return True

    def _published(self, piece: Piece, cursor: Cursor, *, seconds: float) -> None:
        name = self.plan.name
        self.policy.succeeded()
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
