"""How Spark runs the sink's jobs: several at a time, described, and few rows interpreted.

Executors hold a batch as a local checkpoint, without the plan that computed it. So Spark cannot compute again
the part that a lost executor held, and the whole batch is applied again.

Invariant: the results are the same. Only settings that a session may change at any time are set, and no setting
that the operator has given. The job group stays the streaming query's, by which a stop cancels its jobs.
A batch is applied again only after a loss of executors, and only a few times. No two temporary views made
here have the same name in a process; other code makes one only if a reader has asked for it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from wire.text import printed

_log = logging.getLogger(__name__)
MANY: Final = 10_000
"""The number of rows from which a generated program is faster, the time to compile it included."""

LARGE: Final = 4 * 1024 * 1024
"""Bytes of a table, some 200,000 rows, from which even a small batch for it is worth a generated program.

On one core, searching 10 million rows took 16 s interpreted, and 3 s with a generated program.
"""

# For a small batch, generating and compiling programs takes longer than the work on its rows.
FEW_ROWS: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
_MANY_ROWS: Final = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


@dataclass(slots=True, kw_only=True)
class Pace:
    """The settings of the sessions that batches are planned in."""

    given: Mapping[str, str]
    """What the operator has set."""

    def keep(self, session: SparkSession, rows: int) -> None:
        """Set what is best for this number of rows."""
        wanted = FEW_ROWS
        if rows >= MANY:
            wanted = _many_rows(session)
        for name, value in wanted.items():
            if name not in self.given:
                session.conf.set(name, value)


def for_many_rows(spark: SparkSession) -> SparkSession:
    """Return a copy of a session, with its settings for few rows replaced by those for many."""
    # Any other value is the operator's, or a cluster's.
    wanted = {
        name: value
        for name, value in _many_rows(spark).items()
        if spark.conf.get(name, None) == FEW_ROWS[name]
    }
    return copied(spark, wanted)


def copied(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A copy of a session with other settings."""
    # Not newSession(): it lacks the settings made while the session ran, such as Iceberg's catalog.
    copy: Any = spark._jsparkSession.cloneSession()
    session = SparkSession(spark.sparkContext, copy)
    for name, value in settings.items():
        session.conf.set(name, value)
    return session


def _many_rows(session: SparkSession) -> dict[str, str]:
    cores = max(1, session.sparkContext.defaultParallelism)
    return {**_MANY_ROWS, "spark.sql.shuffle.partitions": str(cores)}


def describe(session: SparkSession, text: str) -> None:
    """Describe the jobs that this thread starts from now on."""
    session.sparkContext.setJobDescription(printed(text))


Part = TypeVar("Part")


def in_parallel(
    act: Callable[[Part], None], parts: Sequence[Part], *, session: SparkSession, threads: int
) -> None:
    """Run `act` on all parts; raise the first part's error after all have ended."""
    if len(parts) == 1:
        act(parts[0])
        return
    with ThreadPoolExecutor(min(threads, len(parts))) as pool:
        # Each thread gets the batch's Spark properties, so a stop cancels its jobs too. Each gets a copy of its
        # own, since Spark writes into them.
        done = [pool.submit(inheritable_thread_target(session)(act), part) for part in parts]
    for outcome in done:
        outcome.result()


_LOST: Final = re.compile(
    r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block rdd_\S+ not found"
    r"|ExecutorLostFailure|MetadataFetchFailedException|FetchFailed\b"
)
_ATTEMPTS: Final = 10
"""The most times that a batch is applied, if executors are lost each time."""


def again_if_lost(act: Callable[[], None], *, stopped: Callable[[], bool]) -> None:
    """Call `act`, and call it again if executors were lost meanwhile; raise its other errors.

    After a stop, or after 10 attempts, raise the error for lost executors too.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            act()
        except (PySparkException, Py4JJavaError) as fault:
            if attempt == _ATTEMPTS or stopped() or not is_loss(fault):
                raise
            _log.warning("executors lost: the batch is applied again attempt=%d", attempt + 1)
            _log.debug("details", exc_info=fault)
        else:
            return


def is_loss(failure: Exception) -> bool:
    """Whether a job failed only because executors were lost."""
    return _LOST.search(str(failure)) is not None


_NUMBERS: Final = count()


@contextmanager
def temporary_view(rows: DataFrame) -> Iterator[str]:
    """Make a view of rows, in their session only; yield its name, and drop the view afterwards."""
    view, session = f"aqueduct_rows_{next(_NUMBERS)}", rows.sparkSession
    rows.createOrReplaceTempView(view)
    try:
        yield view
    finally:
        session.catalog.dropTempView(view)


_TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"


@contextmanager
def plain_timestamps(session: SparkSession) -> Iterator[None]:
    """Write timestamps in Parquet's own type: many readers do not know the type that is Spark's default."""
    before = session.conf.get(_TIMESTAMPS)
    session.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        session.conf.set(_TIMESTAMPS, before or "INT96")
