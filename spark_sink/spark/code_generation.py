"""How Spark executes a job: few rows are interpreted, many are worth a generated program.

Invariant: results are the same; only settings that a session may change at any time are set, and none that the
operator has set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

MANY: Final = 10_000
"""Rows from which on a generated program is faster, with the time that it takes to compile it."""

LARGE: Final = 4 * 1024 * 1024
"""Bytes of a table, some 200,000 rows, from which on a batch for it is worth a generated program, though small.

Interpreted on one core, the search of 10 million rows took 16 s instead of 3.
"""

# To generate and compile programs costs a small batch more than all its rows.
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
        """Set what is best for so many rows."""
        wanted = FEW_ROWS
        if rows >= MANY:
            wanted = _many_rows(session)
        for name, value in wanted.items():
            if name not in self.given:
                session.conf.set(name, value)


def for_many_rows(spark: SparkSession) -> SparkSession:
    """A copy of a session, in which what it has for few rows is set for many."""
    # Any other value is the operator's, or a cluster's.
    wanted = {
        name: value
        for name, value in _many_rows(spark).items()
        if spark.conf.get(name, None) == FEW_ROWS[name]
    }
    return copied(spark, wanted)


def copied(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A copy of a session with other settings."""
    # Not newSession(), which lacks what was set while the session ran, such as Iceberg's catalog.
    copy: Any = spark._jsparkSession.cloneSession()
    session = SparkSession(spark.sparkContext, copy)
    for name, value in settings.items():
        session.conf.set(name, value)
    return session


def _many_rows(session: SparkSession) -> dict[str, str]:
    cores = max(1, session.sparkContext.defaultParallelism)
    return {**_MANY_ROWS, "spark.sql.shuffle.partitions": str(cores)}
