"""A limit to the time that Spark may work on something.

Invariant: once the time is over, the Spark jobs that were begun for the work are cancelled, including those of
its other threads and those that begin later. Commits of a format are not jobs, and are never interrupted.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_sink.warehouse.protocol import OutOfTime

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
