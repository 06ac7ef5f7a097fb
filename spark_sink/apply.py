"""One micro-batch brought into the warehouse, safe to run any number of times.

Law: floors, then tables, then the ledger. Whatever fails leaves a batch that can be applied again
whole, because each row is judged by its (epoch, seq) and never by the batch's number.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch import Contents, TablePart, contents, envelopes
from spark_sink.claims import redeemed
from spark_sink.compact import changes
from spark_sink.evolve import Shape, shaped
from spark_sink.ledger import Entry, Floor, Ledger, Offsets, spans
from spark_sink.metrics import Metrics
from spark_sink.schemas import SchemaBook, TableVersion
from spark_sink.warehouse import Warehouse

_log = logging.getLogger(__name__)
_THREADS = 4
_ROWS = 20_000
_BYTES = 16 * 1024 * 1024

Floored = dict[tuple[str, str], dict[str, tuple[int, int]]]


@dataclass(slots=True, kw_only=True)
class Applier:
    """Applies batches; keeps in memory only what it can read again from the warehouse."""

    book: SchemaBook
    warehouse: Warehouse
    ledger: Ledger
    metrics: Metrics
    claim_checks: str = ""
    """Where the claim store is, if not where the worker says."""
    clock: Callable[[], float] = time.time
    _shapes: dict[tuple[str, str], Shape] = field(default_factory=dict)
    _floors: Floored | None = None

    def apply(self, records: DataFrame, batch_id: int, *, query_id: str, moved: Moved) -> None:
        """Brings the records (columns of Spark's Kafka source) into the tables and the ledger."""
        started = self.clock()
        # A local checkpoint, since Delta refuses a cached source and would copy an uncached one.
        batch = envelopes(records).localCheckpoint(eager=False)
        found = contents(batch)
        if found.claims:
            fetched = redeemed(batch, found.claims, store=self.claim_checks)
            batch = batch.where("claim IS NULL").unionByName(fetched).localCheckpoint(eager=False)
            found = contents(batch)
        self._merge_all(batch, found)
        applied = self.clock()
        entries = _entries(found, moved(), query_id, batch_id, int(applied * 1000))
        self.ledger.append(entries)
        self._report(found, batch_id, entries, started=started, applied=applied)

    def _merge_all(self, batch: DataFrame, found: Contents) -> None:
        if not found.tables:
            return
        versions = self.book.versions(k for part in found.tables.values() for k in part.versions)
        floors = self._raise_floors(floor for p in found.tables.values() for floor in p.truncates)

        def merge(part: TablePart) -> None:
            of_part = [versions[key] for key in sorted(part.versions)]
            self._merge(batch, part, of_part, floors.get(part.name, {}))

        _in_parallel(merge, list(found.tables.values()), session=batch.sparkSession)

    def _merge(
        self,
        batch: DataFrame,
        part: TablePart,
        versions: list[TableVersion],
        floors: dict[str, tuple[int, int]],
    ) -> None:
        shape = self._evolved(part, versions)
        if shape is None:
            return
        for floor in part.truncates:
            self.warehouse.truncate(shape, floor)
        if part.has_rows:
            rows = changes(batch, shape, versions, floors=floors)
            at_hand = few(rows=part.ops.total(), size=part.size)
            self.warehouse.merge(shape, local(rows) if at_hand else rows)

    def _evolved(self, part: TablePart, versions: list[TableVersion]) -> Shape | None:
        """The table's shape with room for the versions; None where nothing tells of any."""
        held = self._shapes.get(part.name) or self.warehouse.shape(*part.name)
        if held is None and not versions:
            return None
        wanted = shaped(held, versions, name=part.name)
        if wanted != held:
            self.warehouse.evolve(held, wanted)
            _log.info("table %s table=%s.%s", "widened" if held else "made", *part.name)
        self._shapes[part.name] = wanted
        return wanted

    def _raise_floors(self, truncates: Iterable[Floor]) -> Floored:
        if self._floors is None:
            self._floors = {}
            for floor in self.ledger.floors():
                self._floors.setdefault((floor.database, floor.table), {})[floor.destination] = (
                    floor.place
                )
        new = []
        for floor in truncates:
            known = self._floors.setdefault((floor.database, floor.table), {})
            if floor.place > known.get(floor.destination, (-1, -1)):
                known[floor.destination] = floor.place
                new.append(floor)
        self.ledger.raise_floors(new)
        return self._floors

    def _report(
        self,
        found: Contents,
        batch_id: int,
        entries: list[Entry],
        *,
        started: float,
        applied: float,
    ) -> None:
        for part in found.tables.values():
            for op, number in part.ops.items():
                self.metrics.rows(".".join(part.name), op, number)
        self.metrics.applied({(e.topic, e.partition): e.until_offset for e in entries})
        seconds = self.clock() - started
        self.metrics.batch(seconds=seconds)
        lag = 0.0
        if found.oldest_ms is not None and found.newest_ms is not None:
            lag = applied - found.oldest_ms / 1000
            self.metrics.lag(seconds=lag, newest=found.newest_ms / 1000)
        _log.info(
            "batch applied batch=%d rows=%d tables=%d lag_seconds=%.1f seconds=%.1f",
            batch_id,
            found.records.total(),
            len(found.tables),
            max(0.0, lag),
            seconds,
        )


def few(*, rows: int, size: int) -> bool:
    """Whether the driver can well hold that many rows, whose JSON images have `size` bytes."""
    return rows <= _ROWS and size <= _BYTES


def local(rows: DataFrame) -> DataFrame:
    """The same rows as a plan without a job, which a MERGE would else run again and again.

    They stay in the JVM. Exact only with `spark.sql.datetime.java8API.enabled`: the older Java
    classes of dates are of another calendar.
    """
    session: Any = rows.sparkSession
    held = rows._jdf.collectAsList()
    return DataFrame(session._jsparkSession.createDataFrame(held, rows._jdf.schema()), session)


# (start, end) offsets of the batch, as Spark planned it.
Moved = Callable[[], tuple[Offsets, Offsets]]


def _entries(
    found: Contents, moved: tuple[Offsets, Offsets], query_id: str, batch_id: int, applied_ms: int
) -> list[Entry]:
    return [
        Entry(
            query_id=query_id,
            batch_id=batch_id,
            topic=topic,
            partition=partition,
            from_offset=start,
            until_offset=until,
            records=found.records[topic, partition],
            applied_at_ms=applied_ms,
        )
        for (topic, partition), (start, until) in sorted(spans(*moved).items())
    ]


def _in_parallel(
    act: Callable[[TablePart], None], parts: list[TablePart], *, session: SparkSession
) -> None:
    """Runs `act` on all parts; raises the first part's error after all have ended."""
    if len(parts) == 1:
        act(parts[0])
        return
    with ThreadPoolExecutor(min(_THREADS, len(parts))) as pool:
        # Each thread gets the batch's Spark properties, so a stop cancels its jobs too; and each a
        # copy, since Spark writes into them.
        done = [pool.submit(inheritable_thread_target(session)(act), part) for part in parts]
    for outcome in done:
        outcome.result()
