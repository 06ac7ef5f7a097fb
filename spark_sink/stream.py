"""The streaming query: where it starts, what ends it, and which error a failure is.

Law: a start is only made where nothing can be left out: a lost checkpoint is replaced by the
ledger's offsets, and a checkpoint ahead of the ledger is refused.
"""

from __future__ import annotations

import logging
import re
import threading
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_sink.apply import Applier
from spark_sink.checkpoint import Checkpoint, check_origin
from spark_sink.errors import (
    CheckpointDamaged,
    CheckpointShared,
    DataLost,
    KafkaUnreachable,
    PoisonRecord,
    SinkError,
    SparkFailed,
)
from spark_sink.files import Files
from spark_sink.ledger import Ledger, check_not_behind, starting_offsets
from spark_sink.metrics import Metrics
from spark_sink.names import ORIGIN
from spark_sink.schemas import SchemaBook
from spark_sink.settings import Settings
from spark_sink.source import admin, pattern, read_schemas, stream
from spark_sink.warehouse import DeltaWarehouse
from spark_sink.wire import poisoned

_log = logging.getLogger(__name__)
_SECONDS_FOR_LAST_BATCH: Final = 5.0
_POLL_SECONDS: Final = 0.2

_FAILURES: Final[tuple[tuple[str, type[SinkError], str], ...]] = (
    (
        r"KAFKA_DATA_LOSS|data may have been (lost|missed)|failOnDataLoss",
        DataLost,
        "Load the tables of that topic anew (docs/sink.md)",
    ),
    (
        r"Incomplete log file|CHECKPOINT_FILE_CHECKSUM|[Mm]alformed log|Unexpected end-of-input",
        CheckpointDamaged,
        "Remove the checkpoint folder; the sink then starts from the warehouse's ledger",
    ),
    (
        r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY|Multiple streaming queries",
        CheckpointShared,
        "End the other sink",
    ),
    (
        r"org.apache.kafka.common.errors|Failed to create new KafkaAdminClient|KafkaException",
        KafkaUnreachable,
        "Look at the brokers and start again",
    ),
)


class BatchFailed(Exception):
    """The batch failed; the cause is kept aside."""


class Sink:
    """One streaming query from Kafka to the warehouse."""

    def __init__(self, spark: SparkSession, settings: Settings, metrics: Metrics) -> None:
        self._spark = spark
        self._settings = settings
        self._files = Files(spark)
        self._checkpoint = Checkpoint(self._files, settings.checkpoint)
        self._ledger = Ledger(spark, settings.warehouse)
        self._failure: Exception | None = None
        self._applier = Applier(
            book=SchemaBook(lambda: read_schemas(spark, settings)),
            warehouse=DeltaWarehouse(spark, settings.warehouse),
            ledger=self._ledger,
            metrics=metrics,
            claim_checks=settings.claim_checks,
        )

    def run(self, stop: threading.Event) -> None:
        """Runs until `stop` is set, or (available-now) until all is applied; raises SinkError."""
        try:
            query = self._start()
            while query.isActive and not stop.is_set():
                stop.wait(_POLL_SECONDS)
            self._end(query)
            failure = self._failure or query.exception()
        except (PySparkException, Py4JError) as fault:
            failure = self._failure or fault
        if failure is not None and not (stop.is_set() and not isinstance(failure, SinkError)):
            raise named(failure) from failure

    def _start(self) -> StreamingQuery:
        settings = self._settings
        records = stream(self._spark, settings, starting_offsets=self._from())
        writer = records.writeStream.foreachBatch(self._batch).option(
            "checkpointLocation", settings.checkpoint
        )
        if settings.mode == "available-now":
            query = writer.trigger(availableNow=True).start()
        else:
            interval = f"{round(settings.trigger_interval * 1000)} milliseconds"
            query = writer.trigger(processingTime=interval).start()
        _log.info("sink started mode=%s topics=%s", settings.mode, pattern(settings))
        return query

    def _from(self) -> str:
        with admin(self._spark, self._settings) as kafka:
            origin = {"prefix": self._settings.prefix, "cluster": kafka.cluster_id()}
            for folder in (self._settings.warehouse, self._settings.checkpoint):
                check_origin(self._files, f"{folder}/{ORIGIN}", origin)
            applied = self._ledger.applied()
            if self._checkpoint.started():
                committed, initial = self._checkpoint.committed(), self._checkpoint.initial()
                check_not_behind(applied, committed, initial)
                return "earliest"
            if not applied:
                return "earliest"
            _log.warning("checkpoint lost: starting from the ledger's offsets")
            return starting_offsets(applied, *kafka.ranges(pattern(self._settings)))

    def _batch(self, records: DataFrame, batch_id: int) -> None:
        try:
            context = records.sparkSession.sparkContext
            self._applier.apply(
                records.coalesce(max(1, context.defaultParallelism)),
                batch_id,
                query_id=str(context.getLocalProperty("sql.streaming.queryId")),
                moved=lambda: self._checkpoint.offsets(batch_id),
            )
        except Exception as fault:
            # Kept here: through the JVM and back it would come as text, and of a long text Spark's
            # own pattern matching overflows its stack.
            self._failure = fault
            raise BatchFailed from None

    def _end(self, query: StreamingQuery) -> None:
        """Lets the batch in hand finish if it soon does, else leaves it for the next start."""
        waited = 0.0
        while query.isActive and waited < _SECONDS_FOR_LAST_BATCH:
            status: dict[str, Any] = query.status
            if not status["isTriggerActive"]:
                break
            waited += _POLL_SECONDS
            threading.Event().wait(_POLL_SECONDS)
        query.stop()


def named(failure: Exception) -> SinkError:
    """The named error that a failure is."""
    if isinstance(failure, SinkError):
        return failure
    text = str(failure)
    if record := poisoned(text):
        return PoisonRecord(record)
    for symptom, error, advice in _FAILURES:
        if re.search(symptom, text):
            return error(_first_line(text), advice=advice)
    return SparkFailed(_first_line(text), advice="log.file in the settings gives the details")


def _first_line(text: str) -> str:
    """What happened, from an exception's text of many lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if "Caused by" in line or line.startswith("[")]
    return (causes[-1] if causes else lines[0] if lines else "no message")[:500]
