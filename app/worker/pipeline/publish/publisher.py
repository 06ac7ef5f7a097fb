"""Publishing pieces: one Kafka transaction for rows, table versions and the cursor after them.

Invariant: every send's future is awaited without error before the commit, because a refused batch does not stop
aiokafka's commit; and the cursor is the last record of its transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from app.failpoints import point
from app.worker.coordination.write_permit import WritePermit
from app.worker.pipeline.gather.captured_tables import CapturedTables
from app.worker.pipeline.piece import Decision, Piece
from app.worker.pipeline.publish.topic_ids import TopicIds
from connectors.backoff import Backoff
from connectors.errors import (
    AqueductError,
    KafkaDenied,
    KafkaLost,
    KafkaRefused,
    KafkaSlow,
    RecordTooLarge,
    Retry,
    TooFewBrokers,
    TopicGone,
    TopicReplaced,
    TopicUnfit,
    TopicUnusable,
)
from connectors.kafka.producer import TransactionalProducer, send_finished
from connectors.kafka.record_batches import FinishedBatch
from connectors.kafka.refusal_errors import refused_batch, refused_topics, too_large
from connectors.kafka.topics import Compaction, TopicPlan, Topics
from connectors.mysql.ddl.definition import Table, TableChange, TableName
from connectors.mysql.position import SourceOffset
from connectors.mysql.stream.prepared_xa import PreparedPosition
from tables.history.codec import history_records
from tables.journal_format import Entry as Note
from tables.rules.table_version import TableVersion
from tables.state.cursor import Cursor
from tables.state.journal import state as journal
from wire.topics import (
    ddl_topic,
    dead_letters_topic,
    journal_topic,
    logical_schemas_topic,
    progress_topic,
    quarantine_topic,
    schemas_topic,
    transactions_topic,
)

_COMPACTION = Compaction(
    segment_bytes=16 * 1024 * 1024,
    segment_ms=3_600_000,
    dirty_ratio=0.1,
    max_lag_ms=3_600_000,
    delete_retention_ms=60_000,
)
"""Compaction of the journal. A worker without a checkpoint reads all that is not compacted yet: some 25,000
cursors, but a gigabyte with Kafka's own default. No tombstone is written, so that only the markers of
transactions are kept for ``delete_retention_ms``; by default they stay for a day."""

_CHANGELOG_COMPACTION = replace(_COMPACTION, delete_retention_ms=3_600_000)
"""Faust's tables remove a row by a tombstone, which must stay until each worker that starts has read it."""


OF_TOPICS = (KafkaDenied, KafkaRefused, RecordTooLarge, TopicGone, TopicReplaced, TopicUnfit)
"""Errors that may concern single topics, while all other topics can be written to."""

BLIND_SECONDS = 60.0
"""The interval at which a topic that refused records is tried again, if its settings may not be read."""

_ANSWER_SECONDS = 15.0
"""Seconds for the brokers to answer which topics take no records."""

TablesOf = Callable[[str], Collection[TableName]]
"""Returns the tables that are published to a topic."""

_PROGRESS_MS = 24 * 3_600_000
"""How long a progress topic keeps records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlans:
    """The required configuration of an installation's topics."""

    prefix: str
    replication_factor: int
    cleanup_policy: str
    retention_ms: int
    max_message_bytes: int
    journal_partitions: int
    keeps_existing: bool = False
    """Whether row topics that existed before keep their partitions and their retention."""
    takes_all: bool = False
    """Whether an existing row topic must take records of ``max_message_bytes``."""
    offline_seconds: float
    """How long a destination waits for topics that take no records, before it continues without them."""
    progress: bool = False
    """Whether a destination publishes the times up to which it is complete, for a merge."""

    def rows(self, name: str, partitions: int, spread: int | None = None) -> TopicPlan:
        """Return the plan of a row topic; ``spread``: its keys' partition count, if written to before."""
        plan = self._plan(name, spread or partitions, self.cleanup_policy, self.retention_ms)
        return replace(
            plan,
            takes_all=self.takes_all,
            may_have_more=spread is not None or self.keeps_existing,
            keeps_retention=self.keeps_existing,
        )

    def journal(self) -> TopicPlan:
        """Return the plan of the journal: compacted and kept forever, with a fixed partition count."""
        plan = self._plan(journal_topic(self.prefix), self.journal_partitions, "compact", -1)
        return replace(plan, compaction=_COMPACTION)

    def changelog(self, name: str) -> TopicPlan:
        """Return the plan of a Faust table's changelog; its assignor needs the journal's partition count."""
        plan = self._plan(name, self.journal_partitions, "compact", -1)
        return replace(plan, compaction=_CHANGELOG_COMPACTION)

    def schemas(self) -> TopicPlan:
        """Return the plan of the topic of table versions."""
        return self._plan(schemas_topic(self.prefix), 1, "compact", -1)

    def logical_schemas(self) -> TopicPlan:
        """Return the plan of the topic of logical tables' schemas."""
        return self._plan(logical_schemas_topic(self.prefix), 1, "compact", -1)

    def ordered(self, name: str) -> TopicPlan:
        """Return the plan of a topic with one order per destination: transaction markers, DDL."""
        return self._plan(name, 1, "delete", self.retention_ms)

    def quarantine(self, destination: str) -> TopicPlan:
        """Return the plan of the topic of parked raw events: kept forever, since the source purges its own."""
        return self._plan(quarantine_topic(self.prefix, destination), 1, "delete", -1)

    def dead_letters(self, destination: str) -> TopicPlan:
        """Return the plan of the topic of undecodable rows: kept forever, and created with the first."""
        return self._plan(dead_letters_topic(self.prefix, destination), 1, "delete", -1)

    def progress_of(self, destination: str) -> list[TopicPlan]:
        """Return the plan of the progress topic, if there is one; only its last record counts."""
        name = progress_topic(self.prefix, destination)
        return [self._plan(name, 1, "delete", _PROGRESS_MS)] if self.progress else []

    def of(self, destination: str) -> list[TopicPlan]:
        """Return the plans of all topics that a destination needs before its first row."""
        names = (transactions_topic(self.prefix, destination), ddl_topic(self.prefix, destination))
        return [
            self.journal(),
            self.schemas(),
            *map(self.ordered, names),
            self.quarantine(destination),
            *self.progress_of(destination),
        ]

    async def ready(self, topics: Topics, destination: str, *, is_new: bool) -> None:
        """Ensure a destination's topics; create them only if it is new. Raise as ``Topics.ensure`` does."""
        plans = self.of(destination)
        await topics.ensure(*plans, before=() if is_new else {plan.name for plan in plans})

    def _plan(self, name: str, partitions: int, cleanup: str, retention_ms: int) -> TopicPlan:
        return TopicPlan(
            name=name,
            partitions=partitions,
            replication_factor=self.replication_factor,
            cleanup_policy=cleanup,
            retention_ms=retention_ms,
            max_message_bytes=self.max_message_bytes,
        )


class Publisher:
    """The one writer of a destination, for one epoch."""

    def __init__(
        self,
        producer: TransactionalProducer,
        *,
        plans: TopicPlans,
        topics: Topics,
        cursor: Cursor,
        permit: WritePermit | None = None,
        written: Mapping[str, int | None] | None = None,
        ids: TopicIds | None = None,
        offline: dict[str, float] | None = None,
    ) -> None:
        """``written``: see the attribute; ``ids``: Kafka's ids of the topics, if they are to be compared.

        ``offline``: since when topics take no records, by the monotonic clock, over all runs.
        """
        self._producer = producer
        self.ids = ids
        self.written = dict(written or {})
        """The row topics that were written to before, with their partition counts."""
        self._plans = plans
        self._topics = topics
        self._permit = permit or WritePermit()
        self._single = {plan.name for plan in plans.of(cursor.destination)}
        self._committed: set[str] = set()
        """The topics that this run has written to; it does not create them again either."""
        self._writable: set[str] = set()
        """The topics to which the account may write."""
        self.cursor = cursor
        """The cursor last committed, or to be claimed."""
        self._offline = {} if offline is None else offline
        self._refused: dict[str, AqueductError] = {}
        """The topics whose brokers have just refused records because of the topics' settings."""
        self.stated: Callable[[int], int | None] = lambda time_ms: time_ms
        """See CompletenessWatch."""

    async def claim(
        self, notes: Iterable[Note] = (), versions: Iterable[TableVersion] = ()
    ) -> None:
        """Commit the cursor and ``notes`` to the journal: a leader's first act, which shows its epoch to all.

        ``versions`` are the table versions that the schemas topic lacks.
        """
        await self._topics.ensure(*self._plans.of(self.cursor.destination))
        async with self._permit.writing(), self._producer.transaction() as kafka:
            sent = [await self._send_version(kafka, version) for version in versions]
            sent += [await self._note(kafka, note) for note in notes]
            sent.append(await self._send_cursor(kafka, self.cursor))
            await asyncio.gather(*sent)
            point("claim.before")
            self._permit.lease.check()
        point("claim.after")

    async def publish(self, piece: Piece) -> None:
        """Commit a piece and the cursor after it; on any error none of it is visible."""
        # Also the topics of versions without rows: for a version in the journal, the topic must have existed.
        topics = piece.topics
        await self.prepare(topics)
        notes = [] if self.ids is None else await self.ids.confirm(topics)
        await self._check_rights(topics)
        await self._producer.learn(set(topics))
        point("topics.made")
        cursor = _after(self.cursor, piece)
        sent: list[Any] = []
        writing = self._permit.writing()
        async with writing, self._named(piece, sent), self._producer.transaction() as kafka:
            sent += [await self._note(kafka, note) for note in notes]
            sent += [future async for future in self._sent(kafka, piece)]
            point("produce.rows")
            cursor_sent = await self._send_cursor(kafka, cursor)
            await asyncio.gather(*sent, cursor_sent)
            point("commit.before")
            self._permit.lease.check()
        point("commit.after")
        self._committed |= topics.keys()
        for batch in piece.batches:
            self._offline.pop(batch.topic, None)
        self.cursor = cursor

    async def _check_rights(self, topics: Iterable[str]) -> None:
        """Raise KafkaDenied if the account may not write to a topic, TooFewBrokers if a topic takes no records.

        Each topic is checked once in a run. In a transaction, the refusal would concern one of several
        partitions, and the outcome of the others would be in doubt. And a transaction is complete only when all
        of its partitions have its end.
        """
        unknown = {*topics} - self._writable
        refused = await self._topics.unwritable(unknown)
        if refused:
            raise refused[min(refused)]
        self._writable |= unknown

    @property
    def shows_progress(self) -> bool:
        """Whether a merge needs the time up to which this destination is published."""
        return self._plans.progress

    async def complete(self, time_ms: int) -> None:
        """Publish the time, in milliseconds since 1970, before which all source commits are published."""
        writing = self._permit.writing()
        async with writing, self._producer.transaction() as kafka:
            await (await self._send_progress(kafka, time_ms))
            self._permit.lease.check()

    async def _send_progress(self, kafka: Any, time_ms: int) -> Any:
        topic = progress_topic(self._plans.prefix, self.cursor.destination)
        value = {"complete_ms": time_ms, "epoch": self.cursor.epoch}
        return await kafka.send(topic, value=orjson.dumps(value), partition=0)

    async def prepare(self, topics: Mapping[str, int]) -> None:
        """Make sure that the row topics among these exist, with these partition counts; create each only once.

        Raise as ``Topics.ensure`` does.
        """
        wanted = sorted(topics.keys() - self._single)
        plans = [self._plan_of(name, topics[name]) for name in wanted]
        await self._topics.ensure(*plans, before=self._before())

    def _before(self) -> set[str]:
        """The topics that existed before, and are not created again."""
        known = self.ids.known if self.ids is not None else {}
        return {*self.written, *known, *self._committed}

    async def unusable(
        self, topics: Mapping[str, int], more: Mapping[str, int] | None = None
    ) -> dict[str, AqueductError]:
        """Return why row topics among these cannot be written to; create missing topics.

        ``more``: topics that are given more partitions than they were written with, and the new counts.

        Raise KafkaDenied or TooFewBrokers if the destination's own topics cannot be written to, and KafkaLost.
        """
        destination = self.cursor.destination
        refused = await self._topics.unwritable({*self._single, *topics})
        if own := sorted(self._single & refused.keys()):
            raise refused[own[0]]
        rows = {*topics} - self._single
        rows.discard(dead_letters_topic(self._plans.prefix, destination))
        found = {name: refused[name] for name in rows & refused.keys()}
        self._topics.forget(rows)
        plans = [self._plan_of(name, topics[name]) for name in sorted(rows - found.keys())]
        found |= await self._topics.unfit(*plans, before=self._before())
        if self.ids is not None:
            found |= (await self.ids.check_each(rows - found.keys()))[1]
        if more := {name: count for name, count in (more or {}).items() if name not in found}:
            found |= await self._topics.grow(more)
        for error in found.values():
            error.context["destination"] = destination
        return found

    async def of_tables(
        self,
        error: AqueductError,
        topics: Mapping[str, int],
        tables: TablesOf,
        *,
        is_waiting: bool = False,
    ) -> AqueductError:
        """Return the error of the tables whose topics cause ``error``, or ``error`` if it has another cause.

        ``topics``: the topics that were to be written to, with their partition counts. A topic that takes no
        records now is waited for at first, unless the tables wait already (``is_waiting``).
        """
        try:
            async with asyncio.timeout(_ANSWER_SECONDS if isinstance(error, KafkaLost) else None):
                unfit = await self.unusable(topics)
                waited_for = {} if is_waiting else await self._waited_for(topics, unfit)
        except (KafkaLost, TimeoutError) as lost:
            # Kafka does not answer, or the destination's own topics take no records: it is waited for.
            if isinstance(error, KafkaLost):
                return lost if isinstance(lost, TooFewBrokers) else error
            raise
        unfit = {name: one for name, one in unfit.items() if name not in waited_for}
        refused = {name: one for name, one in self._refused.items() if name not in unfit}
        unusable = refused | unfit
        found = {name: one.in_one_line for topic, one in unusable.items() for name in tables(topic)}
        if not found or not all(tables(topic) for topic in unusable):
            return waited_for[min(waited_for)] if waited_for and not unusable else error
        digests: dict[TableName, dict[str, str]] = {}
        for topic, digest in (await self.digests(refused)).items():
            for name in tables(topic):
                digests.setdefault(name, {})[topic] = digest
        return TopicUnusable.of_all(found, digests)

    async def _waited_for(
        self, topics: Iterable[str], unfit: Mapping[str, AqueductError]
    ) -> dict[str, AqueductError]:
        """Return the topics that take no records now and are waited for.

        A topic is waited for while it has not been offline for long, or while no other row topic takes records
        either, so that nothing could be published without it.
        """
        now = time.monotonic()
        offline: dict[str, AqueductError] = {
            name: one for name, one in unfit.items() if isinstance(one, TooFewBrokers)
        }
        for name in {*topics} - offline.keys():
            self._offline.pop(name, None)
        if not offline:
            return {}
        others = {*self.written} - offline.keys()
        refused = await self._topics.unwritable(others)
        if self.written and not others - refused.keys():
            return offline
        return {
            name: one
            for name, one in offline.items()
            if now - self._offline.setdefault(name, now) < self._plans.offline_seconds
        }

    async def digests(self, topics: Collection[str]) -> dict[str, str]:
        """Return digests of the settings by which brokers judge the records of these topics.

        A digest is empty if the settings may not be read.
        """
        if not topics:
            return {}
        found = await self._topics.digests(topics)
        ours = f"{self._producer.compression} {self._plans.max_message_bytes}"
        return {name: f"{ours} {found[name]}" if name in found else "" for name in topics}

    def _plan_of(self, name: str, partitions: int) -> TopicPlan:
        """Return the plan of a topic that is created at its first write."""
        destination = self.cursor.destination
        if name == dead_letters_topic(self._plans.prefix, destination):
            return self._plans.dead_letters(destination)
        return self._plans.rows(name, partitions, self.written.get(name))

    @contextlib.asynccontextmanager
    async def _named(self, piece: Piece, sent: list[Any]) -> AsyncIterator[None]:
        """Name the record in the error if the broker refuses it as too large; note topics that refuse records.

        ``sent`` ends with the futures of the batches.
        """
        self._refused = {}
        try:
            yield
        except KafkaSlow as error:
            raise KafkaSlow(
                error.detail, records=piece.records, bytes=sum(len(b.raw) for b in piece.batches)
            ) from error
        except KafkaRefused:
            self._refused = refused_topics(_of_batches(piece, sent))
            raise
        except RecordTooLarge as error:
            batch = refused_batch(_of_batches(piece, sent), error.__cause__)
            if batch is None:
                raise
            limit = await self._topics.largest(batch.topic)
            found = too_large(batch, limit)
            if (
                isinstance(found, RecordTooLarge)
                and limit
                and limit < self._plans.max_message_bytes
            ):
                # The topic's own limit refused it; a record above our limit is a matter of ``oversize``.
                self._refused = {batch.topic: found}
            raise found from error

    async def _sent(self, kafka: Any, piece: Piece) -> Any:
        for version in piece.tables.versions:
            yield await self._send_version(kafka, version)
            value = journal.encoded(version.to_json())
            yield await self._note(kafka, (journal.version_key(version), value))
        # A checkpoint of the history, among the notes, is older than this piece, whose records follow it.
        for note in piece.notes:
            yield await self._note(kafka, note)
        for record in piece.tables.history:
            for note in history_records(record):
                yield await self._note(kafka, note)
        point("produce.schemas")
        if self._plans.progress and piece.committed_ms:
            time_ms = self.stated(piece.committed_ms)
            if time_ms is not None:
                yield await self._send_progress(kafka, time_ms)
        for batch in piece.batches:
            yield await send_finished(kafka, batch)

    async def _send_version(self, kafka: Any, version: TableVersion) -> Any:
        key, value = orjson.dumps(version.key_json()), orjson.dumps(version.to_json())
        return await kafka.send(
            schemas_topic(self._plans.prefix), key=key, value=value, partition=0
        )

    async def _note(self, kafka: Any, note: Note) -> Any:
        return await kafka.send(
            journal_topic(self._plans.prefix),
            key=note[0],
            value=note[1],
            partition=journal.partition_of(self.cursor.destination, self._plans.journal_partitions),
        )

    async def _send_cursor(self, kafka: Any, cursor: Cursor) -> Any:
        note = journal.cursor_key(cursor.destination), journal.encoded(cursor.to_json())
        return await self._note(kafka, note)


def _of_batches(piece: Piece, sent: list[Any]) -> Iterable[tuple[FinishedBatch, Any]]:
    """The batches of a piece, each with its future; ``sent`` ends with these futures."""
    return zip(reversed(piece.batches), reversed(sent), strict=False)


def _after(cursor: Cursor, piece: Piece) -> Cursor:
    old = cursor.offset
    gtids = old.gtid_set
    if gtids is not None and piece.trace.gtids:
        gtids = gtids.copy()
        for source, first, last in piece.trace.gtids:
            gtids.add_interval(source, first, last)
    return Cursor(
        destination=cursor.destination,
        installation=cursor.installation,
        epoch=cursor.epoch,
        seq=piece.seq,
        versions=piece.version_count,
        offset=SourceOffset(
            server_uuid=old.server_uuid, coordinates=piece.coordinates, gtid_set=gtids
        ),
        resume=piece.resume,
        prepared=_decided(cursor.prepared, piece.trace.decisions),
        history=piece.tables.last_record(cursor.history),
        written_ms=time.time_ns() // 1_000_000,
        proof=cursor.proof.after(piece.trace.landmark, piece.trace.recent, piece.trace.head),
    )


def _decided(
    prepared: Mapping[str, PreparedPosition], decisions: list[Decision]
) -> Mapping[str, PreparedPosition]:
    """Return the prepared XA transactions after these decisions."""
    if not decisions:
        return prepared
    after = dict(prepared)
    for xid, position in decisions:
        if position is None:
            after.pop(xid, None)
        else:
            after[xid] = position
    return after


# Topics created before the rows that need them, concurrently with publishing.
#
# Invariant: this only saves time. A topic that it cannot make is made or reported as an error
# when needed. A topic that was written to before is never created again. No table with a shadow's
# name has its topic made before a row needs it.

log = logging.getLogger(__name__)

_PORTION = 200
"""Topics per request, so that newer ones need not wait for all older ones."""


class TopicPreparation:
    """Makes topics for one run of a destination."""

    def __init__(self, publisher: Publisher, tables: CapturedTables) -> None:
        """``tables``: the captured tables; owned by this object."""
        self._publisher, self._tables = publisher, tables
        self._loop = asyncio.get_running_loop()
        self._wanted: dict[str, int] = {}
        """Topics to create, each with its partition count."""
        self._requested: set[str] = set()
        self._woken = asyncio.Event()

    def begin(self, tables: Iterable[tuple[str, str]]) -> None:
        """Request the topics of these tables, if captured; called before any piece is seen."""
        self._want(self._certain(tables))

    def seen(self, piece: Piece) -> None:
        """From any thread: request the topics that a piece needs, and those of tables created in it."""
        found = piece.topics
        for record in piece.tables.history:
            self._tables.learn(record)
            found |= self._certain(
                change.name
                for change in record.changes
                if isinstance(change, TableChange) and isinstance(change.new, Table)
            )
        if not found.keys() <= self._requested:
            self._requested |= found.keys()
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                self._loop.call_soon_threadsafe(self._want, found)

    def _certain(self, names: Iterable[tuple[str, str]]) -> dict[str, int]:
        """Return the topics of the tables that are captured as long as they keep their names.

        A tool may swap tables in two steps, between which the main table of its shadows does not exist. So the
        topic of any table with a shadow's name waits for a row.
        """
        tables = self._tables
        routes = [
            tables.route(name)
            for name in names
            if not tables.may_be_shadow(name) and not tables.is_quarantined(name)
        ]
        return {one.topic: one.partitions for one in routes if one is not None and not one.fault}

    def _want(self, topics: Mapping[str, int]) -> None:
        self._wanted |= topics
        if self._wanted:
            self._woken.set()

    async def make_all(self) -> None:
        """Create requested topics, as long as the run lasts."""
        backoff = Backoff(1.0, 30.0)
        while True:
            await self._woken.wait()
            portion = dict(list(self._wanted.items())[-_PORTION:])
            try:
                await self._publisher.prepare(portion)
                backoff.reset()
            except AqueductError as error:
                log.info(
                    "%s: topics are not created in advance: %s",
                    self._publisher.cursor.destination,
                    error,
                )
                if error.retry is Retry.TIMED:
                    await asyncio.sleep(backoff.pause())
                    continue
            for name in portion:
                self._wanted.pop(name, None)
            if not self._wanted:
                self._woken.clear()
