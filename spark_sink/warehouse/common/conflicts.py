"""Conflicts of commits of any format, with their retries; limits of time; tables and versions that are gone.

Invariant: once a time limit is over, the Spark jobs that were begun for the work are cancelled, including
those of its other threads and those that begin later. Commits of a format are not jobs, and are never
interrupted.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_sink.errors import TableReplaced
from spark_sink.text.quoting import argument
from spark_sink.warehouse.milestones import Commit
from spark_sink.warehouse.protocol import CommitConflict, Name, OutOfTime, VersionGone


def replaced(name: Name, reason: str) -> TableReplaced:
    """The error for a table that is not the one that the sink left."""
    return TableReplaced(f"{'.'.join(name)}: {reason}", advice=again(name))


def again(name: Name) -> str:
    """The advice for a table whose rows cannot be relied on."""
    own = argument(name)
    return (
        f"Run: python -m spark_sink reload {own} --from-beginning; or load it (docs/sink/bulk-load.md), if "
        f"Kafka no longer has all its changes. If you put back what was there, reload {own} is enough"
    )


def refuse_older(name: Name, last: Commit, left: Commit) -> None:
    """Raise TableReplaced if a table is older than the ledger has it."""
    if last.version < left.version:
        reason = (
            f"it is at version {last.version}, and the ledger has {left.version}: an older copy"
        )
        raise replaced(name, reason)


_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Conflicts:
    """The conflicts of one format, recognized by their text."""

    pattern: re.Pattern[str]

    def again(self, act: Callable[[], object]) -> None:
        """Retry `act`, which is idempotent, if another writer (for instance a compaction) committed first."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                act()
            # Spark's errors have classes in Python; a format's conflicts arrive as raw Java errors.
            except (PySparkException, Py4JJavaError) as fault:
                if attempt == _ATTEMPTS or not self._is_one(fault):
                    raise
            else:
                return

    @contextmanager
    def by_name(self) -> Iterator[None]:
        """Raise CommitConflict in place of the format's own error."""
        try:
            yield
        except (PySparkException, Py4JJavaError) as fault:
            if not self._is_one(fault):
                raise
            raise CommitConflict(str(fault)) from fault

    def _is_one(self, failure: PySparkException | Py4JJavaError) -> bool:
        """Whether a commit failed only because another commit was first."""
        return self.pattern.search(str(failure)) is not None


@contextmanager
def gone_by_name(place: str, said: Collection[str]) -> Iterator[None]:
    """Raise VersionGone in place of an error with one of the texts `said`, by which a format reports this."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as fault:
        if any(words in str(fault) for words in said):
            raise VersionGone(place) from fault
        raise


_SECONDS_BETWEEN_LOOKS: Final = 0.1


@contextmanager
def limited(spark: SparkSession, seconds: float | None) -> Iterator[None]:
    """Cancel the block's jobs after `seconds` (None: never), and raise OutOfTime in place of their error."""
    if seconds is None:
        yield
        return
    context, tag = spark.sparkContext, f"aqueduct-{uuid.uuid4().hex}"
    is_done, is_over = threading.Event(), threading.Event()

    def watch() -> None:
        if is_done.wait(seconds):
            return
        is_over.set()
        while not is_done.wait(_SECONDS_BETWEEN_LOOKS):
            with suppress(PySparkException, Py4JError):
                context.cancelJobsWithTag(tag)

    # A tag, as Iceberg gives its jobs a group of their own.
    context.addJobTag(tag)
    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    except (PySparkException, Py4JJavaError) as failure:
        if not is_over.is_set():
            raise
        raise OutOfTime(f"not done within {seconds:g} s") from failure
    finally:
        is_done.set()
        watching.join()
        context.removeJobTag(tag)
