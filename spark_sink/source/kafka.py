"""Kafka as the sink reads it: the stream of row topics, the schemas topic, and the offsets held.

Invariant: read_committed and failOnDataLoss always; where records are missing the sink stops.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.errors import KafkaUnreachable, NoTopics
from spark_sink.java import java_class, texts
from spark_sink.java import matching as java_matching
from spark_sink.names import ddl_pattern, schemas_topic, topic_pattern, transactions_topics
from spark_sink.pace import MANY, for_many_rows
from spark_sink.settings import Settings
from spark_sink.source.offsets import Offsets

_METADATA_MAX_AGE_MS = 1000
_FETCH_MAX_WAIT_MS = 5
"""Spark reads only what is there, and then asks for the partition's offsets on the connection on which the
client has just asked for more: with Kafka's 500 ms, each partition of each batch took half a second."""
_MAX_POLL_RECORDS = 5_000
"""With Kafka's 500, Spark asks the broker for the partition's offsets ten times as often."""
_ENOUGH_TO_MERGE = 20_000
_OFFSET = re.compile(r"([\w.-]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+)")
_WINDOW = 100
"""Offsets in which the last record of a topic is first looked for."""
_RECORDS = (
    "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


def stream(
    spark: SparkSession, settings: Settings, *, starting_offsets: str, limit: int
) -> DataFrame:
    """The records of all row topics, those that appear later included; a batch has at most `limit`."""
    reader = spark.readStream.format("kafka").options(**options(settings))
    return (
        reader.option("subscribePattern", pattern(settings))
        .option("startingOffsets", starting_offsets)
        .option("maxOffsetsPerTrigger", limit)
        .options(**_held_back(settings))
        .load()
    )


def enough_to_merge(settings: Settings) -> int:
    """The number of offsets that are merged without waiting for more."""
    return min(_ENOUGH_TO_MERGE, settings.batch_limit)


def _held_back(settings: Settings) -> dict[str, str]:
    """The options that let few changes wait for more, while readers see them as recent changes."""
    if not settings.fresh or settings.mode == "available-now":
        return {}
    return {
        "minOffsetsPerTrigger": str(enough_to_merge(settings)),
        "maxTriggerDelay": f"{round(settings.merge_interval * 1000)}ms",
    }


def recent_pattern(settings: Settings) -> str:
    """The Java regular expression of all row, schemas, transactions and DDL topics."""
    return f"{_with_ddl(settings)}|{_exactly(schemas_topic(settings.prefix))}"


def _with_transactions(settings: Settings) -> str:
    """The Java regular expression of the row topics and the transactions topics."""
    return f"(?:{pattern(settings)})|(?:{transactions_topics(settings.prefix)})"


def _with_ddl(settings: Settings) -> str:
    """The same with the DDL topics."""
    ddl = ddl_pattern(settings.prefix, exclude=settings.exclude)
    return f"{_with_transactions(settings)}|(?:{ddl})"


def _exactly(topic: str) -> str:
    """The Java regular expression of one topic."""
    return topic.replace(".", r"\.")


def read_schemas(spark: SparkSession, settings: Settings) -> list[str]:
    """The values of the schemas topic, oldest first; none where there is no such topic."""
    topic = schemas_topic(settings.prefix)
    with admin(spark, settings) as kafka:
        if topic not in kafka.topics():
            return []
    records = spark.read.format("kafka").options(**options(settings)).option("subscribe", topic)
    values = records.load().where("value IS NOT NULL")
    ordered = values.orderBy("partition", "offset").selectExpr("CAST(value AS STRING) AS value")
    return [row.value for row in ordered.collect()]


def pattern(settings: Settings) -> str:
    """The Java regular expression that the stream subscribes to."""
    return topic_pattern(settings.prefix, include=settings.include, exclude=settings.exclude)


def no_topics(settings: Settings, names: Collection[str]) -> NoTopics:
    """The error that none of the names in Kafka matches, with the prefixes that are there."""
    prefixes = sorted(
        name.removesuffix(".__schemas") for name in names if name.endswith(".__schemas")
    )
    there = ", ".join(prefixes[:10]) or "none"
    return NoTopics(
        f"prefix {settings.prefix!r}, pattern {pattern(settings)}",
        advice=f"Check prefix, include and exclude; the prefixes in Kafka: {there}",
    )


def options(settings: Settings) -> dict[str, str]:
    """What every read of Kafka has in common."""
    return {
        "kafka.metadata.max.age.ms": str(_METADATA_MAX_AGE_MS),
        "kafka.fetch.max.wait.ms": str(_FETCH_MAX_WAIT_MS),
        "kafka.max.poll.records": str(_MAX_POLL_RECORDS),
        **{f"kafka.{k.removeprefix('kafka.')}": v for k, v in settings.kafka_options.items()},
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }


def matching(spark: SparkSession, wanted: str, names: Collection[str]) -> set[str]:
    """Those of the names that a Java regular expression matches as a whole."""
    compiled = java_class(spark._jvm, "java.util.regex.Pattern").compile(wanted)
    return {name for name in names if compiled.matcher(name).matches()}


class Topics(Protocol):
    """Kafka's row topics, as reloads and batches read them beside the stream."""

    def ranges(self, topics: Collection[str]) -> tuple[Offsets, Offsets]:
        """(earliest, latest committed) offsets of these topics, or of all where none is named."""

    def read(self, start: Offsets, end: Offsets) -> DataFrame:
        """The records from `start` to `end` of each partition that `start` has."""


class KafkaTopics:
    """The row topics, read between offsets: for reloads, and for how far there is to go."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark = spark
        self._settings = settings
        self._lock = threading.Lock()
        self._kept: Admin | None = None

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """A client for questions, kept for the next one unless it fails; raises KafkaUnreachable."""
        with self._lock:
            client = self._kept = self._kept or _opened(self._spark, self._settings)
        try:
            yield client
        except Py4JJavaError as fault:
            with self._lock:
                self._kept = None if self._kept is client else self._kept
            client.close()
            raise unreachable(self._settings, fault) from fault

    def close(self) -> None:
        """Closes the client."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def ranges(
        self, topics: Collection[str]
    ) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """(earliest, latest committed) offsets of these topics, or of all where none is named."""
        with self.admin() as kafka:
            earliest, latest = kafka.ranges(pattern(self._settings))
        if not topics:
            return earliest, latest
        return tuple(
            {at: n for at, n in one.items() if at[0] in topics} for one in (earliest, latest)
        )  # type: ignore[return-value]

    def ends(self) -> dict[tuple[str, int], int]:
        """The committed ends of all row topics."""
        with self.admin() as kafka:
            return kafka.ends(pattern(self._settings))

    def schemas_end(self) -> dict[tuple[str, int], int]:
        """The committed end of the schemas topic; empty without that topic."""
        with self.admin() as kafka:
            return kafka.ends(_exactly(schemas_topic(self._settings.prefix)))

    def markers_end(self) -> dict[tuple[str, int], int]:
        """The committed ends of the transactions topics; empty without any."""
        with self.admin() as kafka:
            return kafka.ends(transactions_topics(self._settings.prefix))

    def reach(self, *, ddl: bool = False) -> dict[tuple[str, int], int] | None:
        """The ends of all row and transactions topics, of undecided records too; with `ddl`, of DDL topics too.

        None if a merge of several masters writes row topics: it publishes a transaction's rows one by one.
        """
        shards = f"{self._settings.prefix}.__shard."
        with self.admin() as kafka:
            if any(name.startswith(shards) for name in kafka.topics()):
                return None
            wanted = _with_ddl if ddl else _with_transactions
            return kafka.written(wanted(self._settings))

    def last_values(self, ends: Offsets) -> list[str]:
        """The value of the last record of each partition before its end, of those that have one."""
        values: list[str] = []
        window, left = _WINDOW, {at: end for at, end in ends.items() if end > 0}
        if not left:
            return values
        with self.admin() as kafka:
            earliest = kafka.ranges(transactions_topics(self._settings.prefix))[0]
        while left:
            # Aborted records and the ends of Kafka transactions have offsets, but no value.
            start = {at: max(earliest.get(at, 0), end - window) for at, end in left.items()}
            records = self.read(start, left).where("value IS NOT NULL")
            last = records.groupBy("topic", "partition").agg(
                f.max_by(f.col("value").cast("string"), "offset").alias("value")
            )
            found = {(row.topic, row.partition): row.value for row in last.collect()}
            values += found.values()
            left = {
                at: end
                for at, end in left.items()
                if at not in found and start[at] > earliest.get(at, 0)
            }
            window *= 10
        return values

    def ddl_ranges(self) -> tuple[Offsets, Offsets]:
        """(earliest, latest committed) offsets of the DDL topics."""
        wanted = ddl_pattern(self._settings.prefix, exclude=self._settings.exclude)
        with self.admin() as kafka:
            return kafka.ranges(wanted)

    def read(
        self, start: Mapping[tuple[str, int], int], end: Mapping[tuple[str, int], int]
    ) -> DataFrame:
        """The records from `start` to `end` of each partition that `start` has.

        If they are many, as for a reload, they are read in a session for many rows.
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
        reader = session.read.format("kafka").options(**options(self._settings))
        return (
            reader.option("assign", json.dumps(partitions))
            .option("startingOffsets", json.dumps(firsts))
            .option("endingOffsets", json.dumps(lasts))
            .load()
        )


class Admin:
    """The few questions about the cluster that Spark's source does not answer."""

    def __init__(self, jvm: Any, client: Any) -> None:
        self._jvm = jvm
        self._client = client
        self._known: dict[tuple[str, int], Any] = {}
        self._asked: dict[str, tuple[frozenset[tuple[str, int]], Any]] = {}

    def cluster_id(self) -> str:
        """Which cluster this is."""
        return str(self._client.describeCluster().clusterId().get())

    def topics(self) -> set[str]:
        """The names of all topics."""
        return set(texts(self._jvm, self._names()))

    def _names(self) -> Any:
        return self._client.listTopics().names().get()

    def ranges(self, pattern: str) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """(earliest, latest committed) offsets of the partitions of topics that match."""
        partitions = self.partitions(pattern)
        return self.offsets(partitions, "earliest"), self.offsets(partitions, "latest")

    def ends(self, pattern: str) -> dict[tuple[str, int], int]:
        """The latest committed offsets of the partitions of topics that match."""
        return self.offsets(self.partitions(pattern), "latest")

    def written(self, pattern: str) -> dict[tuple[str, int], int]:
        """The ends of the partitions of topics that match, with what is not committed yet."""
        return self.offsets(self.partitions(pattern), "latest", isolation="READ_UNCOMMITTED")

    def partitions(self, pattern: str) -> frozenset[tuple[str, int]]:
        """The partitions of topics that match."""
        names = java_matching(self._jvm, pattern, self._names())
        described = self._client.describeTopics(names).allTopicNames().get()
        return frozenset(
            (name, number)
            for name in texts(self._jvm, names)
            # A topic's partitions are numbered without gaps.
            for number in range(described.get(name).partitions().size())
        )

    def java(self, partition: tuple[str, int]) -> Any:
        """A partition as Kafka's client has it."""
        found = self._known.get(partition)
        if found is None:
            made = java_class(self._jvm, "org.apache.kafka.common.TopicPartition")(*partition)
            found = self._known[partition] = made
        return found

    def offsets(
        self,
        partitions: frozenset[tuple[str, int]],
        spec: str,
        *,
        isolation: str = "READ_COMMITTED",
    ) -> dict[tuple[str, int], int]:
        """The ``earliest`` or ``latest`` offset of each of the partitions."""
        level = java_class(self._jvm, "org.apache.kafka.common.IsolationLevel").valueOf(isolation)
        asked = self._client.listOffsets(
            self._wanted(partitions, spec), self._class("ListOffsetsOptions")(level)
        )
        found = parsed_offsets(str(asked.all().get().toString()))
        if found.keys() == partitions:
            return found
        # A Kafka client of another version may write them differently.
        return {at: int(asked.partitionResult(self.java(at)).get().offset()) for at in partitions}

    def _wanted(self, partitions: frozenset[tuple[str, int]], spec: str) -> Any:
        """The request for all partitions, which is kept: of each, Py4J would be called twice."""
        known, wanted = self._asked.get(spec, (None, None))
        if known != partitions:
            one = getattr(self._class("OffsetSpec"), spec)()
            wanted = java_class(self._jvm, "java.util.HashMap")()
            for partition in partitions:
                wanted.put(self.java(partition), one)
            self._asked[spec] = partitions, wanted
        return wanted

    def close(self) -> None:
        """Closes the client."""
        self._client.close(java_class(self._jvm, "java.time.Duration").ofSeconds(1))

    def _class(self, name: str) -> Any:
        return java_class(self._jvm, f"org.apache.kafka.clients.admin.{name}")


def parsed_offsets(text: str) -> dict[tuple[str, int], int]:
    """The offsets in the text of a Java map of Kafka's results, which is one request of Py4J, not one for each.

    A topic's name has no character but letters, digits, dots, underscores and hyphens.
    """
    return {(topic, int(number)): int(at) for topic, number, at in _OFFSET.findall(text)}


@contextmanager
def admin(spark: SparkSession, settings: Settings) -> Iterator[Admin]:
    """A client for questions; raises KafkaUnreachable."""
    client = _opened(spark, settings)
    try:
        yield client
    except Py4JJavaError as fault:
        raise unreachable(settings, fault) from fault
    finally:
        client.close()


def _opened(spark: SparkSession, settings: Settings) -> Admin:
    jvm: Any = spark._jvm
    properties = client_properties(jvm, settings)
    properties.setProperty("default.api.timeout.ms", "10000")
    properties.setProperty("request.timeout.ms", "5000")
    create = java_class(jvm, "org.apache.kafka.clients.admin.AdminClient").create
    try:
        return Admin(jvm, create(properties))
    except Py4JJavaError as fault:
        raise unreachable(settings, fault) from fault


def client_properties(jvm: Any, settings: Settings) -> Any:
    """The properties of a Kafka client of the driver."""
    properties = java_class(jvm, "java.util.Properties")()
    for name, value in options(settings).items():
        if name.startswith("kafka.") and name != "kafka.isolation.level":
            properties.setProperty(name.removeprefix("kafka."), value)
    return properties


def unreachable(settings: Settings, fault: Py4JJavaError) -> KafkaUnreachable:
    """The error for a failure of a Kafka client."""
    return KafkaUnreachable(
        f"{settings.bootstrap_servers}: {fault.java_exception.getMessage()}",
        advice="Check bootstrap_servers, kafka_options and the brokers",
    )
