"""One run of a destination: takeover, release of quarantined tables, capture, publishing.

Invariant: a run begins from the journal, never from memory. Its reader, queue and producer are
discarded before the next run begins, whatever ended it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from app.failpoints import point
from app.worker.destination.background import beside
from app.worker.destination.commit.participants import CommitParticipant, Commits
from app.worker.destination.commit.run_participants import (
    DeadLetters,
    FilterCheck,
    OperatorSkips,
    Progress,
    PublishedFingerprints,
    SkippedStatements,
)
from app.worker.destination.failover.source_selection import Sources
from app.worker.destination.idle_source_progress import CompletenessWatch
from app.worker.destination.plan import Plan, Signals
from app.worker.destination.snapshot.snapshot import Snapshot, snapshot_of
from app.worker.destination.takeover.cursor_verification import CursorRecheck
from app.worker.destination.takeover.initial_state import has_column_names
from app.worker.destination.takeover.takeover import TakenOver, Takeover, usable
from app.worker.destination.takeover.timings import Phases
from app.worker.mapping_versions.choice import MappingChoice
from app.worker.pipeline.capture.reader_thread import Deletes, Reader
from app.worker.pipeline.capture.schema_tracker import SchemaTracker
from app.worker.pipeline.decoders.pool import start as start_decoders
from app.worker.pipeline.decoders.protocols import Decoders
from app.worker.pipeline.gather.captured_tables import CapturedTables
from app.worker.pipeline.number import Numbers
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.publish.handoff import MAX_BYTES, Handoff
from app.worker.pipeline.publish.publisher import OF_TOPICS, Publisher, TopicPreparation
from app.worker.pipeline.publish.transaction_size import Budget
from app.worker.pipeline.stage import StageSpec
from app.worker.schemas.quarantine_release import QuarantineRelease
from app.worker.schemas.run_schemas import Expiry, Schemas
from app.worker.schemas.store_mirror import Mirror
from app.worker.status import DestinationStatus, State
from app.worker.unit.retry_policy import ErrorPolicy
from connectors.errors import (
    AqueductError,
    BatchTooLarge,
    KafkaLost,
    KafkaSlow,
    MappingError,
    Retry,
    RunRestarts,
    TopicReplaced,
    TopicUnusable,
    WitnessesDiffer,
)
from connectors.kafka.producer import ANSWER_TIMEOUT
from connectors.kafka.topics import Topics
from connectors.mysql.ddl.definition import TableChange, TableName
from connectors.mysql.lookup.skipped_transactions import TransactionSkipper
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.stream.replica import BinlogStream
from tables.history.history import SchemaHistory
from tables.history.resolved_statement import ResolvedStatement
from tables.rules.routes.routes import Route
from tables.state.cursor import Cursor
from tables.state.journal.checkpoint import Checkpoint
from tables.state.operator_requests import SKIP_PART
from tables.state.quarantine import Quarantine

log = logging.getLogger(__name__)

_IDLE_CURSOR_SECONDS = 10.0
"""The interval of commits that only move the cursor."""
_IDLE_SHARD_SECONDS = 1.0
"""The same for a destination that a merge waits for."""
_NEAR_SECONDS = 2.0
"""The maximum lag of a destination that counts as near the end of the binlog."""
_GLANCE_SECONDS = 0.2
"""The interval of checks for work without a piece, while a merge waits."""
_PARTIAL_SECONDS = 600.0
_TOPIC_SECONDS = 5.0
"""The interval of checks of topics that tables wait for."""


@dataclass(slots=True, kw_only=True)
class SourceAgent:
    """A run, from its takeover to the error that ends it."""

    plan: Plan
    status: DestinationStatus
    checkpoint: Checkpoint
    policy: ErrorPolicy
    signals: Signals
    mirror: Mirror | None = None
    """The copy of this destination's schemas in the central store."""
    sources: Sources
    """The sources and their selection, over all runs."""
    mapping: MappingChoice | None = None
    """The choice among the mapping's versions, over all runs; None if the mapping is read from a file."""
    unreadable: list[WitnessesDiffer] = field(default_factory=list)
    """Tables that the previous run could not read."""
    address: SourceAddress | None = None
    """The source read now or last."""
    _budget: Budget | None = None
    """The publish budget, over all runs."""
    _dead_letters: DeadLetters | None = None
    """Kept over runs, as its limit is per hour."""
    _is_partial: bool = False
    """Whether the history lacks tables because this run began too far in the past."""
    _names: set[TableName] = field(default_factory=set)
    """The tables that this run knows."""
    _quarantine: Quarantine = field(default_factory=Quarantine)
    """The quarantine after the statements of the piece that is being published."""
    _phases: Phases = field(default_factory=Phases)
    """The phases of the present run, until its first commit."""
    _offline: dict[str, float] = field(default_factory=dict)
    """Since when each topic has taken no records, by the monotonic clock, over all runs."""
    _retry_at: float = 0.0
    """The time of the next completion of the history, by the monotonic clock."""

    def forget_dead_letters(self) -> None:
        """Reset the hourly count of dead letters, from the next run on."""
        self._dead_letters = None

    @property
    def budget(self) -> Budget:
        """The maximum size of a transaction, as learnt from earlier ones."""
        if self._budget is None:
            self._budget = Budget(self.plan.rules.max_bytes)
        return self._budget

    async def run(self) -> None:
        """Run until an error."""
        try:
            await self._run()
        except KafkaSlow:
            # A claim may be large too: it may hold the definitions of all tables.
            self.budget.too_slow()
            log.warning(
                "%s: publishes %d bytes at once from now on", self.plan.name, self.budget.bytes
            )
            raise
        except MappingError as error:
            if self.mapping is not None and self.mapping.refuse(error):
                raise RunRestarts("by the version of the mapping that is in force") from error
            raise

    async def _run(self) -> None:
        phases = self._phases = Phases()
        if self.mapping is not None:
            rules = await self.mapping.rules_of(self.plan.rules)
            self.plan = replace(self.plan, rules=rules)
        await self._know_existing()
        leading = Takeover(
            plan=self.plan,
            checkpoint=self.checkpoint,
            signals=self.signals,
            sources=self.sources,
            status=self.status,
            phases=phases,
            mapping=self.mapping,
            timeout_factor=self.budget.timeout_factor,
            offline=self._offline,
        )
        async with leading.lead(self.unreadable) as led:
            await self._capture(led)

    async def _know_existing(self) -> None:
        """Read the partition counts of the existing topics, if these topics are to keep them."""
        if not self.plan.topics.keeps_existing:
            return
        existing = await Topics(self.plan.kafka_options).counts()
        rules = self.plan.rules
        routes = replace(rules.routes, existing=existing)
        self.plan = replace(self.plan, rules=replace(rules, routes=routes))

    async def _capture(self, led: TakenOver) -> None:
        plan, publisher, history = self.plan, led.publisher, led.opened.history
        self.address = led.address
        again = CursorRecheck(
            cursor=led.opened.cursor,
            address=led.address,
            accepts_unproven=plan.accepts("unproven"),
        )
        quarantine = self._quarantine = led.state.quarantine
        self._is_partial = led.opened.is_partial
        spec = self._spec(led)
        postponed: dict[TableName, str] = {}
        if history is not None:
            releasing = QuarantineRelease(
                publisher,
                history,
                spec,
                options=plan.kafka_options,
                server_id=int(led.facts.variables.get("server_id", "0")),
            )
            await releasing.release(quarantine)
            self.status.rows += releasing.rows
            postponed = releasing.postponed
        expiry = Expiry(plan.journal)
        schemas = Schemas(
            history,
            quarantine,
            plan.rules,
            self.status,
            expiry=expiry,
            mirror=self.mirror,
            postponed=postponed,
        )
        schemas.run_started(publisher.cursor)
        known = schemas.known()
        if history is not None:
            await releasing.announce(known)
            spec = releasing.spec
        spec = replace(spec, known=known)
        skipping = OperatorSkips(plan.name, led.state.parts[SKIP_PART], spec.server_uuid)
        snapshot = snapshot_of(plan, led, spec, self.status, self.signals)
        emptied = snapshot.emptied
        participants = [*snapshot.participants(), *([emptied] if emptied is not None else [])]
        commits = self._commits(led, spec, skipping, schemas, participants)
        self._names = {*spec.known, *led.state.versions}
        assert publisher.ids is not None
        publisher.ids.tables = self._by_topic
        topics = self._topic_preparation(publisher, spec)
        start = StreamStart(
            plan=plan,
            spec=spec,
            history=history,
            address=led.address,
            budget=self.budget,
            phases=self._phases,
            by_coordinates=led.opened.by_coordinates,
            deletes=None if emptied is None else emptied.deletes,
        )
        reader, handoff = await start.read(
            skipping.start_cursor(publisher), skipping.skipper, seen=topics.seen
        )
        topics.begin(spec.known)
        snapshot.entries.open(reader.inlet)
        reader.start()
        seconds = self._phases.reached("source connected")
        log.info("%s: is read after %.2f s: %s", plan.name, seconds, self._phases.to_text())
        heartbeat = self.sources.heartbeat(
            led.address, led.state, self.signals, lambda: publisher.cursor
        )
        try:
            self.status.show(State.RUNNING, None)
            complete = self._completeness(led, snapshot) if publisher.shows_progress else None
            async with contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(beside(topics.make_all()))
                if complete is not None:
                    await stack.enter_async_context(beside(complete.run()))
                existing = await stack.enter_async_context(beside(snapshot.run()))
                watched = await stack.enter_async_context(beside(self._watch_topics(publisher)))
                waiting = await stack.enter_async_context(beside(self._watch_waiting(led)))
                await self._publish_all(
                    publisher, (reader, handoff), commits, (existing, watched, waiting),
                    schemas=schemas, skipping=skipping, again=again, complete=complete,
                )  # fmt: skip
        finally:
            heartbeat.close()
            expiry.close()
            if emptied is not None:
                emptied.close()
            handoff.close()
            await asyncio.to_thread(reader.stop)

    def _completeness(self, led: TakenOver, snapshot: Snapshot) -> CompletenessWatch:
        """The watch for a merge; existing rows that are being read hold back the time that it states."""
        led.publisher.stated = snapshot.times.stated
        return CompletenessWatch(led.address, snapshot.times.stated)

    def _topic_preparation(self, publisher: Publisher, spec: StageSpec) -> TopicPreparation:
        rules = spec.rules
        tables = CapturedTables(
            rules.routes,
            spec.charsets,
            server=spec.server,
            has_column_names=spec.has_column_names,
            shadows=rules.shadow_rules(),
            known=spec.known,
        )
        return TopicPreparation(publisher, tables)

    def _spec(self, led: TakenOver) -> StageSpec:
        facts = led.facts
        return StageSpec(
            rules=replace(
                self.plan.rules,
                spread=led.spread,
                max_bytes=self.budget.bytes,
                max_batch_bytes=self.budget.batch_bytes(self.plan.rules.max_batch_bytes),
            ),
            server_uuid=facts.server_uuid,
            charsets=facts.charsets,
            mariadb=facts.is_mariadb,
            epoch=led.opened.cursor.epoch,
            versions=led.state.versions,
            server=server_of(facts),
            has_column_names=has_column_names(facts),
            fingerprints=self.plan.failover.fingerprints and not facts.has_gtids,
            has_gtids=facts.has_gtids,
        )

    def _commits(
        self,
        led: TakenOver,
        spec: StageSpec,
        skipping: OperatorSkips,
        schemas: Schemas,
        snapshot: Iterable[CommitParticipant],
    ) -> Commits:
        """The participants of each commit, in the order of their records in the transaction."""
        rules, status = self.plan.rules, self.status
        self._dead_letters = self._dead_letters or DeadLetters(rules.undecodable_limit, status)
        return Commits(
            (
                Progress(status, self.policy, self._phases),
                skipping,
                schemas,
                self._dead_letters,
                PublishedFingerprints(led.state.fingerprints if spec.fingerprints else None),
                SkippedStatements(status),
                FilterCheck(rules, led.names, status),
                *snapshot,
            )
        )

    async def _publish_all(
        self,
        publisher: Publisher,
        reading: tuple[Reader, Handoff],
        commits: Commits,
        beside_it: Iterable[asyncio.Future[None]],
        *,
        schemas: Schemas,
        skipping: OperatorSkips,
        again: CursorRecheck,
        complete: CompletenessWatch | None = None,
    ) -> None:
        """Publish pieces, at each interval or once there is enough to publish; end only with an error."""
        self.status.cursor = publisher.cursor
        held: Piece | None = None
        committed, (reader, handoff) = 0.0, reading
        idle = _IDLE_CURSOR_SECONDS if complete is None else _IDLE_SHARD_SECONDS
        glance = 1.0 if complete is None else _GLANCE_SECONDS
        while True:
            try:
                piece = await handoff.take(max_bytes=self.budget.bytes, timeout=glance)
            except AqueductError as error:
                # A piece that only moves the cursor is committed too: it counts skipped statements and filtered
                # events.
                if held is not None:
                    await self._commit(publisher, held, commits)
                if isinstance(error, KafkaLost) and error.topics:
                    raise await publisher.of_tables(error, error.topics, self._tables_of) from error
                raise
            self.signals.check()
            reader.check()
            for work in beside_it:
                if work.done():
                    work.result()
            self._show_kafka()
            if schemas.may_release(self.signals.resolutions.values()):
                raise RunRestarts("to bring a table back")
            if self.mapping is not None:
                self.mapping.check(publisher.cursor)
            if piece is not None:
                await again.once()
                if held is not None:
                    held.absorb(piece)
                held = held or piece
            if complete is not None:
                time_ms = complete.news(publisher.cursor.offset)
                if time_ms is not None:
                    await publisher.complete(time_ms)
            if held is None:
                continue
            began = time.monotonic()
            is_due = not held.only_moves or skipping.is_due(held)
            if not is_due and began - committed < idle:
                continue
            await self._commit(publisher, held, commits)
            committed = time.monotonic()
            if self._may_complete():
                raise RunRestarts(
                    "to take tables into its schema history, now that it is near them"
                )
            held = None
            await handoff.gather(began + self.plan.interval - committed)

    async def _commit(self, publisher: Publisher, piece: Piece, commits: Commits) -> None:
        point("handoff.taken")
        tables = piece.tables
        self._names.update((one.database, one.table) for one in tables.versions)
        changes = (change for record in tables.history for change in record.changes)
        self._names.update(one.name for one in changes if isinstance(one, TableChange) and one.new)
        commits.before(piece, publisher.cursor)
        await self._publish(publisher, piece)
        commits.committed(piece, publisher.cursor)

    async def _publish(self, publisher: Publisher, piece: Piece) -> None:
        """Publish a piece, and adapt the size of the next pieces to the time that it took."""
        budget, began = self.budget, time.monotonic()
        try:
            await publisher.publish(piece)
        except BatchTooLarge as error:
            budget.refused(error.context.get("limit"), sent=error.context["size"])
            raise
        except (*OF_TOPICS, KafkaLost) as error:
            raise await publisher.of_tables(error, piece.topics, self._tables_of) from error
        if budget.through((time.monotonic() - began) / (budget.timeout_factor * ANSWER_TIMEOUT)):
            log.info("%s: publishes up to %d bytes at once again", self.plan.name, budget.bytes)

    def _routes(self) -> Iterator[tuple[TableName, Route]]:
        """The known tables that are published, with their routes; a table that was given up needs no topic."""
        for name in self._names - self._quarantine.given_up.keys():
            route = self.plan.rules.routes.of(name)
            if route is not None:
                yield name, route

    def _tables_of(self, topic: str) -> set[TableName]:
        return {name for name, route in self._routes() if topic in route.topics}

    def _by_topic(self) -> dict[str, list[str]]:
        """The known tables by each topic that they are published to, for messages."""
        found: dict[str, list[str]] = {}
        for name, route in self._routes():
            for topic in route.topics:
                found.setdefault(topic, []).append(".".join(name))
        return found

    async def _watch_topics(self, publisher: Publisher) -> None:
        """Raise TopicReplaced once a topic is recreated; for a row topic, TopicUnusable with its tables."""
        assert publisher.ids is not None
        try:
            await publisher.ids.watch()
        except TopicReplaced as error:
            topics = dict.fromkeys(publisher.ids.suspects, 1)
            tables = {name for topic in topics for name in self._tables_of(topic)}
            if not all(map(self._tables_of, topics)):
                raise
            raise TopicUnusable.of_all(dict.fromkeys(tables, error.in_one_line)) from error

    async def _watch_waiting(self, led: TakenOver) -> None:
        """Raise RunRestarts once a topic that tables wait for can take their rows."""
        routes, quarantine = self.plan.rules.routes, led.state.quarantine
        while True:
            await asyncio.sleep(_TOPIC_SECONDS)
            try:
                names = await usable(routes, quarantine, led.publisher)
            except AqueductError as error:
                if error.retry is not Retry.TIMED:
                    raise
                continue  # the run reports it, if it lasts
            if names:
                raise RunRestarts("as topics can take the rows of tables that wait for them")

    def _show_kafka(self) -> None:
        """Show that Kafka does not answer, even while there is nothing to publish that would fail."""
        lost = self.signals.kafka_lost
        if lost is not None and self.status.state is State.RUNNING:
            self.status.show(State.RETRYING, f"{lost.name}: {lost}")
        elif lost is None and self.status.state is State.RETRYING:
            self.status.show(State.RUNNING, None)

    def _may_complete(self) -> bool:
        """Whether to add missing tables to the history now; tried at intervals."""
        lag, now = self.status.lag_seconds, time.monotonic()
        if not self._is_partial or lag is None or lag > _NEAR_SECONDS or now < self._retry_at:
            return False
        self._retry_at = now + _PARTIAL_SECONDS
        return True


# The reading of a run: its decoders, and the thread that reads the binlog for them.
#
# Invariant: decoders and stream are opened at the same time; if either fails, both are closed
# before the error is raised.


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """The start of the reading of one run."""

    plan: Plan
    spec: StageSpec
    history: SchemaHistory | None
    address: SourceAddress
    budget: Budget
    phases: Phases
    by_coordinates: bool = False
    deletes: Deletes | None = None
    """See Reader."""

    async def read(
        self,
        cursor: Cursor,
        skipper: TransactionSkipper[ResolvedStatement] | None,
        *,
        seen: Callable[[Piece], None],
    ) -> tuple[Reader, Handoff]:
        """Open the stream at a cursor, without starting the thread. ``seen`` receives each piece first.

        Return the reading thread, and the handoff from which its pieces are taken. Raise the error of the
        source or of the decoders.
        """
        rules = self.plan.rules
        handoff = Handoff(
            asyncio.get_running_loop(),
            max_bytes=max(MAX_BYTES, 2 * rules.max_bytes),
            enough=rules.max_bytes,
        )

        def deliver(piece: Piece) -> bool:
            seen(piece)
            return handoff.put(piece)

        stream = BinlogStream(
            self.address,
            cursor.offset,
            prepared=cursor.prepared,
            aim=lambda: self.budget.chunk,
            by_coordinates=self.by_coordinates,
            skips=skipper.wants if skipper is not None else None,
        )
        tracker = SchemaTracker.of(self.history, self.spec) if self.history is not None else None
        starting = asyncio.create_task(
            asyncio.to_thread(
                start_decoders,
                self.spec,
                count=self.plan.decoders,
                state=Numbers.of(cursor),
                deliver=deliver,
                fail=handoff.fail,
                name=self.plan.name,
            )
        )
        try:
            async with beside(asyncio.to_thread(stream.open)) as opened:
                decoders = await asyncio.shield(starting)
                self.phases.reached("decoders started")
                await opened
        except BaseException:
            stream.close()
            # Threads cannot be cancelled.
            await asyncio.shield(asyncio.create_task(_closed(starting)))
            raise
        return Reader(stream, decoders, tracker, skipper, self.deletes), handoff


async def _closed(starting: asyncio.Task[Decoders]) -> None:
    """Wait for decoders that are no longer needed, and stop them."""
    await asyncio.wait([starting])
    if not starting.cancelled() and starting.exception() is None:
        await asyncio.to_thread(starting.result().close)
