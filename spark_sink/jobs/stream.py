"""The streaming query: the offsets at which it starts, what ends it, and the error of a failure.

Invariant: a start never omits a record: a lost checkpoint is replaced by the ledger's offsets, and a
checkpoint past the ledger is refused. One background task runs at a time, in a thread beside the batches:
reloads, maintenance, and the removal of what is not needed.

The memory of the processes that hold a batch limits its number of offsets. With a local master, the driver
holds it. On a cluster the executors hold it, and the driver only plans it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_sink.batch.apply import THREADS, Applier
from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.batch.drops_and_renames.statement import KafkaDdl
from spark_sink.batch.partial_images import Ahead
from spark_sink.errors import DataLost, KafkaUnreachable, MemoryExhausted, SinkError
from spark_sink.jobs.lag import Watch
from spark_sink.jobs.load.state import Loads
from spark_sink.jobs.maintain import Outcomes, RequestedMaintenance
from spark_sink.jobs.metastore import MetastoreKeeper, registrar
from spark_sink.jobs.presence import Presence, SinkNote
from spark_sink.jobs.reload import Reloader
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings, limit_for
from spark_sink.source.admin import admin
from spark_sink.source.installation import installation_in, schemas_state, tables_of
from spark_sink.source.kafka import (
    KafkaTopics,
    enough_to_merge,
    matching,
    no_topics,
    pattern,
    read_schemas,
    stream,
)
from spark_sink.source.positions import Offsets
from spark_sink.source.schemas import SchemaBook
from spark_sink.spark.bucket_advice import make_folder
from spark_sink.spark.checkpoint import Checkpoint, check_origin
from spark_sink.spark.error_mapping import named
from spark_sink.spark.files import Files
from spark_sink.spark.java import java_class
from spark_sink.spark.jobs import again_if_lost
from spark_sink.spark.session import pace, submitted
from spark_sink.text.quoting import (
    FOREIGN,
    MAINTAINED,
    ORIGIN,
    PASSED_BY,
    SOURCES,
    TOPICS,
    UNMAINTAINED,
    of_sink,
)
from spark_sink.views.recent.follower import Follower, divides_nothing
from spark_sink.warehouse.foreign_topics import ForeignTopics
from spark_sink.warehouse.ledger import check_checkpoint_not_past_ledger, spans, starting_offsets
from spark_sink.warehouse.lost_records import lost, removed_between
from spark_sink.warehouse.maintenance_schedule import Maintenance, Sources
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.passed_by import PassedBy
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.table_rules import TableRules
from spark_sink.warehouse.topic_ids import TopicIds
from spark_sink.warehouse.waiting_tables import Request, Waits
from wire.topics import ddl_pattern

_log = logging.getLogger(__name__)
_SECONDS_FOR_LAST_BATCH: Final = 5.0
_POLL_SECONDS: Final = 0.2
_SECONDS_FOR_KAFKA: Final = 60.0
_SECONDS_BETWEEN_TRIES: Final = 2.0
_SECONDS_BETWEEN_REQUESTS: Final = 1.0


class BatchFailed(Exception):
    """The batch failed; its cause is stored separately."""


class Sink:
    """One streaming query from Kafka to the warehouse."""

    def __init__(self, spark: SparkSession, settings: Settings, metrics: Metrics) -> None:
        self._spark = spark
        self._settings = settings
        self._checkpoint = Checkpoint(Files(spark), settings.checkpoint)
        rules = TableRules(settings.tables)
        self._warehouse = open_warehouse(
            spark,
            settings.warehouse,
            table_format=settings.format,
            catalog=settings.catalog,
            retention_seconds=settings.maintenance.retention_seconds,
            layouts=rules.layout,
        )
        self._failure: Exception | None = None
        self._had_log: bool | None = None
        self.lost: set[str] = set()
        """The topics whose unread records were found to be gone at the start."""
        self._waits = Waits(
            self._warehouse.log, time.time, sink=settings.name, report=metrics.waiting
        )
        own = SinkNote(
            name=settings.name,
            pattern=pattern(settings),
            checkpoint=settings.checkpoint,
            fresh=settings.fresh and settings.mode == "continuous",
            moves=settings.on_rename == "move" or settings.on_drop != "keep",
        )
        self._presence = Presence(
            notes=self._warehouse.notes,
            own=own,
            matching=partial(matching, spark),
            busy=lambda: time.monotonic() - (self._applier.busy_since or time.monotonic()),
            complete_until=lambda: self._watch.complete_until(),
        )
        topics = self._topics = KafkaTopics(spark, settings)
        passed_by = PassedBy(notes=self._warehouse.notes, note=of_sink(PASSED_BY, settings.name))
        schemas = self._schemas = partial(read_schemas, spark, settings, passed_by.all_of)
        book = SchemaBook(schemas, state=partial(schemas_state, topics, settings.prefix))
        ddl = Ddl(
            topics=KafkaDdl(spark, settings),
            warehouse=self._warehouse,
            waits=self._waits,
            on_drop=settings.on_drop,
            on_rename=settings.on_rename,
            keep_seconds=settings.maintenance.retention_seconds,
            metrics=metrics,
            sources=book.sources,
            earlier=book.placed,
        )
        self._foreign = ForeignTopics(
            installation=installation_in(topics, settings.prefix, schemas),
            notes=self._warehouse.notes,
            note=of_sink(FOREIGN, settings.name),
        )
        self._topic_ids = TopicIds(
            notes=self._warehouse.notes,
            waits=self._waits,
            note=of_sink(TOPICS, settings.name),
            tables=self._warehouse.tables.names,
            shape=self._warehouse.tables.shape,
            sources=book.sources,
        )
        self._applier = Applier(
            foreign=self._foreign,
            is_read=lambda topic: bool(matching(spark, pattern(settings), [topic])),
            replaced=self._topic_ids.faults,
            book=book,
            warehouse=self._warehouse,
            waits=self._waits,
            metrics=metrics,
            ahead=Ahead(topics, routed=ddl.routed),
            ddl=ddl,
            claim_checks=settings.claim_checks,
            unusable_limit=settings.unusable_limit,
            pace=pace(settings),
            rules=rules,
        )
        self._rate = RateLimit(per_second=settings.max_rate)
        loads = Loads(spark, settings.warehouse, self._warehouse.log)
        most = partial(batch_limit, spark, settings)
        self._reloader = Reloader(
            applier=self._applier,
            topics=topics,
            loads=loads,
            most=most,
            broke_off=lambda: self._presence.broke_off,
        )
        self._recent = (
            Follower(
                spark,
                settings,
                log=self._warehouse.recent,
                merged=lambda: self._applier.applied,
                followed=self._warehouse.log.ddl_read,
                metrics=metrics,
                installation=self._foreign.installation,
                foreign=passed_by.more,
            )
            if settings.fresh and settings.mode == "continuous"
            else None
        )
        self._metastore = (
            MetastoreKeeper(
                registrar=partial(registrar, spark, settings, self._warehouse),
                shapes=self._applier.shapes.known,
                moved=lambda: sum(1 + len(one.given_up) for one in [*ddl.history.events.values()]),
                clock=time.monotonic,
            )
            if settings.metastore.uri
            else None
        )
        self._watch = Watch(self._ends, lambda: self._applier.applied, metrics, clock=time.time)
        self._maintenance = Maintenance(
            warehouse=self._warehouse,
            plan=settings.maintenance,
            complete_until=self._watch.complete_until,
            complete_elsewhere=self._presence.complete_elsewhere,
            merged=self._applier.merged,
            busy_since=lambda: self._applier.busy_since,
            busy_elsewhere=self._presence.busy_elsewhere,
            sources=Sources(
                notes=self._warehouse.notes,
                of_table=self._applier.book.sources,
                newest=self._applier.newest,
                note=of_sink(SOURCES, settings.name),
            ),
            note=of_sink(MAINTAINED, settings.name),
            fault_note=of_sink(UNMAINTAINED, settings.name),
            report=metrics.unmaintained,
            waits=self._waits.waiting,
            milestones=self._applier.milestones,
            gate=self._applier.gate,
            broke_off=lambda: self._presence.broke_off,
        )
        requested = RequestedMaintenance(
            waits=self._waits,
            maintain=self._maintenance.maintain,
            tables=self._warehouse.tables.names,
            sink=settings.name,
        )
        deleted, recent = self._applier.deleted, self._recent
        due: list[Callable[[], Work | None]] = [
            partial(requested_reloads, self._applier.gate, self._waits, self._reloader.answer),
            requested.next,
        ]
        if rules.any_hard:
            due.append(partial(work_on_due_table, deleted.due, deleted.sweep))
        due.append(partial(quiet_ddl, self._applier.is_quiet, self._apply_ddl))
        due.append(partial(work_on_due_table, self._maintenance.due, self._maintenance.maintain))
        if recent is not None:
            due.append(lambda: recent.remove_unused if recent.is_untidy else None)
        self._beside = BackgroundTasks(due=due)

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set, or (available-now) until all is applied; raise SinkError."""
        failure: Exception | None = None
        is_done = False
        try:
            start = self._prepared(stop)
            if start is None:
                return
            query = self._attend(start, stop)
            self._end(query)
            failure = self._failure or (query.exception() if query is not None else None)
            if failure is None and self._settings.mode == "available-now" and not stop.is_set():
                self._watch.look()
                # Requests may be new: all rows that replace those of a table may have come by now.
                self._waits.refresh()
                self._reloader.answer(*self._waits.requests)
                while name := self._applier.deleted.due():
                    self._applier.deleted.sweep(name)
                while name := self._maintenance.due():
                    self._maintenance.maintain(name)
                if self._metastore is not None:
                    self._metastore.look()
            is_done = failure is None
        except (PySparkException, Py4JError, OSError) as fault:
            # Once a stop was requested, the JVM may have been stopped too, and no longer answers.
            failure = self._failure or fault
        finally:
            if failure is None or not isinstance(named(failure), MemoryExhausted):
                self._maintenance.end()
            self._presence.end(failed=not is_done and not stop.is_set())
        if failure is not None and not (stop.is_set() and not isinstance(failure, SinkError)):
            raise named(failure) from failure
        if self._settings.mode == "available-now" and not stop.is_set():
            self._waits.raise_waiting()
            self._foreign.raise_refused()

    def _apply_ddl(self) -> None:
        self._applier.apply_ddl(self._topics.read({}, {}))

    def _ends(self) -> Offsets:
        """The ends of all row topics; a topic that was recreated ends the run."""
        ends = self._topics.ends()
        try:
            self._topic_ids.check(self._topics.ids({topic for topic, _ in ends}))
        except DataLost as fault:
            self._failure = self._failure or fault
        return ends

    def maintain(self, tables: Collection[Name]) -> Outcomes:
        """Maintain tables, all if none is named, while no sink runs."""
        self._waits.refresh()
        newest = self._warehouse.log.newest_ms() / 1000
        self._watch.begin(min(newest, self._presence.complete_at_last()))
        if not self._warehouse.notes.excludes():
            # A sink that started meanwhile would replace commits, or have its own replaced.
            self._presence.claim(())
        self._warehouse.commits.announce()
        # A sink that starts meanwhile may run a batch as old as this, whose files must not be removed.
        self._applier.busy_since = time.monotonic()
        names = list(tables) or self._warehouse.tables.names()
        is_done = False
        try:
            found = {name: self._maintenance.maintain(name) for name in names}
            is_done = True
            return found
        finally:
            self._presence.end(failed=not is_done)

    def _prepared(self, stop: threading.Event) -> str | None:
        """The offsets to start from, once all is ready; None if a stop came before Kafka answered."""
        settings = self._settings
        start = self._from_kafka(stop)
        if start is None:
            return None
        _log.info("Kafka answered; reading the ledger and DDL")
        if self._recent is not None:
            self._recent.look()
        self._waits.refresh()
        with self._applier.gate:
            self._applier.follow_ddl({})
            self._applier.hold_against_ledger()
        self._warehouse.log.begun()
        self._maintenance.report_faults()
        if settings.mode == "available-now":
            self._reloader.answer(*self._waits.requests)
        self._applier.milestones.begin()
        _log.info("sink started mode=%s topics=%s", settings.mode, pattern(settings))
        return start

    def _start(self, start: str) -> StreamingQuery:
        settings = self._settings
        limit = batch_limit(self._spark, settings)
        _log.info("merging begins largest_batch=%d offsets", limit)
        partitions = len(self._topics.ends())
        records = stream(
            self._spark, settings, starting_offsets=start, limit=limit, partitions=partitions
        )
        writer = records.writeStream.foreachBatch(self._batch).option(
            "checkpointLocation", settings.checkpoint
        )
        if settings.mode == "available-now":
            return writer.trigger(availableNow=True).start()
        interval = f"{round(settings.trigger_interval * 1000)} milliseconds"
        return writer.trigger(processingTime=interval).start()

    def _attend(self, start: str, stop: threading.Event) -> StreamingQuery | None:
        """Start the query once merging is due, and wait for its end or a stop.

        Meanwhile, look for requests and at Kafka's ends. Return None if merging was never due.
        """
        looks = threading.Thread(target=self._watch.run, args=(stop,), daemon=True)
        looks.start()
        if self._metastore is not None:
            ended = stop.wait
            threading.Thread(target=self._metastore.run, args=(ended,), daemon=True).start()
        try:
            return self._until_ended(start, stop)
        finally:
            self._watch.end()

    def _until_ended(self, start: str, stop: threading.Event) -> StreamingQuery | None:
        query: StreamingQuery | None = None
        began, last = time.monotonic(), 0.0
        while (query is None or query.isActive) and self._failure is None:
            if query is None and self._must_merge(time.monotonic() - began):
                query = self._start(start)
            if stop.wait(_POLL_SECONDS):
                break
            if time.monotonic() - last >= _SECONDS_BETWEEN_REQUESTS:
                last = time.monotonic()
                if self._recent is not None:
                    self._recent.look()
                self._beside.look(stop)
                beside = self._beside.failure or self._presence.superseded
                self._failure = self._failure or beside
        if self._has_all(query, stop):
            # Otherwise a reload that still runs would be begun a second time, in the same stage.
            beside = self._beside.finished(stop)
            self._failure = self._failure or beside
        if self._has_all(query, stop):
            self._apply_ddl()
        return query

    def _has_all(self, query: StreamingQuery | None, stop: threading.Event) -> bool:
        """Whether the query has ended because all records are applied."""
        is_whole = query is not None and not query.isActive and query.exception() is None
        has_end = self._settings.mode == "available-now"
        return is_whole and has_end and self._failure is None and not stop.is_set()

    def _must_merge(self, waited: float) -> bool:
        """Whether the first merge is due, so many seconds after the start.

        The first merge takes longest by far, since none of its code has ever run. While readers see all changes
        without it, it waits as later merges do.
        """
        return (
            self._recent is None
            or waited >= self._settings.merge_interval
            or not self._recent.suffices(enough_to_merge(self._settings))
        )

    def _from_kafka(self, stop: threading.Event) -> str | None:
        """The offsets to start from, once Kafka answers; None if a stop came first."""
        # A folder that cannot be used is reported before anything else is requested.
        make_folder(self._settings.warehouse, self._warehouse.notes.make)
        make_folder(self._settings.checkpoint, self._checkpoint.make)
        began, is_logged = time.monotonic(), False
        while not stop.is_set():
            try:
                return self._from()
            except KafkaUnreachable as fault:
                has_end = self._settings.mode == "available-now"
                if has_end and time.monotonic() - began >= _SECONDS_FOR_KAFKA:
                    raise
                if not is_logged:
                    _log.error("%s. Retrying until it answers", fault)
                    is_logged = True
            stop.wait(_SECONDS_BETWEEN_TRIES)
        return None

    def _from(self) -> str:
        settings = self._settings
        with admin(self._spark, settings) as kafka:
            cluster, names = kafka.cluster_id(), kafka.topics()
            wanted = pattern(settings)
            (earliest, latest), ids = kafka.ranges(wanted), kafka.ids()
        self._presence.claim(names)
        if not latest:
            fault = no_topics(settings, names)
            if settings.mode == "available-now":
                raise fault
            _log.warning("%s. Waiting for topics to appear", fault)
        origin = {"prefix": settings.prefix, "cluster": cluster}
        noted = f"{settings.warehouse}/{ORIGIN}"
        check_origin(self._warehouse.notes, ORIGIN, origin, where=noted)
        if self._had_log is None:
            self._had_log = self._warehouse.log.make()
        if not self._had_log and (ddl := self._applier.ddl) is not None:
            ddl.is_lost = bool(self._warehouse.tables.names())
        self._checkpoint.replace_if_damaged(origin)
        self._foreign.begin({topic for topic, _ in latest})
        applied, read = (
            self._among(wanted, self._warehouse.log.applied()),
            dict[tuple[str, int], int](),
        )
        if self._checkpoint.started():
            read = {**self._checkpoint.initial(), **self._checkpoint.committed()}
        read = dict(self._among(wanted, read))
        # No record of a partition without an entry in the ledger has been applied yet.
        self._begin_again(ids, earliest, lost({**read, **applied}, earliest, latest))
        if any(earliest.values()) and not self._had_log:
            self._applier.hold_without_ledger()
        if self.lost:
            applied = self._among(wanted, self._warehouse.log.applied())
        self._applier.applied = dict(applied)
        kept = {topic for topic, _ in applied}
        self._watch.begin(self._warehouse.log.newest_ms(kept) / 1000)
        if self._checkpoint.started():
            known = {topic for topic, _ in self._checkpoint.known()}
            # Spark would continue to read topics that are excluded now, and report them as lost. Topics that
            # are included again it would read from their beginning, though the ledger has some of their
            # records.
            gone = sorted(known - matching(self._spark, wanted, known) | kept - known)
            if not gone:
                committed, initial = self._checkpoint.committed(), self._checkpoint.initial()
                check_checkpoint_not_past_ledger(applied, committed, initial)
                removed = removed_between({**initial, **committed}, applied, earliest)
                if not removed:
                    return "earliest"
                _log.warning(
                    "Kafka removed what follows the checkpoint: starting from the ledger's offsets topics=%s",
                    sorted(removed),
                )
            else:
                _log.warning(
                    "topics excluded or included again: starting from the ledger's offsets topics=%s",
                    gone,
                )
        elif applied:
            _log.warning("checkpoint lost: starting from the ledger's offsets")
        self._checkpoint.forget()
        return starting_offsets(applied, latest) if applied else "earliest"

    def _among(self, wanted: str, offsets: Offsets) -> Offsets:
        """The offsets of the topics that match."""
        kept = matching(self._spark, wanted, {topic for topic, _ in offsets})
        return {at: until for at, until in offsets.items() if at[0] in kept}

    def _begin_again(
        self, ids: Mapping[str, str], earliest: Offsets, gone: Mapping[str, str]
    ) -> None:
        """Make the tables of topics that were deleted and recreated wait; the topics' offsets are void.

        The same holds for topics whose unread records are `gone`, for the reason given.
        """
        topics = {topic for topic, _ in earliest}
        own = topics | matching(self._spark, ddl_pattern(self._settings.prefix), ids)
        again = self._topic_ids.replaced(known := {one: ids[one] for one in own if one in ids})
        strange = self._topic_ids.unknown(known)
        # Topics without a noted id are new, unless the ledger has them.
        if strange := strange and strange & {one for one, _ in self._warehouse.log.applied()}:
            _log.warning(
                "%s lacks the ids of topics that the ledger has, so it is not known whether they were deleted "
                "and made again while the sink was stopped topics=%s",
                self._topic_ids.note,
                ", ".join(sorted(strange)),
            )
        gone = {topic: text for topic, text in gone.items() if topic not in again}
        self.lost = again & topics | gone.keys()
        if self.lost:
            values = self._schemas()
            prefix = self._settings.prefix
            sources = {topic: tables_of(values, topic, prefix) for topic in self.lost}
            self._topic_ids.wait(sources, earliest, lost=gone)
            self._warehouse.log.void(self.lost)
            self._checkpoint.forget()
        if (ddl := self._applier.ddl) is not None and again - topics:
            ddl.begin_again(again - topics)
        self._topic_ids.keep(known)

    def _batch(self, records: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        try:
            context = records.sparkSession.sparkContext
            moved = self._checkpoint.offsets(batch_id)
            self._topic_ids.check(self._topics.ids({topic for topic, _ in moved[1]}))
            if self._recent is not None:
                self._recent.wait_for(moved[1])
                # While readers see all changes as recent changes, merging leaves the processors to them.
                self._applier.threads = 1 if self._recent.is_covering else THREADS
            # Recent changes show by themselves whether a transaction is whole.
            covered = self._recent is not None and self._recent.is_covering
            is_whole = not covered and divides_nothing(self._topics, moved[1])

            def apply() -> None:
                self._applier.apply(
                    records.coalesce(max(1, context.defaultParallelism)),
                    batch_id,
                    query_id=str(context.getLocalProperty("sql.streaming.queryId")),
                    moved=moved,
                    is_whole=is_whole,
                )

            again_if_lost(apply, stopped=self._applier.stopping.is_set)
            self._rate.pause(began, *moved)
        except Exception as fault:
            # The error is kept here. Through the JVM it would come back as text, and on a long text Spark's
            # own pattern matching overflows its stack.
            self._failure = self._failure or fault
            raise BatchFailed from None

    def _end(self, query: StreamingQuery | None) -> None:
        """Let the current batch finish if it does so soon, else leave it for the next start."""
        if self._recent is not None:
            self._recent.stop()
        self._rate.stop()
        if query is None:
            return
        waited = 0.0
        while query.isActive and waited < _SECONDS_FOR_LAST_BATCH:
            if not query.status["isTriggerActive"]:
                break
            waited += _POLL_SECONDS
            threading.Event().wait(_POLL_SECONDS)
        self._applier.stopping.set()
        query.stop()


@dataclass(slots=True, kw_only=True)
class RateLimit:
    """A limit in offsets per second; 0 means no limit.

    Spark limits the size of a batch, but not how soon the next batch follows.

    Invariant: over a batch and its pause, the mean rate is at most the limit. A stop ends the pause.
    """

    per_second: float
    clock: Callable[[], float] = time.monotonic
    stopped: threading.Event = field(default_factory=threading.Event)

    def pause(self, began: float, start: Offsets, until: Offsets) -> None:
        """Wait for the time by which a batch of the offsets [start, until), begun at `began`, was too fast."""
        if self.per_second <= 0:
            return
        offsets = sum(end - first for first, end in spans(start, until).values())
        left = offsets / self.per_second - (self.clock() - began)
        if left > 0:
            self.stopped.wait(left)

    def stop(self) -> None:
        """End the pause, and all later ones."""
        self.stopped.set()


_MEMORY = "1g"
"""Spark's default for the driver's memory."""


def batch_limit(spark: SparkSession, settings: Settings) -> int:
    """Return the most offsets of a batch: as set, or as Spark's present memory allows.

    Executors that register later are not counted: a batch is then smaller than it could be.
    """
    is_own = settings.master.startswith("local") and not submitted()
    if settings.max_offsets_per_trigger or is_own:
        return settings.batch_limit
    return limit_for(memory(spark))


def memory(spark: SparkSession) -> int:
    """Return the memory, in MiB, of the driver with a local master, else of all executors."""
    conf = spark.sparkContext.getConf()
    context: Any = spark.sparkContext._jsc.sc()
    if context.isLocal():
        size = java_class(spark._jvm, "org.apache.spark.network.util.JavaUtils")
        return int(size.byteStringAsMb(conf.get("spark.driver.memory", _MEMORY)))
    # The driver is among the registered processes.
    registered = int(context.getExecutorMemoryStatus().size()) - 1
    asked_for = int(conf.get("spark.executor.instances", "1") or "1")
    return max(registered, asked_for) * int(context.executorMemory())


_SECONDS_FOR_THE_GATE: Final = 1.0
_SECONDS_BETWEEN_LOOKS: Final = 0.2

Work = Callable[[], object]


def requested_reloads(
    gate: threading.Lock, waits: Waits, answer: Callable[..., None]
) -> Work | None:
    """Return the work that answers all requests; None without any.

    If a long batch holds the gate, the work is to wait for it: were it left for later, maintenance would begin,
    wait for the gate in its place, and do so again in the next batch.
    """

    def requests() -> list[Request]:
        waits.refresh()
        return list(waits.requests)

    def wait_and_answer() -> None:
        with gate:
            found = requests()
        if found:
            answer(*found)

    # Batches may follow one another almost without a pause, so the check waits for the gate and does not poll.
    if not gate.acquire(timeout=_SECONDS_FOR_THE_GATE):
        return wait_and_answer if waits.asks() else None
    try:
        found = requests()
    finally:
        gate.release()
    return partial(answer, *found) if found else None


def work_on_due_table(
    due: Callable[[], Name | None], work: Callable[[Name], object]
) -> Work | None:
    """Return the work on the table that is due; None without such a table."""
    name = due()
    return None if name is None else partial(work, name)


def quiet_ddl(is_quiet: Callable[[], bool], apply_ddl: Work) -> Work | None:
    """Return the work that looks for DDL while no batch does; it is repeated later if Kafka does not answer."""

    def apply() -> None:
        with suppress(KafkaUnreachable):
            apply_ddl()

    return apply if is_quiet() else None


@dataclass(slots=True, kw_only=True)
class BackgroundTasks:
    """Starts background tasks, one at a time, without holding the gate."""

    due: Sequence[Callable[[], Work | None]]
    """Each returns the work of one kind that is due, None without any.

    The first kind comes before all others; these take turns, so that none waits for one that is always due.
    """
    failure: Exception | None = None
    """The first error that ended a task."""
    _thread: threading.Thread | None = field(default=None, init=False)
    _last: int = field(default=0, init=False)
    """The kind of the last work that was not of the first kind."""

    def look(self, stop: threading.Event) -> None:
        """Start a task that is due, unless one is running."""
        if self._thread is not None and self._thread.is_alive():
            return
        after = self._last + 1
        for kind in (0, *range(after, len(self.due)), *range(1, after)):
            work = self.due[kind]()
            if work is not None:
                self._last = kind or self._last
                self._thread = threading.Thread(
                    target=self._guarded, args=(work, stop), daemon=True
                )
                self._thread.start()
                return

    def finished(self, stop: threading.Event) -> Exception | None:
        """Wait for the end of the task that runs, or for a stop; return the first error that ended a task."""
        while self._thread is not None and self._thread.is_alive() and not stop.is_set():
            self._thread.join(_SECONDS_BETWEEN_LOOKS)
        return self.failure

    def _guarded(self, work: Work, stop: threading.Event) -> None:
        try:
            work()
        except Exception as fault:
            # A stop ends the JVM during the task, which does no harm.
            if not stop.is_set():
                self.failure = self.failure or fault
