"""The mapping of failures of Spark, Delta and Kafka to named errors, and to the record that stopped a job."""

from __future__ import annotations

import re
import signal
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark_sink.errors import (
    CheckpointDamaged,
    CheckpointShared,
    DataLost,
    KafkaUnreachable,
    MalformedRecord,
    MemoryExhausted,
    SinkError,
    SparkFailed,
    WarehouseUnusable,
)
from spark_sink.spark.session import EXIT_WITHOUT_MEMORY, exit_code

_MORE_MEMORY: Final = (
    "Raise driver_memory in the settings; under spark-submit, the memory of driver and executors"
)
_AGAIN: Final = (
    "Start the sink again: it continues where it was. If it fails in the same way, set log.file: "
    "it has the details, and <log.file>.spark has Spark's own reason"
)
_SECONDS_TO_END: Final = 5
"""Seconds that a JVM which no longer answers may need to end."""
_FAILURES: Final[tuple[tuple[str, type[SinkError], str], ...]] = (
    (r"OutOfMemoryError", MemoryExhausted, _MORE_MEMORY),
    (
        r"KAFKA_DATA_LOSS|data may have been (lost|missed)|failOnDataLoss",
        DataLost,
        "Reload the tables of that topic (docs/sink/lost-data.md)",
    ),
    (
        r"Incomplete log file|CHECKPOINT_FILE_CHECKSUM|[Mm]alformed log|Unexpected end-of-input",
        CheckpointDamaged,
        "Remove the checkpoint folder; the sink then starts from the warehouse's ledger",
    ),
    (
        r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY|Multiple streaming queries",
        CheckpointShared,
        "Stop the other sink",
    ),
    (
        r"org.apache.kafka.common.errors|Failed to create new KafkaAdminClient|KafkaException",
        KafkaUnreachable,
        "Check the brokers and restart",
    ),
    (
        r"(exceptions\.(REST|NotAuthorized|Forbidden|ServiceUnavailable)|UncheckedSQL|RuntimeMeta)Exception",
        WarehouseUnusable,
        "Check the catalog that the settings name, then start the sink again",
    ),
)

_MARK: Final = "aqueduct-poison"


def poison_sql(reason: str) -> str:
    """A Spark expression that stops the job and names the record it is evaluated on."""
    return f"raise_error(concat_ws('|', '{_MARK}', topic, partition, offset, {reason}, '{_MARK}'))"


def refused_record(message: str) -> str | None:
    """The record that stopped a job, from the job's error message; None if no record did."""
    parts = message.split(_MARK + "|", 1)
    if len(parts) == 1:
        return None
    topic, partition, offset, reason = parts[1].split("|" + _MARK, 1)[0].split("|", 3)
    return place(topic, partition, offset, reason)


def place(topic: str, partition: int | str, offset: int | str, reason: str = "") -> str:
    """The position of a record, as errors print it."""
    where = f"topic {topic}, partition {partition}, offset {offset}"
    return f"{where}: {reason}" if reason else where


def named(failure: Exception) -> SinkError:
    """Return the named error for a failure."""
    if isinstance(failure, SinkError):
        return failure
    text = str(failure)
    # Otherwise it may be for lack of an answer, whatever py4j or PySpark made of that.
    is_answer = isinstance(failure, (Py4JJavaError, PySparkException))
    if not is_answer and (code := exit_code(seconds=_SECONDS_TO_END)) is not None:
        return _ended(code)
    if record := refused_record(text):
        return MalformedRecord(record)
    for symptom, error, advice in _FAILURES:
        if re.search(symptom, text):
            return error(_first_line(text), advice=advice)
    return SparkFailed(_first_line(text), advice=_AGAIN)


def _ended(code: int) -> SinkError:
    """The error of a JVM that has ended with this exit code; negative if by a signal."""
    if code == EXIT_WITHOUT_MEMORY:
        return MemoryExhausted("the JVM has ended by an OutOfMemoryError", advice=_MORE_MEMORY)
    if code == -signal.SIGKILL:
        return SparkFailed(
            "the JVM was ended by SIGKILL",
            advice="If the kernel's log says that the machine, or the container, lacked memory: lower "
            "driver_memory, or provide more. Then restart",
        )
    how = f"has ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
    return SparkFailed(f"the JVM {how}", advice=_AGAIN)


def cause(text: str) -> str:
    """Java's message in an error of py4j."""
    found = re.search(r"An error occurred while calling .*\n: (.+)", text)
    return (found[1] if found else _first_line(text))[:300]


def _first_line(text: str) -> str:
    """What happened, from an exception's text of many lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # py4j puts Java's own message after a colon, on a line of its own.
    causes = [line for line in lines if "Caused by" in line or line.startswith(("[", ": "))]
    return (causes[-1] if causes else lines[0] if lines else "no message").removeprefix(": ")[:500]
