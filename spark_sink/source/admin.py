"""A client for the sink's requests to Kafka other than for records: topics, partitions, offsets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark_sink.errors import KafkaUnreachable
from spark_sink.settings.model import Settings
from spark_sink.spark.java import java_class, matching, texts

_METADATA_MAX_AGE_MS = 1000
_FETCH_MAX_WAIT_MS = 5
"""After reading what is available, Spark asks for the partition's offsets on a connection on which the client
has just sent the next fetch. With Kafka's 500 ms for that fetch, each partition of each batch took half a
second."""
_MAX_POLL_RECORDS = 5_000
"""With Kafka's 500, Spark asks the broker for the partition's offsets ten times as often."""
_LEAST_FETCH, _MOST_FETCH = 64 * 1024, 1024 * 1024
"""Bounds of the bytes of a partition read at once; the upper bound is Kafka's default. Larger records are read
all the same."""


def options(settings: Settings) -> dict[str, str]:
    """Return the options that all reads of Kafka have in common."""
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


def range_options(settings: Settings, partitions: int = 0) -> dict[str, str]:
    """Return the options for a read of a range of offsets; with `partitions`, including `read_ahead`.

    Spark keeps consumers by group and partition, each with up to a megabyte read ahead. By default it gives
    each such read a group of its own, so that the consumers of hundreds of reads stayed for minutes; so reads
    share a group, which is in no request. Reads of one group must have the same options, so the group's name
    includes the number of bytes read ahead.
    """
    ahead = read_ahead(settings, partitions) if partitions else {}
    group = ".".join(("aqueduct-sink", settings.prefix, *ahead.values()))
    return {"kafka.group.id": group, **ahead, **options(settings)}


def read_ahead(settings: Settings, partitions: int) -> dict[str, str]:
    """Return the option by which the clients of all partitions read ahead an eighth of the memory.

    Spark keeps up to 2,000 clients, each with what it has read beyond the end of a batch. The number of bytes
    is a power of two, so that few different numbers occur.
    """
    share = 1 << (settings.mebibytes * 1024 * 1024 // 8 // max(partitions, 1)).bit_length() >> 1
    return {"kafka.max.partition.fetch.bytes": str(max(_LEAST_FETCH, min(share, _MOST_FETCH)))}


def client_properties(jvm: Any, settings: Settings) -> Any:
    """Return the properties of a Kafka client of the driver."""
    properties = java_class(jvm, "java.util.Properties")()
    for name, value in options(settings).items():
        if name.startswith("kafka.") and name != "kafka.isolation.level":
            properties.setProperty(name.removeprefix("kafka."), value)
    return properties


def unreachable(settings: Settings, fault: Py4JJavaError) -> KafkaUnreachable:
    """Return the error for a failure of a Kafka client."""
    return KafkaUnreachable(
        f"{settings.bootstrap_servers}: {fault.java_exception.getMessage()}",
        advice="Check bootstrap_servers, kafka_options and the brokers",
    )


_ID = re.compile(r"\(name=([\w.-]+), topicId=([\w-]+), ")
_NO_ID = "A" * 22
_OFFSET = re.compile(r"([\w.-]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+)")


class Admin:
    """The few questions about the cluster that Spark's source does not answer."""

    def __init__(self, jvm: Any, client: Any) -> None:
        self._jvm = jvm
        self._client = client
        self._known: dict[tuple[str, int], Any] = {}
        self._asked: dict[str, tuple[frozenset[tuple[str, int]], Any]] = {}

    def cluster_id(self) -> str:
        """Return the cluster's id."""
        return str(self._client.describeCluster().clusterId().get())

    def topics(self) -> set[str]:
        """The names of all topics."""
        return set(texts(self._jvm, self._names()))

    def ids(self) -> dict[str, str]:
        """Return Kafka's id of each topic; a topic that is recreated gets another id.

        Brokers before Kafka 2.8 have none.
        """
        return parsed_ids(str(self._client.listTopics().listings().get().toString()))

    def _names(self) -> Any:
        return self._client.listTopics().names().get()

    def ranges(self, pattern: str) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """Return (earliest, latest committed) offsets of the partitions of topics that match."""
        partitions = self.partitions(pattern)
        return self.offsets(partitions, "earliest"), self.offsets(partitions, "latest")

    def ends(self, pattern: str) -> dict[tuple[str, int], int]:
        """Return the latest committed offsets of the partitions of topics that match."""
        return self.offsets(self.partitions(pattern), "latest")

    def written(self, pattern: str) -> dict[tuple[str, int], int]:
        """Return the ends of the partitions of topics that match, uncommitted records included."""
        return self.offsets(self.partitions(pattern), "latest", isolation="READ_UNCOMMITTED")

    def partitions(self, pattern: str) -> frozenset[tuple[str, int]]:
        """The partitions of topics that match."""
        names = matching(self._jvm, pattern, self._names())
        described = self._client.describeTopics(names).allTopicNames().get()
        return frozenset(
            (name, number)
            for name in texts(self._jvm, names)
            # A topic's partitions are numbered without gaps.
            for number in range(described.get(name).partitions().size())
        )

    def java(self, partition: tuple[str, int]) -> Any:
        """Return a partition as an object of Kafka's client."""
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
        # A Kafka client of another version may print the offsets differently.
        return {at: int(asked.partitionResult(self.java(at)).get().offset()) for at in partitions}

    def _wanted(self, partitions: frozenset[tuple[str, int]], spec: str) -> Any:
        """The request for all partitions, which is kept: to make it, Py4J is called twice per partition."""
        known, wanted = self._asked.get(spec, (None, None))
        if known != partitions:
            one = getattr(self._class("OffsetSpec"), spec)()
            wanted = java_class(self._jvm, "java.util.HashMap")()
            for partition in partitions:
                wanted.put(self.java(partition), one)
            self._asked[spec] = partitions, wanted
        return wanted

    def close(self) -> None:
        """Close the client."""
        self._client.close(java_class(self._jvm, "java.time.Duration").ofSeconds(1))

    def _class(self, name: str) -> Any:
        return java_class(self._jvm, f"org.apache.kafka.clients.admin.{name}")


def parsed_offsets(text: str) -> dict[tuple[str, int], int]:
    """Return the offsets in the text of a Java map of results: Py4J is called once, not for each offset.

    A topic's name has only letters, digits, dots, underscores and hyphens.
    """
    return {(topic, int(number)): int(at) for topic, number, at in _OFFSET.findall(text)}


def parsed_ids(text: str) -> dict[str, str]:
    """Return the ids in the text of a Java collection of topics: Py4J is called once, not for each topic."""
    return {topic: one for topic, one in _ID.findall(text) if one != _NO_ID}


@contextmanager
def admin(spark: SparkSession, settings: Settings) -> Iterator[Admin]:
    """Yield a client; raise KafkaUnreachable."""
    client = opened(spark, settings)
    try:
        yield client
    except Py4JJavaError as fault:
        raise unreachable(settings, fault) from fault
    finally:
        client.close()


def opened(spark: SparkSession, settings: Settings) -> Admin:
    """Return a client, which the caller closes; raise KafkaUnreachable."""
    jvm: Any = spark._jvm
    properties = client_properties(jvm, settings)
    properties.setProperty("default.api.timeout.ms", "10000")
    properties.setProperty("request.timeout.ms", "5000")
    create = java_class(jvm, "org.apache.kafka.clients.admin.AdminClient").create
    try:
        return Admin(jvm, create(properties))
    except Py4JJavaError as fault:
        raise unreachable(settings, fault) from fault
