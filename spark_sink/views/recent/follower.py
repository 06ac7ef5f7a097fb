"""The thread that stores recent changes: a light reader of the same topics, beside the query that merges.

A merge plans several jobs for each table and takes seconds; storing a batch of all tables is one small commit.

Invariant: while recent changes cover all that is not merged, a batch waits (at most 10 s) until they hold it,
and is merged then. So a reader that combines both never sees one table later than another. If this thread
fails, it is started again, and merging continues: recent changes are a copy, which only makes changes visible
earlier.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.observation import Observation

from spark_sink.batch.contents import envelopes
from spark_sink.errors import DataLost, KafkaUnreachable
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings
from spark_sink.source.installation import Installation
from spark_sink.source.kafka import KafkaTopics
from spark_sink.source.own_topics import ForeignRecord, is_open, marker_sql, no_markers
from spark_sink.source.positions import Offsets, Place
from spark_sink.source.tail import Tail
from spark_sink.spark.error_mapping import named
from spark_sink.text.quoting import literal
from spark_sink.warehouse.coverage import (
    MOST_UNMERGED,
    Coverage,
    Cut,
    Step,
    Wholeness,
    reaches,
    unmerged,
)
from spark_sink.warehouse.ledger import spans
from spark_sink.warehouse.lost_records import lost
from spark_sink.warehouse.protocol import RecentLog
from wire.topics import ddl_topic, schemas_topic

_log = logging.getLogger(__name__)
POOL: Final = "recent"
"""The scheduler's pool of this thread, whose tasks get a slot before the merge's many tasks do."""
_SECONDS_BETWEEN_STARTS: Final = 5.0
_SECONDS_BETWEEN_REMOVALS: Final = 300.0
_SECONDS_FOR_COVERAGE: Final = 10.0
_SECONDS_TO_END: Final = 5.0
_GROUP: Final = "aqueduct recent changes"
_SECONDS_TO_BEGIN: Final = 60.0
"""How long the first batch is awaited, which may never come if nothing is written."""


class Follower:
    """Starts the thread, and starts it again when it has failed."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        *,
        log: RecentLog[DataFrame],
        merged: Callable[[], Offsets],
        followed: Callable[[], Offsets],
        metrics: Metrics,
        installation: Installation | None = None,
        foreign: Callable[[Sequence[ForeignRecord]], object] = lambda _: None,
    ) -> None:
        """``merged`` returns the offsets up to which rows are merged; ``followed``, those read of DDL topics.

        ``foreign`` takes records of the transactions topics that no worker wrote. Without an ``installation``,
        all records of the topics that are read count as the installation's own.
        """
        self._installation = installation
        self._spark = spark
        self._settings = settings
        self._log = log
        self._merged = merged
        self._followed = followed
        self._metrics = metrics
        self._schemas_topic = schemas_topic(settings.prefix)
        self._ddl_topics = ddl_topic(settings.prefix, "")
        self._foreign = foreign
        self._topics = KafkaTopics(spark, settings, foreign=foreign)
        self._coverage = Coverage()
        self._wholeness = Wholeness()
        self._settled: Offsets = {}
        """The merged offsets when all transactions before them were last known to be whole."""
        self._until: Offsets = {}
        self._reached = threading.Condition()
        self._thread: threading.Thread | None = None
        self._tidying: threading.Thread | None = None
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self._started_at = float("-inf")
        self._is_beginning = False
        """Whether the thread has started and has not finished its first batch."""
        self._has_unused = False
        self._removed_at = time.monotonic()

    def look(self) -> None:
        """Start the thread unless it runs. Log a failure of the thread, and start it again later."""
        if self._stopping.is_set() or (self._thread is not None and self._thread.is_alive()):
            return
        self._uncover()
        if self._failure is not None:
            _log.warning("recent changes stopped, starting again: %s", named(self._failure))
            self._failure = None
        if time.monotonic() - self._started_at < _SECONDS_BETWEEN_STARTS:
            return
        self._started_at, self._is_beginning = time.monotonic(), True
        # PySpark's kind of thread has a thread of the JVM, and job settings, of its own.
        self._thread = InheritableThread(target=self._run, name="recent changes", daemon=True)
        self._thread.start()

    @property
    def is_covering(self) -> bool:
        """Whether readers see all changes before they are merged."""
        return self._coverage.since is not None

    def suffices(self, most: int) -> bool:
        """Whether readers see all changes, fewer than `most` of which are not merged.

        While the thread begins, for at most 60 s, this is assumed.
        """
        if self._is_beginning:
            return time.monotonic() - self._started_at < _SECONDS_TO_BEGIN
        return self.is_covering and unmerged(self._until, self._merged()) < most

    @property
    def is_untidy(self) -> bool:
        """Whether files that are no longer used should be removed."""
        return self._has_unused and time.monotonic() - self._removed_at > _SECONDS_BETWEEN_REMOVALS

    def remove_unused(self) -> None:
        """Remove files of recent changes that are merged; if that fails, they are removed later."""
        self._has_unused, self._removed_at = False, time.monotonic()
        try:
            self._log.remove_unused()
        except Exception as fault:
            # They only take room. After a stop, the session may have ended.
            self._has_unused = True
            if not self._stopping.is_set():
                _log.info(
                    "unused files of recent changes not removed, trying again later: %s",
                    named(fault),
                )

    def stop(self) -> None:
        """End the thread, whatever it is doing: what it has not stored yet will be merged."""
        self._stopping.set()
        self._uncover()
        if self._thread is not None:
            with suppress(PySparkException, Py4JError):
                self._spark.sparkContext.cancelJobGroup(_GROUP)
            self._thread.join(_SECONDS_TO_END)

    def wait_for(self, until: Offsets) -> None:
        """Wait until the recent changes hold everything up to `until`, or cover nothing.

        The wait is limited: merging continues if the other thread makes no progress.
        """
        with self._reached:
            self._reached.wait_for(lambda: self._holds(until), _SECONDS_FOR_COVERAGE)

    def _holds(self, until: Offsets) -> bool:
        if self._is_beginning:
            return False
        return self._coverage.since is None or all(
            self._until.get(at, 0) >= end for at, end in until.items()
        )

    def _uncover(self) -> None:
        with self._reached:
            self._coverage.since, self._is_beginning = None, False
            self._reached.notify_all()

    def _run(self) -> None:
        try:
            context = self._spark.sparkContext
            context.setLocalProperty("spark.scheduler.pool", POOL)
            context.setJobGroup(_GROUP, "recent changes", interruptOnCancel=True)
            tail = Tail(self._spark, self._settings, self._topics, start=self._first())
            try:
                self._follow(tail)
            finally:
                tail.close()
        except Exception as fault:
            if not self._stopping.is_set():
                self._failure = fault
                self._uncover()

    def _follow(self, tail: Tail) -> None:
        """Store new records until the thread is stopped."""
        while not self._stopping.wait(self._settings.trigger_interval):
            start, ends = dict(tail.until), tail.ends()
            # A partition that has just appeared begins with its first record.
            start = {**tail.until, **start}
            if reaches(start, ends) and self.is_covering:
                continue
            if unmerged(self._of_rows(ends), self._merged()) > MOST_UNMERGED:
                tail.skip(ends)
                self._uncover()
            else:
                records = tail.read(ends)
                self._store(records, start, dict(tail.until))

    def _first(self) -> Offsets:
        """The offset from which each partition is read. Raise DataLost."""
        merged = dict(self._merged())
        earliest, latest = self._topics.ranges(())
        known = {at: offset for at, offset in merged.items() if at in latest}
        for text in lost(known, earliest, latest).values():
            raise DataLost(text, advice="Start the sink again: the tables of the topic then wait")
        # The earlier values are read when a coverage begins.
        versions = {**self._topics.schemas_end(), **self._topics.markers_end()}
        first, end = self._topics.ddl_ranges()
        done = self._followed()
        statements = {at: min(max(done.get(at, 0), first[at]), end[at]) for at in end}
        return {**earliest, **known, **versions, **statements}

    def _store(self, records: DataFrame, start: Offsets, until: Offsets) -> None:
        markers = {at: offset for at, offset in start.items() if self._is_of_markers(at[0])}
        versions = {at: offset for at, offset in start.items() if at[0] == self._schemas_topic}
        if self._coverage.since is None:
            # Only what is seen after the beginning of a coverage proves the markers read at that beginning.
            self._wholeness = Wholeness()
        whole = self._whole(until)
        start, until = self._of_rows(start), self._of_rows(until)
        merged = dict(self._merged())
        if whole is not None and reaches(whole, merged):
            self._settled = merged
        step = self._coverage.step(start, until, merged, settled=self._settled)
        # A stop ends the coverage. A new one would not be proven whole, but would replace one that is.
        if step is Step.OMIT or (step is Step.BEGIN and self._stopping.is_set()):
            self._uncover()
            return
        if step is Step.BEGIN:
            records = self._with_versions(records, versions)
        rows = by_kind(
            records, self._schemas_topic, self._ddl_topics, own=self._own_sql(start, until)
        )
        cut = Cut(
            since=self._coverage.since or {},
            until=until,
            at_ms=int(time.time() * 1000),
            whole=whole,
        )
        seen, known = Observation(), self._metrics.destinations
        rows = rows.observe(
            seen,
            f.expr("min(if(kind = 'foreign', NULL, ts_ms))").alias("oldest"),
            f.expr("count_if(kind = 'foreign')").alias("foreign"),
            *highest(known),
        )
        foreign, rows = rows.where("kind = 'foreign'"), rows.where("kind <> 'foreign'")
        if step is Step.BEGIN:
            # A beginning replaces what is tidied, so one of the two commits would fail.
            if self._tidying is not None:
                self._tidying.join()
            ends = self._topics.last_values(markers)
            self._log.begin(rows, cut, markers=filter(is_open, ends))
        else:
            self._log.add(rows, cut)
            if step is Step.ADVANCE and not (self._tidying and self._tidying.is_alive()):
                # In a thread of its own: it takes as long as several batches.
                self._tidying = InheritableThread(target=self._tidied, args=(cut,), daemon=True)
                self._tidying.start()
        self._has_unused |= step is not Step.ADD
        with self._reached:
            self._until, self._is_beginning = until, False
            self._reached.notify_all()
        found = seen.get
        if found["foreign"]:
            places = foreign.select("topic", "partition", "offset").collect()
            self._foreign(no_markers((at[0], at[1], at[2]) for at in places))
        self._metrics.visible(until, oldest_ms=found["oldest"], now=time.time())
        self._metrics.seen(highest_found(found, known))

    def _with_versions(self, records: DataFrame, until: Offsets) -> DataFrame:
        """The records and, read from Kafka by Spark, those of the schemas topic before these offsets.

        As literals, all of these would be in the plan: there is one for each CREATE and ALTER of all time.
        """
        earliest, _ = self._topics.own_ranges(self._schemas_topic)
        earlier = self._topics.read({at: earliest.get(at, 0) for at in until}, until)
        return records.unionByName(earlier.where("value IS NOT NULL"), allowMissingColumns=True)

    def _own_sql(self, start: Offsets, until: Offsets) -> str:
        """The condition that a record in these ranges belongs to this installation; empty if all do."""
        if self._installation is None:
            return ""
        strange = self._installation.judge({topic for topic, _ in spans(start, until)})
        return self._installation.own_sql(strange)

    def _tidied(self, cut: Cut) -> None:
        try:
            # This thread inherits the pool of the thread that stores, whose batches must not wait for it.
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", "default")
            self._log.tidy(cut)
        except Exception as fault:
            # The next tidying does the same, and more. After a stop, the session may have ended.
            if not self._stopping.is_set():
                _log.info("recent changes not tidied, trying again later: %s", named(fault))

    def _of_rows(self, offsets: Offsets) -> dict[tuple[str, int], int]:
        return {
            at: offset
            for at, offset in offsets.items()
            if at[0] != self._schemas_topic
            and not self._is_of_markers(at[0])
            and not at[0].startswith(self._ddl_topics)
        }

    def _is_of_markers(self, topic: str) -> bool:
        return topic.startswith(markers_prefix(self._schemas_topic))

    def _whole(self, until: Offsets) -> Offsets | None:
        """The offsets before which each transaction is whole, now that everything up to `until` is covered."""
        try:
            # Kafka is asked only now: everything before `until` was visible when the batch was planned.
            reach = self._topics.reach(ddl=True)
        except KafkaUnreachable:
            # The thread fails by itself if Kafka stays unreachable.
            reach = None
        if reach is not None:
            self._wholeness.seen(until, reach)
        return self._wholeness.covered(until)


def highest(known: Sequence[str]) -> list[Column]:
    """Aggregates over the rows of a RecentLog: the highest (epoch, seq) of each known destination.

    Observed aggregates cannot be grouped, so a destination that is not known is found by its name, as the first
    or the last.
    """
    places = [f"max(if(destination = {literal(name)}, struct(epoch, seq), NULL))" for name in known]
    return [
        f.expr("min(destination)").alias("first"),
        f.expr("max(destination)").alias("last"),
        f.expr("max(if(destination IS NULL, NULL, struct(epoch, seq)))").alias("of_all"),
        *(f.expr(sql).alias(f"of_{number}") for number, sql in enumerate(places)),
    ]


def highest_found(found: Mapping[str, Any], known: Sequence[str]) -> dict[str, Place]:
    """The results of `highest` by destination.

    A new destination is among them only if it is the only destination; otherwise a merge makes it known.
    """
    places = {name: found[f"of_{number}"] for number, name in enumerate(known)}
    if found["first"] is not None and found["first"] == found["last"]:
        places[found["first"]] = found["of_all"]
    return {name: (place[0], place[1]) for name, place in places.items() if place is not None}


def stored(records: DataFrame, schemas: str, ddl: str, *, own: str = "") -> DataFrame:
    """Kafka's records as the rows of a RecentLog; row records only if they meet the condition `own`, if given.

    Records of the topic `schemas` are versions; records of topics that begin with `ddl` are statements. Of the
    transactions topics of the same prefix, only the ends of transactions in parts are kept.
    """
    return by_kind(records, schemas, ddl, own=own).where("kind <> 'foreign'")


def by_kind(records: DataFrame, schemas: str, ddl: str, *, own: str = "") -> DataFrame:
    """The rows of `stored`, and those of records in the transactions topics that are no markers (`foreign`)."""
    marker = f"startswith(topic, {literal(markers_prefix(schemas))})"
    kinds = {
        "version": f"topic = {literal(schemas)}",
        "foreign": f"{marker} AND NOT {marker_sql('text')}",
        "marker": marker,
        "statement": f"startswith(topic, {literal(ddl)})",
    }
    last = "get_json_object(text, '$.last') = 'false'"
    parts = f"{last} OR try_cast(get_json_object(text, '$.part') AS INT) > 1"
    ends = f"(get_json_object(text, '$.status') = 'END' AND ({parts}))"
    whens = " ".join(f"WHEN {sql} THEN '{kind}'" for kind, sql in kinds.items())
    kind = f"CASE {whens} ELSE 'record' END AS kind"
    kept = f"if({' OR '.join(kinds.values())}, text, NULL) AS text"
    rows = envelopes(records, kind, kept).where(f"kind <> 'marker' OR {ends}")
    if own:
        rows = rows.where(f"kind <> 'record' OR {own}")
    # A statement has a position among the rows, but not a position that a merge could reach.
    of_rows = f.expr("if(kind = 'record', destination, NULL)")
    return rows.withColumn("destination", of_rows).coalesce(1)


def markers_prefix(schemas: str) -> str:
    """The beginning of the names of the transactions topics that belong to a schemas topic."""
    return f"{schemas.removesuffix('__schemas')}__transactions."


def divides_nothing(topics: KafkaTopics, until: Offsets) -> bool:
    """Whether batches up to `until`, which Spark has planned, are known to divide no transaction."""
    try:
        reach, markers = topics.reach(), topics.markers_end()
        if reach is None or not reaches({**until, **markers}, reach):
            return False
        return not any(is_open(one) for one in topics.last_values(markers))
    except KafkaUnreachable:
        return False
