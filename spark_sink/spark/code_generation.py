"""How Spark executes a job: it interprets few rows, and generates a program for many.

Invariant: the results are the same. Only settings that a session may change at any time are set, and no setting
that the operator has given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

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
