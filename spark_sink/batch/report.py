"""The report of a batch and of its tables: the time of each stage, lines of the log, and metrics.

Spark computes lazily, so a stage is a job or a statement for which the sink waits, and includes all that it
computes: `read` fetches from Kafka and parses the envelopes, in one job. docs/sink/metrics.md lists the
contents of each stage.

Invariant: only what the batch knows already is measured and reported; no Spark job runs for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from spark_sink.batch.contents import Contents, TablePart
from spark_sink.metrics import Metrics
from spark_sink.source.positions import Offsets, Progress, total
from spark_sink.warehouse.protocol import LastMerge, Name

_log = logging.getLogger(__name__)
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


LONG_SECONDS: Final = 10.0
"""Seconds from which a table's merge is logged: an operator should see that a long batch makes progress."""
_LARGE: Final = 50_000
"""The number of offsets from which a batch is announced before it is applied."""


def announce(batch_id: int, moved: tuple[Offsets, Offsets], *, is_first: bool) -> None:
    """Log the start of a batch that may take minutes: the first batch of a process, or a large batch."""
    start, until = moved
    offsets = sum(end - start.get(at, 0) for at, end in until.items())
    if is_first or offsets >= _LARGE:
        note = "; the first after a start takes longest" if is_first else ""
        _log.info("batch started batch=%d offsets=%d%s", batch_id, offsets, note)


def report_table(
    metrics: Metrics, part: TablePart, stages: Stages, *, seconds: float, now: float
) -> None:
    """Report one table once its part of a batch is merged.

    `seconds` is the time that the whole table took, `now` the time (Unix seconds) when it was merged.
    """
    for stage in OF_A_TABLE:
        if stage in stages.seconds:
            metrics.stage(stage, stages.of(stage))
    metrics.table(".".join(part.name), seconds=seconds, lag=_lag(part.progress, now))
    rows = part.ops.total()
    _log.log(
        logging.INFO if seconds >= LONG_SECONDS else logging.DEBUG,
        "table merged table=%s.%s rows=%d seconds=%.1f rows_per_second=%.0f fold_seconds=%.1f "
        "merge_seconds=%.1f",
        *part.name,
        rows,
        seconds,
        per_second(rows, seconds),
        stages.of(FOLD),
        stages.of(MERGE),
    )


def report_last_merge(name: Name, last: LastMerge | None) -> None:
    """Log what the table's format has recorded of a merge that took long."""
    if last is None:
        return
    _log.info(
        "slow merge table=%s.%s scan_seconds=%s rewrite_seconds=%s rows_inserted=%d rows_updated=%d "
        "rows_copied=%d files_removed=%d files_added=%d",
        *name,
        _seconds(last.scan_ms),
        _seconds(last.rewrite_ms),
        last.rows_inserted,
        last.rows_updated,
        last.rows_copied,
        last.files_removed,
        last.files_added,
    )


def _seconds(ms: int | None) -> str:
    return "unknown" if ms is None else f"{ms / 1000:.1f}"


def report_batch(
    metrics: Metrics,
    found: Contents,
    batch_id: int,
    stages: Stages,
    *,
    waiting: Collection[Name],
    seconds: float,
    applied: float,
) -> None:
    """Report a batch that is in the ledger; `applied` is when its tables were merged (Unix seconds).

    `waiting` are the tables of the batch that wait: their changes are counted as seen, but not applied.
    """
    for stage in OF_A_BATCH:
        metrics.stage(stage, stages.of(stage))
    merged = [part for part in found.tables.values() if part.name not in waiting]
    for part in merged:
        for op, number in part.ops.items():
            metrics.rows(".".join(part.name), op, number)
    metrics.seen({name: one.place for name, one in found.progress.items()})
    for name, one in total(part.progress for part in merged).items():
        metrics.destination(name, one.place, lag=_lag({name: one}, applied))
    metrics.batch(seconds=seconds)
    lag = 0.0
    if found.oldest_ms is not None and found.newest_ms is not None:
        lag = applied - found.oldest_ms / 1000
        metrics.lag(seconds=lag, newest=found.newest_ms / 1000)
    rows = found.records.total()
    _log.info(
        "batch applied batch=%d rows=%d tables=%d lag_seconds=%.1f seconds=%.1f rows_per_second=%.0f "
        "read_seconds=%.1f schemas_seconds=%.1f tables_seconds=%.1f ledger_seconds=%.1f",
        batch_id,
        rows,
        len(found.tables),
        max(0.0, lag),
        seconds,
        per_second(rows, seconds),
        *(stages.of(stage) for stage in (READ, SCHEMAS, TABLES, LEDGER)),
    )


def _lag(progress: dict[str, Progress], now: float) -> float:
    """Seconds from the commit of the oldest of the changes until `now`."""
    return max((max(0.0, now - one.oldest_ms / 1000) for one in progress.values()), default=0.0)
