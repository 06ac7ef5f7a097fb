"""One run of the publication of logical schemas: table versions, statements and decisions in, schemas out.

Invariant: a run first fences every earlier run, then reads the schemas published last. Each Kafka transaction
holds schemas that changed and the outcomes of the decisions that changed them, so each change is published
exactly once. A logical table whose content is not certain waits by its name, and no other one waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import orjson

from app.worker.coordination.write_permit import WritePermit
from app.worker.destination.background import beside
from app.worker.destination.takeover.recovery import committed_state
from app.worker.logical_schemas.plan import (
    LogicalSchemasPlan,
    LogicalSchemasStatus,
    RefusedSchema,
)
from app.worker.pipeline.publish.publisher import BLIND_SECONDS
from app.worker.pipeline.publish.topic_ids import TopicIds
from app.worker.pipeline.publish.transaction_size import Budget
from app.worker.status import State
from app.worker.unit.run_loop import Installation
from app.worker.unit.takeover import UnitTakeover
from connectors.errors import (
    AqueductError,
    BatchTooLarge,
    JournalTooNew,
    JournalUnreadable,
    KafkaDenied,
    KafkaLost,
    KafkaSlow,
    RecordForeign,
    RecordsGone,
    RecordTooLarge,
    RunRestarts,
)
from connectors.kafka.producer import (
    ANSWER_TIMEOUT,
    MAX_BATCH_BYTES,
    TransactionalProducer,
    send_finished,
)
from connectors.kafka.reading import Follower, Partition, StoredRecord, read_to_end
from connectors.kafka.record_batches import BatchWriter, FinishedBatch
from connectors.kafka.refusal_errors import refused_batch
from connectors.kafka.topics import Topics
from connectors.mysql.ddl.definition import TableName
from tables.history.logical_schemas.decisions import (
    DECIDED,
    DECISION,
    DECISIONS_PART,
    UNIT,
    Decided,
    Decision,
    Decisions,
    Verb,
    decided_in,
    note_of_decided,
    note_of_decision,
    outcome_key,
    table_of,
)
from tables.history.logical_schemas.logical_schema import refusal, types_of
from tables.history.logical_schemas.logical_tables import (
    LogicalTables,
    version_in,
    version_key_in,
)
from tables.history.logical_schemas.published import PublishedSchema, key_name, next_published
from tables.history.logical_schemas.shard import ShardName
from tables.journal_format import is_tombstone
from tables.rules.routes.routes import Routes
from tables.state.journal.state import DestinationState
from wire.topics import ddl_topic, schemas_topic

log = logging.getLogger(__name__)

_READ_SECONDS = 0.5
_LOOK_SECONDS = 1.0
"""The interval of checks for topics that the destinations have not created yet, or that cannot be read."""
_ASK_SECONDS = 5.0
"""The interval of questions to the brokers: which missing topics are only hidden, and what settings a topic has
that refused a record."""
_MOST_SCHEMAS = 200
"""The maximum number of schemas in one Kafka transaction."""
MOST_BYTES = 4 * 1024 * 1024
"""The maximum bytes of keys and values in one Kafka transaction."""
_ROOM = 1024
"""Bytes that the limit of a topic is to exceed a record that it refused."""
Update = tuple[TableName, PublishedSchema | None]
"""A logical table and its new record; None removes the published record, as no shard remains."""
Skip = tuple[str, int, str]
"""The topic and the offset of a record that is not taken, and why."""


@dataclass(slots=True, kw_only=True)
class LogicalSchemasRun:
    """A run, from its first read to the error that ends it."""

    plan: LogicalSchemasPlan
    status: LogicalSchemasStatus
    permit: WritePermit
    installation: Installation
    takeover: UnitTakeover
    budget: Budget
    """The maximum size of a transaction and of a batch, over all runs."""
    succeeded: Callable[[], None]
    """Called after each commit."""
    _topics: Topics = field(init=False)
    _tables: LogicalTables = field(default_factory=LogicalTables)
    _decisions: Decisions = field(default_factory=Decisions)
    _unreadable: dict[bytes, AqueductError] = field(default_factory=dict)
    """The errors of decisions and outcomes that cannot be read, by key."""
    _published: dict[TableName, PublishedSchema] = field(default_factory=dict)
    _followed: dict[Partition, int] = field(default_factory=dict)
    """The partitions that are followed, each with the offset up to which it must be read before anything that
    it concerns is published."""
    _hidden: frozenset[str] = frozenset()
    """The missing topics that exist, as of the last question, but that the account may not see."""
    _troubles: dict[str, AqueductError] = field(default_factory=dict)
    """The topics that cannot be read now, as of the last check."""
    _behind: set[TableName] = field(default_factory=set)
    """The logical tables that changed and are not published, as they wait or are still being read."""
    _stuck: dict[TableName, str] = field(default_factory=dict)
    """The logical tables of which an unforeseen error prevents the schema, until they change."""
    _settings: str | None = None
    """The digest of the topic's settings, as of the last question; None if it is not known."""
    _wanted: frozenset[str] = frozenset()
    """The topics to follow, as of the last check for them."""
    _looked: float = float("-inf")
    _asked_hidden: float = float("-inf")
    _asked_settings: float = float("-inf")

    async def run(self) -> None:
        """Run until an error."""
        try:
            await self._run()
        except KafkaSlow:
            self.budget.too_slow()
            raise

    async def _run(self) -> None:
        plan = self.plan
        self.status.begin()
        producer = TransactionalProducer(
            f"{await self.installation()}.{UNIT}",
            options=plan.kafka_options,
            compression=plan.compression,
            timeout_factor=self.budget.timeout_factor,
        )
        try:
            await self.takeover.take_id(producer, self.permit)
            topic, self._topics = plan.topics.logical_schemas(), Topics(plan.kafka_options)
            await self._topics.ensure(topic)
            # If the topic is recreated, the next run publishes all schemas again.
            ids = TopicIds(destination=UNIT, topics=self._topics, reread=topic.name)
            await ids.confirm([topic.name])
            await self._read_published(topic.name)
            following = Follower.opened(
                plan.kafka_options, wait_seconds=_READ_SECONDS, omits_unreadable=True
            )
            async with following as follower, beside(ids.watch()) as watched:
                state = await self._read_decisions(follower)
                await self.takeover.claim(producer, self.permit, state)
                while True:
                    if watched.done():
                        watched.result()
                    routes = self.plan.routes()
                    if routes is not None:
                        await self._look(follower, routes)
                    await self._read(follower, _READ_SECONDS)
                    if routes is None:
                        self.status.show(
                            State.STARTING,
                            "the mapping in ZooKeeper was not read yet, or it has no version",
                        )
                    elif await self._is_caught_up(follower):
                        await self._publish(producer, routes)
        finally:
            await producer.discard()

    async def _read_published(self, topic: str) -> None:
        for record in await read_to_end(self.plan.kafka_options, topic, 0):
            try:
                if record.value:
                    found = PublishedSchema.from_record(record.value)
                    self._published[found.name] = found
                else:
                    self._published.pop(key_name(record.key), None)
            except ValueError as error:
                self.status.skip(topic, record.offset, str(error))
                with contextlib.suppress(ValueError):
                    self._replace(key_name(record.key))
        for one in self._published.values():
            # The statements that dropped these tables may be gone from the DDL topics by now.
            for name, ts_ms in one.dropped.items():
                self._tables.drop(name, ts_ms)

    def _replace(self, name: TableName) -> None:
        """Let the last record of a logical table be replaced, as another program wrote it."""
        if (last := self._published.get(name)) is not None:
            self._published[name] = last.replaced

    async def _read_decisions(self, follower: Follower) -> DestinationState:
        """Read all decisions up to now, and follow the journal from there on.

        Raise JournalUnreadable or JournalTooNew if another record of the unit cannot be read, or one that names
        no logical table.
        """
        journal = self.plan.journal
        ends = await follower.ends([(journal.topic, journal.number)])
        state = await committed_state(journal)
        for key in [one for one in state.unreadable if table_of(one) is not None]:
            self._unreadable[key] = state.unreadable.pop(key)
        state.check_readable()
        self._decisions = state.parts[DECISIONS_PART]
        # Records that both the read and the follower return change nothing the second time.
        await self._add(follower, ends)
        return state

    async def _look(self, follower: Follower, routes: Mapping[str, Routes]) -> None:
        """Follow the topics of table versions and statements from their beginnings, while they exist.

        Raise the error of the topic of table versions if it cannot be read: it has the versions of all tables.
        """
        now, prefix = time.monotonic(), self.plan.topics.prefix
        schemas, journal = schemas_topic(prefix), self.plan.journal.topic
        wanted = frozenset((schemas, *(ddl_topic(prefix, one) for one in routes)))
        if wanted == self._wanted and now - self._looked < _LOOK_SECONDS:
            return
        self._wanted, self._looked = wanted, now
        existing = wanted & (await follower.partitions(wanted)).keys()
        gone = [one for one in self._followed if one[0] not in (*existing, journal)]
        if gone:
            await follower.leave(gone)
            self._followed = {one: end for one, end in self._followed.items() if one not in gone}
            if (schemas, 0) in gone:
                raise RunRestarts(f"as {schemas} is gone")
        new = {(one, 0) for one in existing} - self._followed.keys() - follower.unreadable.keys()
        if new:
            await self._add(follower, await follower.beginnings(new))
        if now - self._asked_hidden >= _ASK_SECONDS and wanted > existing:
            self._asked_hidden = now
            self._hidden = frozenset(await self._topics.unwritable(wanted - existing))
        await self._ask_unread(follower)
        hidden = self._hidden & (wanted - existing)
        followed = {(one, 0) for one in wanted} | {(journal, self.plan.journal.number)}
        self._troubles = {
            **{one: KafkaDenied("the account may not see it", topic=one) for one in hidden},
            **{one[0]: error for one, error in follower.unreadable.items() if one in followed},
        }
        for error in self._troubles.values():
            error.context["destination"] = UNIT
        if schemas in self._troubles:
            raise self._troubles[schemas]

    async def _ask_unread(self, follower: Follower) -> None:
        """Let the follower find open transactions that hide records."""
        try:
            await follower.unread()
        except KafkaLost:
            before = follower.leaderless
            await follower.partitions(self._wanted)
            if follower.leaderless == before:
                raise
            # A leader was lost since the last check; now its partition is not asked any more.

    async def _add(self, follower: Follower, starts: Mapping[Partition, int]) -> None:
        self._followed |= await follower.ends(starts.keys())
        await follower.follow(starts)

    async def _is_caught_up(self, follower: Follower) -> bool:
        """Whether all table versions and decisions are read that there were when their topics were found."""
        for partition, end in self._followed.items():
            if end and await follower.position(partition) >= end:
                self._followed[partition] = 0
        journal = self.plan.journal
        needed = ((schemas_topic(self.plan.topics.prefix), 0), (journal.topic, journal.number))
        return all(self._followed.get(one) == 0 for one in needed)

    async def _read(self, follower: Follower, seconds: float) -> None:
        self.permit.check()
        try:
            read = await follower.read(seconds)
        except RecordsGone as error:
            await self._begin_again(follower, error)
            return
        if read:
            # In a thread: thousands of records take a while, and the worker publishes meanwhile.
            for skip in await asyncio.to_thread(lambda: list(self._take(read))):
                self.status.skip(*skip)

    async def _begin_again(self, follower: Follower, error: RecordsGone) -> None:
        """Read topics again from the first record that they have; raise the error if the journal is one."""
        lost = error.lost
        if not lost or any(topic == self.plan.journal.topic for topic, _ in lost):
            raise error
        starts = await follower.beginnings(lost.keys())
        await self._add(follower, starts)
        for one, start in starts.items():
            why = f"the records from there up to offset {start} were removed before they were read"
            if one[0] != schemas_topic(self.plan.topics.prefix):
                why += (
                    ". A real table that one of them dropped counts until: "
                    "python -m app shards resolve TABLE --exclude REAL --why TEXT"
                )
            self.status.skip(one[0], lost[one], why)

    def _take(self, read: Mapping[Partition, Iterable[Any]]) -> Iterator[Skip]:
        """Take records in; yield those that are skipped."""
        journal, schemas = self.plan.journal.topic, schemas_topic(self.plan.topics.prefix)
        statements = ddl_topic(self.plan.topics.prefix, "")
        for (topic, _), records in read.items():
            for one in records:
                why = None
                if topic == journal:
                    self._take_decision(StoredRecord.of(one))
                elif topic == schemas:
                    why = self._take_version(StoredRecord.of(one))
                else:
                    why = self._take_statement(topic.removeprefix(statements), one.value)
                if why is not None:
                    yield topic, one.offset, why

    def _take_decision(self, record: StoredRecord) -> None:
        """Take a decision in; of outcomes, only see whether they can be read: this run has made them."""
        is_decision = DECISION.is_of(record.key)
        if not is_decision and not DECIDED.is_of(record.key):
            return
        try:
            if is_decision:
                self._decisions.take(DECISION.name, [], record)
            elif not is_tombstone(record):
                decided_in(record)
        except (JournalUnreadable, JournalTooNew) as error:
            if table_of(record.key) is None:
                raise
            key = record.key.decode("utf-8", "replace")
            error.context = {**error.context, "offset": record.offset, "key": key}
            self._unreadable[record.key] = error
        else:
            self._unreadable.pop(record.key, None)

    def _take_version(self, record: StoredRecord) -> str | None:
        """Take a table version in; return why it cannot be read, if so."""
        if not record.value:
            return None
        try:
            self._tables.take(version_in(record.value))
        except ValueError as error:
            if (key := version_key_in(record.key)) is None:
                return f"no table version: {error}"
            self._tables.miss(key, f"offset {record.offset}, {key}: {error}")
            return f"{key} cannot be read: {error}"
        return None

    def _take_statement(self, destination: str, value: bytes | None) -> str | None:
        """Take a statement in; return why it cannot be read, if so."""
        try:
            self._tables.take_statement(destination, orjson.loads(value or b"{}"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return f"no record of a statement: {error!r}"
        return None

    async def _publish(self, producer: TransactionalProducer, routes: Mapping[str, Routes]) -> None:
        """Publish what changed, and the outcomes of decisions."""
        await self._ask_settings()
        updates, decided, waits = await asyncio.to_thread(self._folded, routes)
        self.status.wait_only_for(waits)
        parts = list(self._parts(updates))
        for number, part in enumerate(parts or [[]], 1):
            # An outcome must not be visible before the schema that its decision changed.
            outcomes = decided if number >= len(parts) else []
            if part or outcomes:
                await self._commit(producer, part, outcomes)
        self._tables.changed.clear()
        journal = self._troubles.get(self.plan.journal.topic)
        self.status.published = self._published
        self.status.show_running(journal.in_one_line if journal is not None else None)
        self.status.measure()

    def _parts(self, updates: list[Update]) -> Iterator[list[Update]]:
        """The updates in parts for one Kafka transaction each."""
        part: list[Update] = []
        size = 0
        for one in updates:
            more = sum(map(len, filter(None, _record(*one))))
            if part and (len(part) == _MOST_SCHEMAS or size + more > self.budget.bytes):
                yield part
                part, size = [], 0
            part.append(one)
            size += more
        if part:
            yield part

    def _folded(
        self, routes: Mapping[str, Routes]
    ) -> tuple[list[Update], list[Decided], dict[TableName, str]]:
        """What is to be published, the outcomes of decisions, and the tables that wait, with the reasons."""
        self._tables.route_by(routes)
        outcomes = map(self._decide, self._decisions.pending())
        decided = [one for one in outcomes if one is not None]
        self._tables.changed |= {one.table for one in decided}
        for name in self._tables.changed:
            self._stuck.pop(name, None)
        removed = self._published.keys() - set(self._tables.names)
        names = self._tables.changed | self._behind | removed | self._in_trouble()
        updates: list[Update] = []
        waits: dict[TableName, str] = {}
        self._behind = set()
        for name in sorted(names):
            found: Update | None = None
            if self._is_unread(name):
                self._behind.add(name)
                continue
            why = self._hindrance(name, self._decisions.in_force(name).excluded)
            if why is None:
                try:
                    found = self._update(name)
                    why = self._refusal_of(*found) if found is not None else None
                except Exception as error:  # of this table alone
                    why = self._unforeseen(name, error)
            if why is not None:
                waits[name] = why
                self._behind.add(name)
            elif found is not None:
                updates.append(found)
        return updates, decided, waits

    def _in_trouble(self) -> set[TableName]:
        """The logical tables with a record of a decision or a topic of statements that cannot be read."""
        found = {name for key in self._unreadable if (name := table_of(key)) is not None}
        start = ddl_topic(self.plan.topics.prefix, "")
        away = {one.removeprefix(start) for one in self._troubles if one.startswith(start)}
        return found | (self._tables.of_destinations(away) if away else set())

    def _is_unread(self, name: TableName) -> bool:
        """Whether statements on shards of a logical table are still to be read, without any trouble."""
        topics = set(map(self._topic_of, self._tables.shards(name)))
        return any(self._followed.get((one, 0)) and one not in self._troubles for one in topics)

    def _topic_of(self, shard: ShardName) -> str:
        """The topic of the statements on a real table."""
        return ddl_topic(self.plan.topics.prefix, shard.destination)

    def _hindrance(self, name: TableName, excluded: Collection[str]) -> str | None:
        """Why the schema of a logical table is not certain without the excluded shards."""
        for key, error in self._unreadable.items():
            if table_of(key) == name:
                return _of_decision(error)
        for shard in self._tables.shards(name):
            if str(shard) in excluded:
                continue
            if (trouble := self._troubles.get(self._topic_of(shard))) is not None:
                return trouble.in_one_line
            if (missed := self._tables.missed.get(shard)) is not None:
                return self._of_version(name, shard, missed.why)
        return self._stuck.get(name)

    def _of_version(self, name: TableName, shard: ShardName, why: str) -> str:
        real = f"{shard.database}.{shard.table}"
        again = (
            f"Its next version ends this: ALTER TABLE {real} COMMENT = 'another one' makes one, with the next "
            "row where no schema history is kept."
        )
        if self._tables.is_known(shard):
            logical = ".".join(name)
            again += (
                " Or do not count it: python -m app shards resolve "
                f"{logical} --exclude {shard} --why TEXT"
            )
        else:
            again += f" If {real} was dropped, name it in no rule of the mapping any more."
        topic = schemas_topic(self.plan.topics.prefix)
        return RecordForeign(why, topic=topic, destination=UNIT, remedy=again).in_one_line

    def _unforeseen(self, name: TableName, error: Exception) -> str:
        """Note an error that only a fault of this program can cause."""
        if name not in self.status.waiting:
            log.error("%s: an unforeseen error", UNIT, exc_info=error)
        self._stuck[name] = (
            f"an unforeseen error, {error!r}: report it with the log. It is tried again when a shard changes"
        )
        return self._stuck[name]

    def _decide(self, decision: Decision) -> Decided | None:
        """Apply or refuse a decision; None if that must wait, as records are not read or cannot be read."""
        keys = note_of_decision(decision)[0], outcome_key(decision.table, decision.subject)
        if self._unreadable.keys() & set(keys) or self._is_unread(decision.table):
            return None
        among: tuple[str, ...] = ()
        try:
            schema = self._tables.schema(decision.table, self._decisions)
            why = (
                "no real table of it is published" if schema is None else refusal(decision, schema)
            )
            if schema is not None and decision.verb is Verb.TAKE_TYPE:
                among = types_of(schema, decision.name)
        except Exception as error:  # of this decision alone
            log.error("%s: an unforeseen error", UNIT, exc_info=error)
            why = f"it cannot be judged: {error!r}"
        why = why or self._hindrance_of(decision)
        in_force, among = self._decisions.before(decision) if why else (decision, among)
        decided = Decided(
            table=decision.table,
            subject=decision.subject,
            id=decision.id,
            refused=why,
            state="",
            in_force=in_force,
            among=among,
            worker=self.plan.worker,
            ts_ms=_now_ms(),
        )
        self._decisions.decide(decided)
        log.info(
            "%s: %s of %s by %s: %s",
            UNIT, decision, ".".join(decision.table), decision.by, why or "applied",
        )  # fmt: skip
        return replace(decided, state=self._state_of(decision.table))

    def _state_of(self, name: TableName) -> str:
        """The state of a logical table by the decisions in force; empty without one."""
        try:
            schema = self._tables.schema(name, self._decisions)
        except Exception:  # the table waits by it
            return ""
        return schema.state.value if schema is not None else ""

    def _hindrance_of(self, decision: Decision) -> str:
        """Why a decision would have no effect that can be published; empty if it has.

        An exclusion is never refused for that: several shards in trouble need an exclusion each.
        """
        if decision.verb is Verb.EXCLUDE:
            return ""
        name = decision.table
        excluded = {*self._decisions.in_force(name).excluded}
        if decision.verb is Verb.INCLUDE:
            excluded.discard(decision.name)
        refused = self.status.refused.get(name)
        why = self._hindrance(name, excluded)
        if why is None and refused is not None:
            why = refused.error.in_one_line
        return f"the logical table would wait: {why}" if why is not None else ""

    def _update(self, name: TableName) -> Update | None:
        schema, last = self._tables.schema(name, self._decisions), self._published.get(name)
        if schema is None:
            return (name, None) if last is not None else None
        found = next_published(schema, last, _now_ms())
        return (name, found) if found is not None else None

    def _refusal_of(self, name: TableName, found: PublishedSchema | None) -> str | None:
        """Why the topic refuses a schema, if it has refused it and would do so again."""
        refused = self.status.refused.get(name)
        if refused is None:
            return None
        is_blind = not self._settings and time.monotonic() - refused.at >= BLIND_SECONDS
        if (
            refused.settings == self._settings
            and not is_blind
            and refused.refuses(self._size((name, found)))
        ):
            return refused.error.in_one_line
        del self.status.refused[name]
        return None

    async def _ask_settings(self) -> None:
        """Ask for the topic's settings at intervals, while it has refused records."""
        now, topic = time.monotonic(), self.plan.topics.logical_schemas().name
        if self.status.refused and now - self._asked_settings >= _ASK_SECONDS:
            self._asked_settings = now
            self._settings = (await self._topics.digests([topic])).get(topic)

    async def _commit(
        self, producer: TransactionalProducer, updates: list[Update], decided: list[Decided]
    ) -> None:
        journal, topic = self.plan.journal, self.plan.topics.logical_schemas().name
        await producer.learn({journal.topic, topic})
        batches, sent = self._batches(updates), list[asyncio.Future[Any]]()
        began = time.monotonic()
        try:
            async with self.permit.writing(), producer.transaction() as kafka:
                for batch in batches:
                    sent.append(await send_finished(kafka, batch))
                notes = await journal.put(kafka, map(note_of_decided, decided))
                await asyncio.gather(*sent, *notes)
                self.permit.lease.check()
        except RecordTooLarge as error:
            refused = refused_batch(zip(batches, sent, strict=False), error.__cause__)
            if refused is None:
                raise
            await self._refuse(updates, batches, refused)
        self.budget.through(
            (time.monotonic() - began) / (self.budget.timeout_factor * ANSWER_TIMEOUT)
        )
        for name, found in updates:
            self._show(name, found)
        self.succeeded()

    async def _refuse(
        self, updates: list[Update], batches: list[FinishedBatch], batch: FinishedBatch
    ) -> NoReturn:
        """Note the schemas that the topic refused, and raise RunRestarts: the next run omits them.

        Raise BatchTooLarge if smaller batches may be accepted.
        """
        limit = await self._topics.largest(batch.topic)
        sizes = {one[0]: self._size(one) for one in updates}
        if limit is not None:
            refused = [name for name, size in sizes.items() if size > limit]
        else:
            at = sum(one.records for one in batches[: batches.index(batch)])
            refused = [updates[at][0]] if batch.records == 1 else []
        if not refused:
            self.budget.refused(limit, sent=len(batch.raw))
            raise BatchTooLarge(
                f"{batch.records} schema(s) of {len(batch.raw)} bytes as sent",
                topic=batch.topic,
                limit=limit,
            )
        settings = (await self._topics.digests([batch.topic])).get(batch.topic)
        for name in refused:
            self.status.refused[name] = RefusedSchema(
                size=sizes[name],
                limit=limit,
                settings=settings,
                at=time.monotonic(),
                error=RecordTooLarge(
                    f"{sizes[name]} bytes as sent{f', and the topic takes {limit}' if limit else ''}",
                    topic=batch.topic,
                    logical_table=".".join(name),
                    remedy="Let the topic take it, and the brokers (message.max.bytes): kafka-configs.sh "
                    f"--bootstrap-server SERVER --alter --entity-type topics --entity-name {batch.topic} "
                    f"--add-config max.message.bytes={sizes[name] + _ROOM}",
                ),
            )
        raise RunRestarts(f"as {batch.topic} refused the schemas of {len(refused)} logical tables")

    def _batches(self, updates: Iterable[Update]) -> list[FinishedBatch]:
        """The record batches of schemas, in order."""
        writer = BatchWriter(
            self.plan.topics.logical_schemas().name,
            partitions=1,
            compression=self.plan.compression,
            timestamp_ms=_now_ms(),
            max_bytes=self.budget.batch_bytes(MAX_BATCH_BYTES),
        )
        for one in updates:
            writer.append(*_record(*one), [])
        return writer.finished()

    def _size(self, update: Update) -> int:
        """Bytes of a record batch with one schema alone, as sent."""
        return len(self._batches([update])[0].raw)

    def _show(self, name: TableName, found: PublishedSchema | None) -> None:
        last = self._published.pop(name, None)
        if found is not None:
            self._published[name] = found
        state = found.state if found is not None else None
        if state is not (last.state if last is not None else None):
            text = state.value if state is not None else "has no real table any more"
            log.info("%s: %s: %s", UNIT, ".".join(name), text)


def _of_decision(error: AqueductError) -> str:
    """The error of a decision or an outcome that cannot be read, with what ends it."""
    error.context["destination"] = UNIT
    if isinstance(error, JournalUnreadable):
        error.advice = (
            "Another program wrote it, or it was changed by hand. To write the previous record of its key "
            "again, or to remove it if there is none: python -m app journal repair logical.schemas --why TEXT"
        )
    return error.in_one_line


def _record(name: TableName, found: PublishedSchema | None) -> tuple[bytes, bytes | None]:
    if found is not None:
        return found.to_record()
    return orjson.dumps({"database": name[0], "table": name[1]}), None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
