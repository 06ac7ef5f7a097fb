"""One run of the publication of logical schemas: table versions, statements and decisions in, schemas out.

Invariant: a run first fences every earlier run, then reads the schemas published last. Each Kafka transaction
holds schemas that changed and the outcomes of the decisions that changed them, so each change is published
exactly once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from app.worker.coordination.write_permit import WritePermit
from app.worker.destination.background import beside
from app.worker.destination.takeover.recovery import committed_state
from app.worker.logical_schemas.plan import LogicalSchemasPlan, LogicalSchemasStatus
from app.worker.pipeline.publish.topic_ids import TopicIds
from app.worker.status import State
from app.worker.unit.run_loop import Installation
from app.worker.unit.takeover import UnitTakeover
from connectors.errors import JournalUnreadable
from connectors.kafka.producer import TransactionalProducer, send_all
from connectors.kafka.reading import Follower, Partition, StoredRecord, read_to_end
from connectors.kafka.topics import Topics
from connectors.mysql.ddl.definition import TableName
from tables.history.logical_schemas.decisions import (
    DECISION,
    DECISIONS_PART,
    UNIT,
    Decided,
    Decision,
    Decisions,
    Verb,
    note_of_decided,
)
from tables.history.logical_schemas.logical_schema import refusal, types_of
from tables.history.logical_schemas.logical_tables import LogicalTables
from tables.history.logical_schemas.published import PublishedSchema, key_name, next_published
from tables.rules.routes.routes import Routes
from tables.rules.table_version import TableVersion
from tables.state.journal.state import DestinationState
from wire.topics import ddl_topic, schemas_topic

log = logging.getLogger(__name__)

_READ_SECONDS = 0.5
_LOOK_SECONDS = 1.0
"""The interval of checks for topics that the destinations have not created yet."""
_MOST_SCHEMAS = 200
"""The maximum number of schemas in one Kafka transaction."""
Update = tuple[TableName, PublishedSchema | None]
"""A logical table and its new record; None removes the published record, as no shard remains."""


@dataclass(slots=True, kw_only=True)
class LogicalSchemasRun:
    """A run, from its first read to the error that ends it."""

    plan: LogicalSchemasPlan
    status: LogicalSchemasStatus
    permit: WritePermit
    installation: Installation
    takeover: UnitTakeover
    succeeded: Callable[[], None]
    """Called after each commit."""
    _tables: LogicalTables = field(default_factory=LogicalTables)
    _decisions: Decisions = field(default_factory=Decisions)
    _published: dict[TableName, PublishedSchema] = field(default_factory=dict)
    _followed: dict[Partition, int] = field(default_factory=dict)
    """The partitions that are followed, each with the offset up to which it must be read before anything is
    published."""
    _wanted: frozenset[str] = frozenset()
    """The topics to follow, as of the last check for them."""
    _looked: float = float("-inf")

    async def run(self) -> None:
        """Run until an error."""
        plan = self.plan
        producer = TransactionalProducer(
            f"{await self.installation()}.{UNIT}",
            options=plan.kafka_options,
            compression=plan.compression,
        )
        try:
            await self.takeover.take_id(producer, self.permit)
            topic, topics = plan.topics.logical_schemas(), Topics(plan.kafka_options)
            await topics.ensure(topic)
            # If the topic is recreated, the next run publishes all schemas again.
            ids = TopicIds(destination=UNIT, topics=topics, reread=topic.name)
            await ids.confirm([topic.name])
            await self._read_published(topic.name)
            following = Follower.opened(plan.kafka_options, wait_seconds=_READ_SECONDS)
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
                    if routes is not None and await self._is_caught_up(follower):
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
                # Another program wrote it; our record for its table comes later, and is valid.
                log.warning("%s: offset %d of %s: %s", UNIT, record.offset, topic, error)
        for one in self._published.values():
            # The statements that dropped these tables may be gone from the DDL topics by now.
            for name, ts_ms in one.dropped.items():
                self._tables.drop(name, ts_ms)

    async def _read_decisions(self, follower: Follower) -> DestinationState:
        """Read all decisions up to now, and follow the journal from there on."""
        journal = self.plan.journal
        ends = await follower.ends([(journal.topic, journal.number)])
        state = await committed_state(journal)
        state.check_readable()
        self._decisions = state.parts[DECISIONS_PART]
        # Records that both the read and the follower return change nothing the second time.
        await self._add(follower, ends)
        return state

    async def _look(self, follower: Follower, routes: Mapping[str, Routes]) -> None:
        """Follow the topics of table versions and statements from their beginnings, once they exist."""
        now, prefix = time.monotonic(), self.plan.topics.prefix
        wanted = frozenset((schemas_topic(prefix), *(ddl_topic(prefix, one) for one in routes)))
        if wanted == self._wanted and now - self._looked < _LOOK_SECONDS:
            return
        self._wanted, self._looked = wanted, now
        missing = {one for one in wanted if (one, 0) not in self._followed}
        if missing:
            found = missing & (await follower.partitions(missing)).keys()
            await self._add(follower, await follower.beginnings([(one, 0) for one in found]))
        # Called for its error, which is raised if an open transaction keeps a topic from being read.
        await follower.unread()

    async def _add(self, follower: Follower, starts: Mapping[Partition, int]) -> None:
        self._followed |= await follower.ends(starts.keys())
        await follower.follow(starts)

    async def _is_caught_up(self, follower: Follower) -> bool:
        """Whether all records are read that each topic had when it was found."""
        if (schemas_topic(self.plan.topics.prefix), 0) not in self._followed:
            return False
        for partition, end in self._followed.items():
            if end and await follower.position(partition) < end:
                return False
            self._followed[partition] = 0
        return True

    async def _read(self, follower: Follower, seconds: float) -> None:
        self.permit.check()
        read = await follower.read(seconds)
        if read:
            # In a thread: thousands of records take a while, and the worker publishes meanwhile.
            await asyncio.to_thread(self._take, read)

    def _take(self, read: Mapping[Partition, Iterable[Any]]) -> None:
        journal, schemas = self.plan.journal.topic, schemas_topic(self.plan.topics.prefix)
        statements = ddl_topic(self.plan.topics.prefix, "")
        for (topic, _), records in read.items():
            for one in records:
                if topic == journal:
                    self._take_decision(one)
                elif topic == schemas:
                    self._take_version(one.value)
                else:
                    self._take_statement(topic.removeprefix(statements), one.value)

    def _take_decision(self, record: Any) -> None:
        if DECISION.is_of(record.key or b""):
            self._decisions.take(
                DECISION.name, [], StoredRecord(record.key, record.value or b"", record.offset)
            )

    def _take_version(self, value: bytes | None) -> None:
        if not value:
            return
        try:
            self._tables.take(TableVersion.from_json(orjson.loads(value)))
        except (orjson.JSONDecodeError, JournalUnreadable) as error:
            log.warning("%s: a record of the schemas topic is skipped: %s", UNIT, error)

    def _take_statement(self, destination: str, value: bytes | None) -> None:
        try:
            self._tables.take_statement(destination, orjson.loads(value or b"{}"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning(
                "%s: a record of the DDL topic of %s is skipped: %r", UNIT, destination, error
            )

    async def _publish(self, producer: TransactionalProducer, routes: Mapping[str, Routes]) -> None:
        """Publish what changed, and the outcomes of decisions."""
        updates, decided = await asyncio.to_thread(self._folded, routes)
        while updates or decided:
            part, updates = updates[:_MOST_SCHEMAS], updates[_MOST_SCHEMAS:]
            # An outcome must not be visible before the schema that its decision changed.
            outcomes, decided = ([], decided) if updates else (decided, [])
            await self._commit(producer, part, outcomes)
        self._tables.changed.clear()
        self.status.published = self._published
        self.status.show(State.RUNNING)
        self.status.measure()

    def _folded(self, routes: Mapping[str, Routes]) -> tuple[list[Update], list[Decided]]:
        self._tables.route_by(routes)
        decided = [self._decide(one) for one in self._decisions.pending()]
        self._tables.changed |= {one.table for one in decided}
        names = sorted(self._tables.changed | (self._published.keys() - set(self._tables.names)))
        return [one for name in names if (one := self._update(name)) is not None], decided

    def _decide(self, decision: Decision) -> Decided:
        """Apply or refuse a decision."""
        schema = self._tables.schema(decision.table, self._decisions)
        why = "no real table of it is published" if schema is None else refusal(decision, schema)
        is_type = schema is not None and decision.verb is Verb.TAKE_TYPE
        among = types_of(schema, decision.name) if schema is not None and is_type else ()
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
        after = self._tables.schema(decision.table, self._decisions)
        log.info(
            "%s: %s of %s by %s: %s",
            UNIT, decision, ".".join(decision.table), decision.by, why or "applied",
        )  # fmt: skip
        return replace(decided, state=after.state.value if after is not None else "")

    def _update(self, name: TableName) -> Update | None:
        schema, last = self._tables.schema(name, self._decisions), self._published.get(name)
        if schema is None:
            return (name, None) if last is not None else None
        found = next_published(schema, last, _now_ms())
        return (name, found) if found is not None else None

    async def _commit(
        self, producer: TransactionalProducer, updates: list[Update], decided: list[Decided]
    ) -> None:
        journal, topic = self.plan.journal, self.plan.topics.logical_schemas().name
        await producer.learn({journal.topic, topic})
        async with self.permit.writing(), producer.transaction() as kafka:
            await send_all(kafka, topic, 0, [_record(*one) for one in updates])
            await journal.send(kafka, map(note_of_decided, decided))
            self.permit.lease.check()
        for name, found in updates:
            self._show(name, found)
        self.succeeded()

    def _show(self, name: TableName, found: PublishedSchema | None) -> None:
        last = self._published.pop(name, None)
        if found is not None:
            self._published[name] = found
        state = found.state if found is not None else None
        if state is not (last.state if last is not None else None):
            text = state.value if state is not None else "has no real table any more"
            log.info("%s: %s: %s", UNIT, ".".join(name), text)


def _record(name: TableName, found: PublishedSchema | None) -> tuple[bytes, bytes | None]:
    if found is not None:
        return found.to_record()
    return orjson.dumps({"database": name[0], "table": name[1]}), None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
