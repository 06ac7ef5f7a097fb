"""The newest records of many partitions, read by one consumer in the driver.

Spark's own source runs a task for each partition of each batch, which takes seconds if hundreds of partitions
have few records each. This consumer is for few records only: they stay in the driver's memory.

Invariant: only committed records are read; of each partition, all from its first offset on, in order. If Kafka
has removed some of them, reading ends with DataLost.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from spark_sink.errors import DataLost, KafkaUnreachable
from spark_sink.settings.model import Settings
from spark_sink.source.admin import client_properties, unreachable
from spark_sink.source.kafka import KafkaTopics, recent_pattern
from spark_sink.source.positions import Offsets
from spark_sink.spark.java import java_class

_FETCH_BYTES: Final = 4 * 1024 * 1024
_POLLS: Final = 8
"""The most polls with records for one read; so a read holds at most this many fetches from each broker."""
_SECONDS_PER_POLL: Final = 0.1
_SECONDS_WITHOUT_PROGRESS: Final = 30.0
_CONSUMER: Final = {
    "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
    "value.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    "auto.offset.reset": "none",
    "fetch.max.bytes": str(_FETCH_BYTES),
}
_PARTITION: Final = re.compile(r"([\w.-]+)-(\d+)(?=[,\]])")
_RELATION: Final = "org.apache.spark.sql.catalyst.plans.logical.LocalRelation"
_CONVERTER: Final = "org.apache.spark.sql.kafka010.KafkaRecordToRowConverter"


class Tail:
    """Reads from the offsets reached so far. All methods are for one thread, as the consumer is."""

    def __init__(
        self, spark: SparkSession, settings: Settings, topics: KafkaTopics, *, start: Offsets
    ) -> None:
        """`start` has the first offset of each partition; a partition not in it is read from its beginning."""
        self._spark = spark
        self._settings = settings
        self._topics = topics
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._java: dict[tuple[str, int], Any] = {}
        self._converter = java_class(jvm, _CONVERTER)()
        self._none = getattr(java_class(jvm, "scala.None$"), "MODULE$")
        self._consumer = _consumer(jvm, settings)
        self.until: dict[tuple[str, int], int] = {}
        """The offset up to which (exclusive) each partition is read."""
        self._assign({at: offset for at, offset in start.items() if offset >= 0})

    def ends(self) -> Offsets:
        """Return the committed ends of all partitions, of new topics too. Raise KafkaUnreachable, DataLost."""
        with self._topics.admin() as kafka:
            partitions = kafka.partitions(recent_pattern(self._settings))
            if gone := sorted(self.until.keys() - partitions):
                topic, number = gone[0]
                raise DataLost(
                    f"topic {topic}, partition {number} is no longer in Kafka",
                    advice="Once the sink starts again, the tables of the topic wait",
                )
            new = partitions - self.until.keys()
            if new:
                self._assign(kafka.offsets(frozenset(new), "earliest"))
            return kafka.offsets(partitions, "latest")

    def skip(self, until: Offsets) -> None:
        """Continue at these offsets, without reading what is before them."""
        for at, offset in until.items():
            if offset > self.until[at]:
                self._seek(at, offset)

    def read(self, until: Offsets) -> DataFrame:
        """Return the records up to these offsets or a little further, in the columns of Spark's Kafka source.

        If there are very many, return only the first; `self.until` has the offsets reached. Raise
        KafkaUnreachable, DataLost.
        """
        rows = getattr(
            java_class(self._jvm, "scala.collection.immutable.Vector$"), "MODULE$"
        ).empty()
        left = self._reach({at for at, end in until.items() if end > self.until[at]}, until)
        polls, progress = 0, time.monotonic()
        while left and polls < _POLLS:
            read = sum(self.until.values())
            records = self._poll()
            if records.count():
                polls += 1
                rows = rows.appendedAll(self._converted(records))
                self._reach(parsed_partitions(str(records.partitions().toString())), until)
            left = self._reach(left, until)
            if sum(self.until.values()) > read:
                progress = time.monotonic()
            elif time.monotonic() - progress > _SECONDS_WITHOUT_PROGRESS:
                raise self._stuck(min(left), until)
        return self._frame(rows)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close(java_class(self._jvm, "java.time.Duration").ofSeconds(1))

    def _assign(self, start: Offsets) -> None:
        """Add partitions, which are read from these offsets on."""
        self.until |= start
        wanted = java_class(self._jvm, "java.util.ArrayList")()
        for at in self.until:
            wanted.add(self._at(at))
        # The consumer keeps the positions of partitions that were assigned before.
        self._consumer.assign(wanted)
        for at, offset in start.items():
            self._seek(at, offset)

    def _seek(self, at: tuple[str, int], offset: int) -> None:
        self._consumer.seek(self._at(at), offset)
        self.until[at] = offset

    def _at(self, partition: tuple[str, int]) -> Any:
        found = self._java.get(partition)
        if found is None:
            made = java_class(self._jvm, "org.apache.kafka.common.TopicPartition")(*partition)
            found = self._java[partition] = made
        return found

    def _poll(self) -> Any:
        wait = java_class(self._jvm, "java.time.Duration").ofMillis(round(_SECONDS_PER_POLL * 1000))
        try:
            return self._consumer.poll(wait)
        except Py4JJavaError as fault:
            if "OffsetOutOfRange" in str(fault.java_exception.getClass().getName()):
                raise DataLost(
                    str(fault.java_exception.getMessage()),
                    advice="Reload the tables of that topic (docs/sink/lost-data.md)",
                ) from fault
            raise unreachable(self._settings, fault) from fault

    def _reach(self, partitions: Iterable[tuple[str, int]], until: Offsets) -> set[tuple[str, int]]:
        """Record the offsets to which these partitions are read; return those that are not read to `until`."""
        left = set()
        for at in partitions:
            # A position passes aborted records and the ends of transactions, which are never returned.
            self.until[at] = int(self._consumer.position(self._at(at)))
            if self.until[at] < until.get(at, 0):
                left.add(at)
        return left

    def _converted(self, records: Any) -> Any:
        """The records as rows of Spark's Kafka source, made by its own converter."""
        iterator = java_class(self._jvm, "scala.jdk.javaapi.CollectionConverters").asScala(
            records.iterator()
        )
        return iterator.map(self._converter.toInternalRowWithHeaders())

    def _frame(self, rows: Any) -> DataFrame:
        session: Any = self._spark
        schema = java_class(self._jvm, _CONVERTER).kafkaSchema(True)
        types = java_class(self._jvm, "org.apache.spark.sql.catalyst.types.DataTypeUtils")
        relation = java_class(self._jvm, _RELATION)(
            types.toAttributes(schema), rows, False, self._none
        )
        made = java_class(self._jvm, "org.apache.spark.sql.classic.Dataset").ofRows(
            session._jsparkSession, relation
        )
        return DataFrame(made, session)

    def _stuck(self, at: tuple[str, int], until: Offsets) -> KafkaUnreachable:
        topic, number = at
        return KafkaUnreachable(
            f"{self._settings.bootstrap_servers}: topic {topic}, partition {number} is read to "
            f"{self.until[at]}, and no further towards {until[at]}",
            advice="Check the brokers that have the partition",
        )


def parsed_partitions(text: str) -> set[tuple[str, int]]:
    """Return the partitions in the text of a Java set of partitions."""
    return {(topic, int(number)) for topic, number in _PARTITION.findall(text)}


def _consumer(jvm: Any, settings: Settings) -> Any:
    properties = client_properties(jvm, settings)
    for name, value in _CONSUMER.items():
        properties.setProperty(name, value)
    made: Any = java_class(jvm, "org.apache.kafka.clients.consumer.KafkaConsumer")
    try:
        return made(properties)
    except Py4JJavaError as fault:
        raise unreachable(settings, fault) from fault
