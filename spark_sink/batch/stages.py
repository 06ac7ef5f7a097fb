"""The time that a batch spends in each of its stages.

Spark computes lazily, so a stage is a job or a statement for which the sink waits, and includes all that it
computes: `read` fetches from Kafka and parses the envelopes, in one job. docs/sink/metrics.md lists the
contents of each stage.

Invariant: measuring starts no Spark job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

READ: Final = "read"
SCHEMAS: Final = "schemas"
TABLES: Final = "tables"
LEDGER: Final = "ledger"
FOLD: Final = "fold"
MERGE: Final = "merge"

OF_A_BATCH: Final = (READ, SCHEMAS, TABLES, LEDGER)
OF_A_TABLE: Final = (FOLD, MERGE)
"""For tables that are merged in parallel, these add up to more than `tables`."""


@dataclass(slots=True, kw_only=True)
class Stages:
    """Seconds by stage, of one batch or of one table in it; used by one thread."""

    clock: Callable[[], float] = time.monotonic
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time that the block takes, whether it fails or not."""
        began = self.clock()
        try:
            yield
        finally:
            self.seconds[stage] = self.of(stage) + self.clock() - began

    def of(self, stage: str) -> float:
        """The seconds of a stage; 0 if it did not occur."""
        return self.seconds.get(stage, 0.0)


def per_second(rows: int, seconds: float) -> float:
    """Rows per second; 0 if no time passed."""
    return rows / seconds if seconds > 0 else 0.0
