"""How Spark executes a batch: few rows are interpreted, many are worth a generated program.

Invariant: results are the same; only settings that a session may change at any time are set, and none that the
operator has set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

MANY: Final = 10_000
"""Rows from which on a generated program is faster, with the time that it takes to compile it."""

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
            cores = str(max(1, session.sparkContext.defaultParallelism))
            wanted = {**_MANY_ROWS, "spark.sql.shuffle.partitions": cores}
        for name, value in wanted.items():
            if name not in self.given:
                session.conf.set(name, value)
