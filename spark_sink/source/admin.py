"""A client for the sink's requests to Kafka other than for records: topics, partitions, offsets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark_sink.settings.model import Settings
from spark_sink.source.client import client_properties, unreachable
from spark_sink.spark.java import java_class, matching, texts

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
