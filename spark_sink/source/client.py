"""What the sink's clients of Kafka have in common: their options, and the error that they fail with."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError

from spark_sink.errors import KafkaUnreachable
from spark_sink.settings.model import Settings
from spark_sink.spark.java import java_class

_METADATA_MAX_AGE_MS = 1000
_FETCH_MAX_WAIT_MS = 5
"""Spark reads only what is there, and then asks for the partition's offsets on the connection on which the
client has just asked for more: with Kafka's 500 ms, each partition of each batch took half a second."""
_MAX_POLL_RECORDS = 5_000
"""With Kafka's 500, Spark asks the broker for the partition's offsets ten times as often."""
_LEAST_FETCH, _MOST_FETCH = 64 * 1024, 1024 * 1024
"""Bytes of a partition read at once; the greater one is Kafka's. A larger record is read all the same."""


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


def range_options(settings: Settings, partitions: int = 0) -> dict[str, str]:
    """The same for a read of a range of offsets, of so many partitions, for which `read_ahead` is set.

    Spark keeps consumers by group and partition, each with up to a megabyte that it has read ahead; and gives
    each such read a group of its own, so that the consumers of hundreds of reads stayed for minutes. The group
    is in no request. Reads of one group must have the same options, so it has what they read ahead in its name.
    """
    ahead = read_ahead(settings, partitions) if partitions else {}
    group = ".".join(("aqueduct-sink", settings.prefix, *ahead.values()))
    return {"kafka.group.id": group, **ahead, **options(settings)}


def read_ahead(settings: Settings, partitions: int) -> dict[str, str]:
    """The option by which what the clients of all partitions read ahead takes an eighth of the memory.

    Spark keeps up to 2,000 clients, each with what it has read beyond the end of a batch. It is a power of two,
    so that there are few.
    """
    share = 1 << (settings.mebibytes * 1024 * 1024 // 8 // max(partitions, 1)).bit_length() >> 1
    return {"kafka.max.partition.fetch.bytes": str(max(_LEAST_FETCH, min(share, _MOST_FETCH)))}


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
