"""What the sink's Kafka clients have in common: their options, and the error when they fail."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError

from spark_sink.errors import KafkaUnreachable
from spark_sink.settings.model import Settings
from spark_sink.spark.java import java_class

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
