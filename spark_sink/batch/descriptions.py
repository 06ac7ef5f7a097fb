"""The descriptions of a thread's jobs in Spark's user interface and log.

Invariant: only the description changes. The job group stays the streaming query's, by which a stop cancels its
jobs.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from wire.text import printed


def describe(session: SparkSession, text: str) -> None:
    """Describe the jobs that this thread starts from now on."""
    session.sparkContext.setJobDescription(printed(text))
