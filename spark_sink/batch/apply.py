"""One micro-batch brought into the warehouse, safe to run any number of times.

Invariant: floors, then tables, then the waits, then the ledger. Whatever fails leaves a batch that can be
applied again whole, because each row is judged by its (epoch, seq) and never by the batch's number. A table
whose changes cannot be applied waits, recorded with the offsets that hold them, before the ledger moves.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch.contents import Contents, TablePart, contents, envelopes
from spark_sink.batch.merging import merged
from spark_sink.batch.pace import Pace
from spark_sink.batch.read_ahead import Ahead
from spark_sink.ddl.following import Ddl
from spark_sink.errors import KeyChanged, TableError, TypeConflict
from spark_sink.metrics import Metrics
from spark_sink.names import quoted
from spark_sink.source.claims import redeemed
from spark_sink.source.envelope import of_table
from spark_sink.source.offsets import Offsets
from spark_sink.source.schemas import SchemaBook, TableVersion
from spark_sink.warehouse.ledger import Entry, Floor, Floors, Source, spans
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.shape import Shape, shaped
from spark_sink.warehouse.waiting_tables import Waits, loaded_sql

_log = logging.getLogger(__name__)
THREADS = 4
_LARGE = 50_000
"""Offsets of a batch that is announced before it is applied."""
_LONG_SECONDS = 10.0
"""Of merging one table, which is logged then: an operator should see that a long batch moves."""

Floored = dict[Name, dict[Source, tuple[int, int]]]


@dataclass(slots=True, kw_only=True)
class Applier:
    """Applies batches; keeps in memory only what it can read again from the warehouse."""

    book: SchemaBook
    warehouse: Warehouse[DataFrame]
    waits: Waits
    metrics: Metrics
    ahead: Ahead | None = None
    """What reads Kafka past a batch's end."""
    claim_checks: str = ""
    """The path of the claim store, if it is not the worker's own."""
    ddl: Ddl | None = None
    """What follows DDL; without it, tables keep their names and rows."""
    clock: Callable[[], float] = time.time
    threads: int = THREADS
    """Tables that are merged at a time."""
    pace: Pace | None = None
    """How Spark executes small and large batches; None leaves it as the session has it."""
    gate: threading.Lock = field(default_factory=threading.Lock)
    """Held by a batch, and by a reload that hands its table back to the batches."""
    merged: Counter[Name] = field(default_factory=Counter)
    """Batches that had rows of a table, for its maintenance."""
    applied: dict[tuple[str, int], int] = field(default_factory=dict)
    """Up to where partitions are applied by this process."""
    newest: dict[str, int] = field(default_factory=dict)
    """The newest commit time (ms) of each destination that this process has applied."""
    busy_since: float | None = None
    """When the batch that is being applied began."""
    _shapes: dict[Name, Shape] = field(default_factory=dict)
    _floors: Floored | None = None

    def apply(self, records: DataFrame, batch_id: int, *, query_id: str, moved: Moved) -> None:
        """Brings the records (columns of Spark's Kafka source) into the tables and the ledger."""
        with self.gate:
            self.busy_since = self.clock()
            try:
                self._apply(records, batch_id, query_id=query_id, moved=moved())
            finally:
                self.busy_since = None

    def forget(self, name: Name) -> None:
        """Drops what is remembered of a table that was replaced."""
        self._shapes.pop(name, None)

    def _apply(
        self, records: DataFrame, batch_id: int, *, query_id: str, moved: tuple[Offsets, Offsets]
    ) -> None:
        started = self.clock()
        self._announce(batch_id, moved)
        self.waits.refresh()
        self.follow_ddl(moved[0])
        self._keep_pace(records, sum(end - start for start, end in spans(*moved).values()))
        batch = self.envelopes(records)
        if cut := loaded_sql(self.waits.tables.values(), moved[0]):
            batch = batch.where(f"NOT coalesce({cut}, false)")
        # A local checkpoint, since Delta refuses a cached source and would copy an uncached one.
        batch = batch.localCheckpoint(eager=False)
        found = contents(batch)
        passed_by = {name for name in found.tables if self.waits.waiting(name)}
        for name in passed_by:
            part = found.tables.pop(name)
            self.waits.extend(name, _from(moved, part))
        faults = {part.name: part.fault for part in found.tables.values() if part.fault}
        if found.claims:
            batch, found, faults = self.fetched(without(batch, passed_by), found)
        parts = [part for part in found.tables.values() if part.name not in faults]
        if parts:
            self._keep_pace(batch, max(part.ops.total() for part in parts))
        faults |= self._merge_all(batch, parts, moved[1])
        for name, fault in faults.items():
            self._wait(name, fault, _from(moved, found.tables[name]), start=moved[0])
        applied = self.clock()
        entries = _entries(found, moved, query_id, batch_id, int(applied * 1000))
        self.warehouse.ledger.append(entries)
        self.applied |= {(one.topic, one.partition): one.until_offset for one in entries}
        self.newest |= {d: max(ms, self.newest.get(d, 0)) for d, ms in found.newest.items()}
        self._report(found, batch_id, entries, started=started, applied=applied)

    def envelopes(self, records: DataFrame, *, whole: bool = False) -> DataFrame:
        """Kafka's records as envelopes of the tables that they belong to now.

        `whole` means that they may be older than what is applied.
        """
        rows = envelopes(records)
        return rows if self.ddl is None else self.ddl.routed(rows, whole=whole)

    def follow_ddl(self, start: Offsets) -> None:
        """Carries out new DDL; the gate is held. A batch begins at `start`; empty without one."""
        if self.ddl is None:
            return
        known = len(self.ddl.history.events)
        changed = self.ddl.follow(self.applied, start)
        for name in changed:
            self.forget(name)
        if changed or len(self.ddl.history.events) > known:
            self._floors = None

    def _announce(self, batch_id: int, moved: tuple[Offsets, Offsets]) -> None:
        """Log what a batch begins with where it may take minutes: the first, and large ones."""
        start, until = moved
        offsets = sum(end - start.get(at, 0) for at, end in until.items())
        is_first = not self.applied
        if is_first or offsets >= _LARGE:
            note = "; the first after a start takes longest" if is_first else ""
            _log.info("batch started batch=%d offsets=%d%s", batch_id, offsets, note)

    def _keep_pace(self, rows: DataFrame, number: int) -> None:
        if self.pace is not None:
            self.pace.keep(rows.sparkSession, number)

    def _wait(self, name: Name, fault: TableError, offsets: Offsets, *, start: Offsets) -> None:
        before = self.waits.tables.get(name)
        cut = before.offsets if before is not None else {}
        # Changes that a reload applied before the stream stay applied: there, reading begins at its cut.
        late = {at: until for at, until in cut.items() if until > start.get(at, 0)}
        self.waits.begin(name, fault, {**offsets, **late})
        self.forget(name)
        _log.error("table waits table=%s.%s: %s", *name, fault)

    def fetched(
        self, batch: DataFrame, found: Contents
    ) -> tuple[DataFrame, Contents, dict[Name, TableError]]:
        """The batch with its large values, what it holds then, and tables that cannot be applied."""
        faults = {part.name: part.fault for part in found.tables.values() if part.fault}
        wanted = [p for p in found.tables.values() if p.claims and p.name not in faults]
        whole = without(batch, faults).where("claim IS NULL")
        if wanted:
            rows = batch.where(" OR ".join(of_table(part.name) for part in wanted))
            claims = [claim for part in wanted for claim in part.claims]
            whole = whole.unionByName(redeemed(rows, claims, store=self.claim_checks))
        whole = whole.localCheckpoint(eager=False)
        again = contents(whole)
        again.tables |= {name: found.tables[name] for name in faults}
        again.records = found.records
        faults |= {part.name: part.fault for part in again.tables.values() if part.fault}
        return whole, again, faults

    def paired(
        self, batch: DataFrame, part: TablePart, until: Offsets
    ) -> tuple[DataFrame, TablePart]:
        """A table's records with those past the batch that complete its moves, and what they are."""
        if not part.is_partial or self.ahead is None:
            return batch, part
        topics = sorted({topic for topic, _ in part.places})
        more = self.ahead.missing(batch, part.name, topics, until)
        if more is None:
            return batch, part
        found = contents(more)
        if found.claims:
            more, found, _ = self.fetched(more, found)
        own = batch.where(of_table(part.name)).unionByName(more).localCheckpoint(eager=False)
        again = contents(own).tables[part.name]
        if fault := found.tables[part.name].fault or again.fault:
            raise fault
        _log.info("moves completed from later records table=%s.%s", *part.name)
        return own, again

    def _merge_all(
        self, batch: DataFrame, parts: list[TablePart], until: Offsets
    ) -> dict[Name, TableError]:
        """Merges all that can be; returns why the others cannot."""
        ready: list[Part] = []
        faults: dict[Name, TableError] = {}
        for part in parts:
            try:
                ready.append(self.paired(batch, part, until))
            except TableError as fault:
                faults[part.name] = fault
        self.book.fetch(key for _, part in ready for key in part.versions)
        versions = {}
        for _, part in ready:
            try:
                versions[part.name] = list(self.book.versions(part.versions).values())
            except TableError as fault:
                faults[part.name] = fault
        known = [(records, part) for records, part in ready if part.name in versions]
        floors = self.raise_floors(floor for _, part in known for floor in part.truncates)

        def merge(one: Part) -> None:
            started, (records, part) = self.clock(), one
            try:
                self._merge(records, part, versions[part.name], floors.get(part.name, {}))
            except TableError as fault:
                faults[part.name] = fault
            if (seconds := self.clock() - started) >= _LONG_SECONDS:
                _log.info("table merged table=%s.%s seconds=%.1f", *part.name, seconds)

        if known:
            _in_parallel(merge, known, session=batch.sparkSession, threads=self.threads)
        return faults

    def _merge(
        self,
        batch: DataFrame,
        part: TablePart,
        versions: list[TableVersion],
        floors: Floors,
    ) -> None:
        shape = self._evolved(part, versions)
        if shape is None:
            return
        for floor in part.truncates:
            self.warehouse.tables.truncate(shape, floor)
        if part.has_rows:
            merged(self.warehouse.tables, batch, part, shape, versions, floors)
            self.merged[part.name] += 1

    def _evolved(self, part: TablePart, versions: list[TableVersion]) -> Shape | None:
        """The table's shape with room for the versions; None if there are none."""
        held = self._shapes.get(part.name) or self.warehouse.tables.shape(*part.name)
        if held is None and not versions:
            return None
        try:
            wanted = shaped(held, versions, name=part.name, apart=part.is_apart)
        except (KeyChanged, TypeConflict):
            if held is None or not self._is_vacant(held):
                raise
            wanted = shaped(None, versions, name=part.name, apart=part.is_apart)
            empty = ", ".join(f"{quoted(name)} {kind}" for name, kind in wanted.all_columns)
            session = self.warehouse.tables.rows(held).sparkSession
            self.warehouse.tables.replace(wanted, session.createDataFrame([], empty))
            _log.info("table created again with another key or type table=%s.%s", *part.name)
            self._shapes[part.name] = wanted
            return wanted
        if wanted != held:
            self.warehouse.tables.evolve(held, wanted)
            _log.info("table %s table=%s.%s", "widened" if held else "made", *part.name)
        self._shapes[part.name] = wanted
        return wanted

    def is_emptied(self, name: Name) -> bool:
        """Whether a table was dropped or renamed at the source, and the sink followed."""
        return self.ddl is not None and self.ddl.is_emptied(name)

    def _is_vacant(self, held: Shape) -> bool:
        """Whether a table was dropped at the source, and no row of another source is left in it."""
        is_emptied = self.is_emptied((held.database, held.table))
        return is_emptied and self.warehouse.tables.rows(held).isEmpty()

    def raise_floors(self, truncates: Iterable[Floor]) -> Floored:
        """Records truncates; returns the highest of each table and source."""
        if self._floors is None:
            self._floors = {}
            highest = self.warehouse.floors.highest()
            for floor in highest if self.ddl is None else self.ddl.floors(highest):
                self._floors.setdefault((floor.database, floor.table), {})[floor.source] = (
                    floor.place
                )
        new = []
        for floor in truncates:
            known = self._floors.setdefault((floor.database, floor.table), {})
            if floor.place > known.get(floor.source, (-1, -1)):
                known[floor.source] = floor.place
                if self.ddl is None or not self.ddl.carried(floor):
                    new.append(floor)
        self.warehouse.floors.add(new)
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
        self.metrics.waiting(
            {one.name: one.error for one in self.waits.tables.values() if one.waits}
        )
        for part in found.tables.values():
            if self.waits.waiting(part.name):
                continue
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


def without(batch: DataFrame, names: Iterable[Name]) -> DataFrame:
    """The batch without the records of some tables."""
    for name in names:
        batch = batch.where(f"NOT {of_table(name)}")
    return batch


Part = tuple[DataFrame, TablePart]

# (start, end) offsets of the batch, as Spark planned it.
Moved = Callable[[], tuple[Offsets, Offsets]]


def _from(moved: tuple[Offsets, Offsets], part: TablePart) -> dict[tuple[str, int], int]:
    """Where the batch began in the partitions that have records of a table."""
    return {at: moved[0].get(at, 0) for at in part.places}


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
    act: Callable[[Part], None], parts: list[Part], *, session: SparkSession, threads: int
) -> None:
    """Runs `act` on all parts; raises the first part's error after all have ended."""
    if len(parts) == 1:
        act(parts[0])
        return
    with ThreadPoolExecutor(min(threads, len(parts))) as pool:
        # Each thread gets the batch's Spark properties, so a stop cancels its jobs too; and each a
        # copy, since Spark writes into them.
        done = [pool.submit(inheritable_thread_target(session)(act), part) for part in parts]
    for outcome in done:
        outcome.result()
