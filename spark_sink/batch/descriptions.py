"""What Spark's user interface and its log call the jobs of a thread.

Invariant: only the description changes. The job group stays that of the streaming query, by which a stop
cancels its jobs.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from wire.text import printed


def describe(session: SparkSession, text: str) -> None:
    """Describe the jobs that this thread starts from now on."""
    session.sparkContext.setJobDescription(printed(text))
