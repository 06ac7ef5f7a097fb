"""The DDL topics as the sink reads them: by the driver, and only if there is something new.

Invariant: what is read includes each statement that precedes a row visible when reading began. A Kafka
transaction becomes visible partition by partition, but by then all its records are written; so the sink waits
until all written records are committed or aborted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from pyspark.sql import SparkSession

from spark_sink.settings.model import Settings
from spark_sink.source.admin import admin
from spark_sink.source.kafka import KafkaTopics, pattern
from spark_sink.source.positions import Offsets
from wire.topics import ddl_pattern

_log = logging.getLogger(__name__)
_PAUSE: Final = 0.1
_SECONDS: Final = 20.0
"""Seconds after which a transaction that is still open is logged: its worker may have been killed."""

Record = tuple[str, int, int, str]
"""Topic, partition, offset and value."""


class DdlTopics(Protocol):
    """The topics of DDL."""

    def settled(self) -> tuple[Offsets, Offsets]:
        """Return the (earliest, end) offsets once all records written before the call are decided."""

    def read(self, start: Offsets, end: Offsets) -> list[Record]:
        """Return the records between these offsets, in their order within each partition."""

    def written(self) -> dict[tuple[str, int], int]:
        """Return the ends of the row topics, uncommitted records included."""


class KafkaDdl:
    """See DdlTopics."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._pattern = ddl_pattern(settings.prefix, exclude=settings.exclude)
        self._rows = KafkaTopics(spark, settings)
        self._clock = clock
        self._sleep = sleep

    def settled(self) -> tuple[Offsets, Offsets]:
        with admin(self._spark, self._settings) as kafka:
            written = kafka.written(self._pattern)
            if not written:
                return {}, {}
            deadline, is_logged = self._clock() + _SECONDS, False
            while True:
                earliest, committed = kafka.ranges(self._pattern)
                hidden = sorted(at for at, end in written.items() if committed.get(at, end) < end)
                if not hidden:
                    return earliest, committed
                if self._clock() >= deadline and not is_logged:
                    is_logged = True
                    _log.warning(
                        "a transaction with DDL is neither committed nor aborted, so merging waits topic=%s",
                        hidden[0][0],
                    )
                self._sleep(_PAUSE)

    def read(self, start: Offsets, end: Offsets) -> list[Record]:
        if not any(until > start.get(at, 0) for at, until in end.items()):
            return []
        rows = self._rows.read({at: start.get(at, 0) for at in end}, end).where("value IS NOT NULL")
        found = rows.selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
        records = [(row.topic, row.partition, row.offset, row.value) for row in found.collect()]
        return sorted(records, key=lambda record: record[:3])

    def written(self) -> dict[tuple[str, int], int]:
        with admin(self._spark, self._settings) as kafka:
            return kafka.written(pattern(self._settings))
