"""Kafka as the sink reads it: the stream of row topics, the schemas topic, and the offsets held.

Invariant: all reads have read_committed and failOnDataLoss; if records are missing, the sink stops.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.errors import NoTopics
from spark_sink.settings.model import Settings
from spark_sink.source.admin import (
    Admin,
    admin,
    opened,
    options,
    range_options,
    read_ahead,
    unreachable,
)
from spark_sink.source.own_topics import (
    ForeignRecord,
    RawRecord,
    Report,
    marker_sql,
    no_markers,
    versions_in,
    warn_of_foreign,
)
from spark_sink.source.positions import Offsets
from spark_sink.spark.java import java_class
from spark_sink.spark.jobs import MANY, for_many_rows
from wire.topics import (
    ddl_pattern,
    exact_pattern,
    installations,
    row_pattern,
    schemas_topic,
    shard_topics,
    transactions_pattern,
)

_ENOUGH_TO_MERGE = 20_000
_WINDOW = 100
"""The number of offsets in which the last record of a partition is first looked for."""
RAW = (
    *("topic", "partition", "offset"),
    *(f"CAST({name} AS STRING) AS {name}" for name in ("key", "value")),
)
"""The columns of `RawRecord`, as expressions over Spark's Kafka source."""
_TEXT = "CAST(value AS STRING)"
_RECORDS = (
    "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


def stream(
    spark: SparkSession, settings: Settings, *, starting_offsets: str, limit: int, partitions: int
) -> DataFrame:
    """Return the records of all row topics, also of topics that appear later; a batch has at most `limit`.

    `partitions` is their present number of partitions.
    """
    reader = spark.readStream.format("kafka").options(**read_ahead(settings, partitions))
    reader = reader.options(**options(settings))
    return (
        reader.option("subscribePattern", pattern(settings))
        .option("startingOffsets", starting_offsets)
        .option("maxOffsetsPerTrigger", limit)
        .options(**_held_back(settings))
        .load()
    )


def enough_to_merge(settings: Settings) -> int:
    """Return the number of offsets that are merged without waiting for more."""
    return min(_ENOUGH_TO_MERGE, settings.batch_limit)


def _held_back(settings: Settings) -> dict[str, str]:
    """The options by which few changes wait for more; meanwhile, readers see them as recent changes."""
    if not settings.fresh or settings.mode == "available-now":
        return {}
    return {
        "minOffsetsPerTrigger": str(enough_to_merge(settings)),
        "maxTriggerDelay": f"{round(settings.merge_interval * 1000)}ms",
    }


def recent_pattern(settings: Settings) -> str:
    """Return the Java regular expression of all row, schemas, transactions and DDL topics."""
    return f"{_with_ddl(settings)}|{exact_pattern(schemas_topic(settings.prefix))}"


def _with_transactions(settings: Settings) -> str:
    """The Java regular expression of the row topics and the transactions topics."""
    return f"(?:{pattern(settings)})|(?:{transactions_pattern(settings.prefix)})"


def _with_ddl(settings: Settings) -> str:
    """The Java regular expression of the row topics, the transactions topics and the DDL topics."""
    ddl = ddl_pattern(settings.prefix, exclude=settings.exclude)
    return f"{_with_transactions(settings)}|(?:{ddl})"


def read_schemas(
    spark: SparkSession, settings: Settings, report: Report = warn_of_foreign
) -> list[str]:
    """Return the values of the schemas topic that name a table version, oldest first.

    They are empty if the topic does not exist. `report` gets the topic and all of its foreign records.
    """
    topic = schemas_topic(settings.prefix)
    with admin(spark, settings) as kafka:
        if topic not in kafka.topics():
            return []
    reader = spark.read.format("kafka").options(**range_options(settings))
    records = reader.option("subscribe", topic).load().where("value IS NOT NULL")
    ordered = records.orderBy("partition", "offset").selectExpr(*RAW)
    values, foreign = versions_in(RawRecord(**row.asDict()) for row in ordered.collect())
    report(topic, foreign)
    return values


def pattern(settings: Settings) -> str:
    """Return the Java regular expression to which the stream subscribes."""
    return row_pattern(settings.prefix, include=settings.include, exclude=settings.exclude)


def no_topics(settings: Settings, names: Collection[str]) -> NoTopics:
    """Return the error that no topic in Kafka matches, with the prefixes that exist."""
    there = ", ".join(sorted(installations(names))[:10]) or "none"
    return NoTopics(
        f"prefix {settings.prefix!r}, pattern {pattern(settings)}",
        advice=f"Check prefix, include and exclude; the prefixes in Kafka: {there}",
    )


def matching(spark: SparkSession, wanted: str, names: Collection[str]) -> set[str]:
    """Return the names that a Java regular expression matches as a whole."""
    compiled = java_class(spark._jvm, "java.util.regex.Pattern").compile(wanted)
    return {name for name in names if compiled.matcher(name).matches()}


class Topics(Protocol):
    """Kafka's row topics, as reloads and batches read them beside the stream."""

    def ranges(self, topics: Collection[str]) -> tuple[Offsets, Offsets]:
        """Return (earliest, latest committed) offsets of these topics; of all row topics if none is named."""

    def read(self, start: Offsets, end: Offsets) -> DataFrame:
        """Return the records from `start` to `end` of each partition that `start` has."""


class KafkaTopics:
    """The row topics, read between offsets for reloads; and the offsets of all topics of the installation."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        *,
        foreign: Callable[[Sequence[ForeignRecord]], object] = lambda _: None,
    ) -> None:
        """``foreign`` takes records of the transactions topics that no worker wrote."""
        self._spark = spark
        self._settings = settings
        self._foreign = foreign
        self._lock = threading.Lock()
        self._kept: Admin | None = None

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """Yield an admin client, which is kept for the next call unless it fails; raise KafkaUnreachable."""
        with self._lock:
            client = self._kept = self._kept or opened(self._spark, self._settings)
        try:
            yield client
        except Py4JJavaError as fault:
            with self._lock:
                self._kept = None if self._kept is client else self._kept
            client.close()
            raise unreachable(self._settings, fault) from fault

    def close(self) -> None:
        """Close the client."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def ranges(
        self, topics: Collection[str]
    ) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """Return (earliest, latest committed) offsets of these topics; of all row topics if none is named."""
        with self.admin() as kafka:
            earliest, latest = kafka.ranges(pattern(self._settings))
        if not topics:
            return earliest, latest
        return tuple(
            {at: n for at, n in one.items() if at[0] in topics} for one in (earliest, latest)
        )  # type: ignore[return-value]

    def own_ranges(
        self, topic: str
    ) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """Return (earliest, latest committed) offsets of one topic of any kind; empty if it does not exist."""
        with self.admin() as kafka:
            return kafka.ranges(exact_pattern(topic))

    def ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return Kafka's ids of topics."""
        with self.admin() as kafka:
            return {topic: one for topic, one in kafka.ids().items() if topic in topics}

    def ends(self) -> dict[tuple[str, int], int]:
        """Return the committed ends of all row topics."""
        with self.admin() as kafka:
            return kafka.ends(pattern(self._settings))

    def schemas_end(self, *, is_decided: bool = True) -> dict[tuple[str, int], int]:
        """Return the end of the schemas topic; without `is_decided`, uncommitted records included."""
        topic = exact_pattern(schemas_topic(self._settings.prefix))
        with self.admin() as kafka:
            return kafka.ends(topic) if is_decided else kafka.written(topic)

    def markers_end(self) -> dict[tuple[str, int], int]:
        """Return the committed ends of the transactions topics; empty without any."""
        with self.admin() as kafka:
            return kafka.ends(transactions_pattern(self._settings.prefix))

    def reach(self, *, ddl: bool = False) -> dict[tuple[str, int], int] | None:
        """Return the ends of all row and transactions topics, undecided records included.

        With `ddl`, add the ends of the DDL topics. Return None if a merge of several masters writes row topics:
        it publishes a transaction's rows one by one.
        """
        shards = shard_topics(self._settings.prefix)
        with self.admin() as kafka:
            if any(name.startswith(shards) for name in kafka.topics()):
                return None
            wanted = _with_ddl if ddl else _with_transactions
            return kafka.written(wanted(self._settings))

    def last_values(self, ends: Offsets) -> list[str]:
        """Return the value of each partition's last transaction marker before its end, if it has one.

        Records of other programs, which may hide it, are passed by.
        """
        values: list[str] = []
        window, left = _WINDOW, {at: end for at, end in ends.items() if end > 0}
        others, is_own = set[tuple[str, int, int]](), marker_sql(_TEXT)
        if not left:
            return values
        with self.admin() as kafka:
            earliest = kafka.ranges(transactions_pattern(self._settings.prefix))[0]
        while left:
            # Aborted records and the ends of Kafka transactions have offsets, but are no records.
            start = {at: max(earliest.get(at, 0), end - window) for at, end in left.items()}
            last = (
                self.read(start, left)
                .groupBy("topic", "partition")
                .agg(
                    f.expr(f"max_by({_TEXT}, offset) FILTER (WHERE {is_own})").alias("value"),
                    f.expr(f"collect_list(offset) FILTER (WHERE NOT {is_own})").alias("others"),
                )
            )
            rows = last.collect()
            others |= {(row.topic, row.partition, at) for row in rows for at in row.others}
            found = {(one.topic, one.partition): one.value for one in rows if one.value is not None}
            values += found.values()
            left = {
                at: end
                for at, end in left.items()
                if at not in found and start[at] > earliest.get(at, 0)
            }
            window *= 10
        self._foreign(no_markers(others))
        return values

    def ddl_ranges(self) -> tuple[Offsets, Offsets]:
        """Return (earliest, latest committed) offsets of the DDL topics."""
        wanted = ddl_pattern(self._settings.prefix, exclude=self._settings.exclude)
        with self.admin() as kafka:
            return kafka.ranges(wanted)

    def read(
        self, start: Mapping[tuple[str, int], int], end: Mapping[tuple[str, int], int]
    ) -> DataFrame:
        """Return the records from `start` to `end` of each partition that `start` has.

        If they are many, for example for a reload, they are read in a session for many rows.
        """
        moved = {at: (first, end[at]) for at, first in start.items() if end[at] > first}
        if not moved:
            return self._spark.createDataFrame([], _RECORDS)
        partitions: dict[str, list[int]] = {}
        firsts: dict[str, dict[str, int]] = {}
        lasts: dict[str, dict[str, int]] = {}
        for (topic, partition), (first, last) in sorted(moved.items()):
            partitions.setdefault(topic, []).append(partition)
            firsts.setdefault(topic, {})[str(partition)] = first
            lasts.setdefault(topic, {})[str(partition)] = last
        records = sum(last - first for first, last in moved.values())
        session = self._spark if records < MANY else for_many_rows(self._spark)
        reader = session.read.format("kafka")
        return (
            reader.options(**range_options(self._settings, len(moved)))
            .option("assign", json.dumps(partitions))
            .option("startingOffsets", json.dumps(firsts))
            .option("endingOffsets", json.dumps(lasts))
            .load()
        )
