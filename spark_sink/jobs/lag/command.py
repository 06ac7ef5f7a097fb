"""The command `lag`: what Kafka has and the warehouse has not, asked of both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from spark_sink.jobs.lag.report import lag_lines
from spark_sink.settings.model import Settings
from spark_sink.source.installation import installation_in
from spark_sink.source.kafka import KafkaTopics, read_schemas
from spark_sink.text.names import TOPICS, of_sink
from spark_sink.warehouse.protocol import Warehouse
from spark_sink.warehouse.topic_ids import TopicIds
from spark_sink.warehouse.waiting_tables import Waits


def lag(spark: SparkSession, settings: Settings, warehouse: Warehouse[Any]) -> Iterator[str]:
    """The lines of the command. Raises KafkaUnreachable."""
    topics = KafkaTopics(spark, settings)
    earliest, ends = topics.ranges(())
    noted = TopicIds(
        notes=warehouse.notes,
        waits=Waits(warehouse.waits, time.time),
        note=of_sink(TOPICS, settings.name),
    )
    yield from lag_lines(
        warehouse,
        earliest,
        ends,
        installation=installation_in(
            topics, settings.prefix, partial(read_schemas, spark, settings)
        ),
        again=noted.replaced(topics.ids({topic for topic, _ in ends})),
    )
    topics.close()
