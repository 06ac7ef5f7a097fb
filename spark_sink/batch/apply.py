"""The application of one micro-batch to the warehouse, which is safe to repeat any number of times.

`Applier.apply` is the list of a batch's steps. The steps follow it, in the same order.

Invariant: the order is DDL, floors, tables, waits, ledger. After any failure the whole batch can be applied
again, because each row is judged by its (epoch, seq) and never by the batch's number. A table whose changes
cannot be applied waits, which is recorded with the offsets of these changes before the ledger moves. A record
becomes a dead letter before its table is merged without it.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import DataFrame

from spark_sink.batch.contents import (
    Contents,
    Replacements,
    TablePart,
    advised,
    contents,
    envelopes,
    published_again,
    unusable,
    versions_of,
    without,
)
from spark_sink.batch.dead_letters import PutAside
from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.batch.hard_deletes import DeletedKeys
from spark_sink.batch.histories import Histories
from spark_sink.batch.last_truncates import Truncates, floors_of
from spark_sink.batch.partial_images import Ahead
from spark_sink.batch.report import (
    LEDGER,
    LONG_SECONDS,
    MERGE,
    READ,
    SCHEMAS,
    TABLES,
    Stages,
    announce,
    report_batch,
    report_last_merge,
    report_table,
)
from spark_sink.batch.shapes import Shapes
from spark_sink.batch.table_merge import BatchStopped, TableSizes, merged
from spark_sink.errors import (
    MalformedRecord,
    TableError,
    UnsupportedPartialImage,
    table_error,
)
from spark_sink.metrics import Metrics
from spark_sink.source.claims import redeemed
from spark_sink.source.envelope import OF_NO_TABLE, of_table
from spark_sink.source.positions import Offsets
from spark_sink.source.schemas import SchemaBook, TableVersion
from spark_sink.spark.jobs import Pace, describe, in_parallel
from spark_sink.warehouse.foreign_topics import ForeignTopics
from spark_sink.warehouse.integrity import ledger_lost
from spark_sink.warehouse.ledger import Entry, Floors, entries_of, spans
from spark_sink.warehouse.milestone_recorder import MilestoneRecorder
from spark_sink.warehouse.moves import Event, Place, pieces
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.spark_failures import FAILURES, twice
from spark_sink.warehouse.table_rules import NO_RULES, TableRules
from spark_sink.warehouse.waiting_tables import Request, Waits, loaded_sql

_log = logging.getLogger(__name__)
THREADS = 4
QUIET_SECONDS = 10.0
Ready = tuple[TablePart, DataFrame, TablePart, list[TableVersion]]
"""What a batch has for a table; then its records, and their contents, with those read past the batch's end; and
the versions of these."""


@dataclass(slots=True, kw_only=True)
class Applier:
    """Applies batches; keeps in memory only what it can read again from the warehouse."""

    book: SchemaBook
    warehouse: Warehouse[DataFrame]
    waits: Waits
    metrics: Metrics
    ahead: Ahead | None = None
    """Reads Kafka past a batch's end."""
    claim_checks: str = ""
    """The path of the claim store, if it is not the worker's own."""
    unusable_limit: int = 0
    """The number of unusable records that may become dead letters in an hour; 0: their tables wait."""
    ddl: Ddl | None = None
    """Follows DDL; without it, tables keep their names and rows."""
    foreign: ForeignTopics | None = None
    """Excludes records of other installations; without it, all records count as this installation's."""
    is_read: Callable[[str], bool] = lambda _: True
    """Returns whether the sink reads a topic; its rows may be excluded, or be another sink's."""
    replaced: Callable[[list[TablePart]], dict[Name, TableError]] = lambda _: {}
    """Returns the tables that must wait because one of their topics was recreated, with the reasons."""
    rules: TableRules = NO_RULES
    """The settings of single tables."""
    clock: Callable[[], float] = time.time
    threads: int = THREADS
    """The number of tables that are merged at a time."""
    pace: Pace | None = None
    """How Spark executes small and large batches; None leaves it as the session has it."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set once the current batch must end: it merges no further table, and fails."""
    gate: threading.Lock = field(default_factory=threading.Lock)
    """Held by a batch, and by a reload that hands its table back to the batches."""
    merged: Counter[Name] = field(default_factory=Counter)
    """The number of batches that had rows of each table, for its maintenance."""
    applied: dict[tuple[str, int], int] = field(default_factory=dict)
    """The offset up to which this process has applied each partition."""
    newest: dict[str, int] = field(default_factory=dict)
    """The newest commit time (ms) of each destination that this process has applied."""
    busy_since: float | None = None
    """When the batch that is being applied began, by the monotonic clock."""
    followed: float = field(default_factory=time.monotonic)
    """When DDL was last looked for, by the monotonic clock."""
    milestones: MilestoneRecorder = field(init=False)
    """Records what each batch leaves in the tables, for readers of consistent cuts."""
    shapes: Shapes = field(init=False)
    truncates: Truncates = field(init=False)
    deleted: DeletedKeys = field(init=False)
    histories: Histories = field(init=False)
    sizes: TableSizes = field(init=False)

    def __post_init__(self) -> None:
        """Begin without a batch."""
        self.milestones = MilestoneRecorder(
            self.warehouse, sink=self.waits.sink or "", rules=self.rules
        )
        self.deleted = DeletedKeys(
            warehouse=self.warehouse,
            rules=self.rules,
            wrote=self.milestones.wrote,
            drops=self.milestones.integrity.drops_markers,
            gate=self.gate,
        )
        self.histories = Histories(warehouse=self.warehouse, rules=self.rules)
        self.shapes = Shapes(
            warehouse=self.warehouse, book=self.book, ddl=self.ddl, deleted=self.deleted
        )
        self.truncates = Truncates(warehouse=self.warehouse, ddl=self.ddl)
        self.sizes = TableSizes(facts=self.warehouse.facts, merged=self.merged)

    def apply(
        self,
        records: DataFrame,
        batch_id: int,
        *,
        query_id: str,
        moved: tuple[Offsets, Offsets],
        is_whole: bool = False,
    ) -> None:
        """Bring records (columns of Spark's Kafka source) into the tables and the ledger.

        `moved` are the batch's start and end, as Spark planned it. `is_whole` means that the batches so far are
        known to divide no transaction.
        """
        with self._working():
            # The steps of a batch, in the order of its data.
            started, stages = self.clock(), Stages()
            self._announce(records, batch_id, moved)
            with stages.timed(TABLES):
                self.follow_ddl(moved[0])
            batch = self._routed(records, moved)
            with stages.timed(READ):
                found = contents(batch)
            _log.debug("batch read batch=%d tables=%d", batch_id, len(found.tables))
            self.milestones.reach(found.reached, found.existing)
            passed_by = self._pass_by_waiting(found, moved[0])
            aside = self._aside(records, moved)
            batch, found = self._usable(batch, found, passed_by, aside, stages, start=moved[0])
            faults = self._held_back(found)
            altered = self._add_altered(found.tables)
            parts = self._mergeable(batch, found, faults)
            faults |= self._merge_all(batch, parts, moved[1], stages, batch_id, aside=aside)
            describe(records.sparkSession, f"batch {batch_id}: ledger")
            with stages.timed(LEDGER):
                self._begin_waits(faults, found, moved[0])
                if aside is not None:
                    aside.report(batch_id)
                applied, at_ms = self.clock(), self.milestones.moment(self.clock(), self.waits)
                entries = entries_of(
                    found.records, moved, query_id=query_id, batch_id=batch_id, applied_ms=at_ms
                )
                self._record(entries, is_whole=is_whole)
                if self.ddl is not None:
                    self.ddl.brought(altered)
            self._report(found, entries, batch_id, stages, started=started, applied=applied)

    def apply_ddl(self, nothing: DataFrame) -> None:
        """Carry out new DDL without a batch; `nothing` is an empty set of Kafka's records.

        The ledger does not record this, as if a batch had been killed before its entry. To carry the DDL out
        again changes nothing.
        """
        if self.ddl is None:
            return
        with self._working():
            self.milestones.begin()
            self.waits.refresh()
            self.follow_ddl({})
            tables: dict[Name, TablePart] = {}
            altered = self._add_altered(tables)
            if tables:
                parts, rows = list(tables.values()), self.envelopes(nothing)
                faults = self._merge_all(rows, parts, {}, Stages(), "of DDL alone", aside=None)
                for name, fault in faults.items():
                    self._wait(name, fault, {}, start=self.applied)
            for name in tables:
                self.milestones.rebuilt(name)
            self.ddl.brought(altered)

    @contextmanager
    def _working(self) -> Iterator[None]:
        with self.gate:
            self.busy_since = time.monotonic()
            try:
                yield
            finally:
                self.busy_since = None

    def _announce(self, records: DataFrame, batch_id: int, moved: tuple[Offsets, Offsets]) -> None:
        describe(records.sparkSession, f"batch {batch_id}: read")
        announce(batch_id, moved, is_first=not self.milestones.has_stated)
        self.milestones.begin()
        self.waits.refresh()

    def follow_ddl(self, start: Offsets) -> None:
        """Carry out new DDL, while the gate is held. `start` is where a batch begins; empty without a batch."""
        self.followed = time.monotonic()
        events = self.ddl.history.settled() if self.ddl is not None else ()
        self.milestones.integrity.begin(events, self.waits.tables.values())
        if self.ddl is None:
            return
        known = len(self.ddl.history.events)
        changed = self.ddl.follow(
            self.applied,
            start,
            put_back=self.deleted.put_back,
            done=self.milestones.integrity.ddl,
        )
        for name in changed:
            self.forget(name)
        self.metrics.forget(changed)
        if changed or len(self.ddl.history.events) > known:
            self.truncates.forget()

    def _routed(self, records: DataFrame, moved: tuple[Offsets, Offsets]) -> DataFrame:
        """The batch's envelopes, without rows that a load has read, computed once."""
        self.keep_pace(records, sum(end - start for start, end in spans(*moved).values()))
        batch = self.envelopes(records, moved=moved)
        if cut := loaded_sql(self.waits.tables.values(), moved[0]):
            batch = batch.where(f"NOT coalesce({cut}, false)")
        # A local checkpoint, since Delta refuses a cached source and would copy an uncached source.
        return batch.localCheckpoint(eager=False)

    def envelopes(
        self,
        records: DataFrame,
        *,
        moved: tuple[Offsets, Offsets] | None = None,
        tables: Collection[Name] | None = None,
    ) -> DataFrame:
        """Return Kafka's records as envelopes of the tables to which they belong now.

        `moved` is the range of a batch. With `tables`, only the records of these tables are returned, and those
        that name no table; they may be older than what is applied.
        """
        rows, foreign = envelopes(records), self.foreign
        rows = rows if foreign is None else foreign.own(rows, moved)
        rows = rows if self.ddl is None else self.ddl.routed(rows, tables=tables)
        if tables is None:
            return rows
        # NULL for a record that names no table.
        return rows.where(f"{OF_NO_TABLE} OR {' OR '.join(map(of_table, tables))}")

    def keep_pace(self, rows: DataFrame, number: int) -> None:
        """Set, in the session of the rows, what is best for this number of rows."""
        if self.pace is not None:
            self.pace.keep(rows.sparkSession, number)

    def _pass_by_waiting(self, found: Contents, start: Offsets) -> set[Name]:
        """Leave out the tables that wait, whose changes stay in Kafka; return these tables."""
        waiting = {name for name in found.tables if self.waits.waiting(name)}
        for name in waiting:
            part = found.tables.pop(name)
            self.waits.extend(name, part.began(start))
            self._replacing(part)
        return waiting

    def _aside(self, records: DataFrame, moved: tuple[Offsets, Offsets]) -> PutAside | None:
        """The object that makes a batch's unusable records dead letters; None without a limit."""
        if not self.unusable_limit:
            return None
        return PutAside(
            letters=self.warehouse.letters,
            metrics=self.metrics,
            limit=self.unusable_limit,
            records=records,
            moved=moved,
            clock=self.clock,
            is_late=self.ddl.is_unsettled if self.ddl is not None else lambda *_: False,
        )

    def _usable(
        self,
        batch: DataFrame,
        found: Contents,
        passed_by: Collection[Name],
        aside: PutAside | None,
        stages: Stages,
        *,
        start: Offsets,
    ) -> tuple[DataFrame, Contents]:
        """Return the batch with its large values, without what `aside` takes from it; and its contents then.

        It is also without the records that name no table: the tables of their topics have a fault then.
        """
        if aside is not None:
            batch, found = aside.sort_out(without(batch, passed_by), found)
        if found.nameless:
            self._hold_topics(found, start)
            found.nameless = {}
            batch = batch.where(f"NOT {OF_NO_TABLE}")
        if found.claims:
            with stages.timed(READ):
                batch, found = self.fetched(without(batch, passed_by), found)
                if aside is not None:
                    batch, found = aside.sort_out(batch, found)
        return batch, found

    def _hold_topics(self, found: Contents, start: Offsets) -> None:
        """Give the tables of topics that have records which name no table a fault; refuse topics without any.

        Such a record may be a change of each of these tables.
        """
        for at, fault in sorted(found.nameless.items()):
            names = self._tables_of(at[0], found)
            for name in names:
                if self.waits.waiting(name):
                    self.waits.extend(name, {at: start.get(at, 0)})
                    continue
                part = found.tables.setdefault(name, TablePart(name))
                part.places.add(at)
                part.fault = part.fault or advised(name, fault, topic=at[0])
            if not names and self.foreign is not None:
                self.foreign.refuse(at[0], fault)
            elif not names:
                _log.error("record left out, as no table of its topic is known: %s", fault)

    def _tables_of(self, topic: str, found: Contents) -> set[Name]:
        """The tables that have rows of a topic, by the schemas topic, the batch, and what waits for it."""
        names = {
            part.name for part in found.tables.values() if topic in {to for to, _ in part.places}
        }
        names |= {
            name
            for name, held in self.waits.tables.items()
            if held.waits and topic in {to for to, _ in held.offsets}
        }
        moved = pieces(self.ddl.history.events.values()) if self.ddl is not None else {}
        for destination, own, logical in self.book.of_topic(topic):
            if logical != own or (destination, own) not in moved:
                names.add(logical)
            else:
                # A name that was taken from its table may have no table since.
                targets = {to for _, to in moved[destination, own] if to is not None}
                names |= {to for to in targets if self._is_there(to)}
        return names

    def fetched(self, batch: DataFrame, found: Contents) -> tuple[DataFrame, Contents]:
        """Return the batch with its large values, and its contents then."""
        faults = found.faults
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
        return whole, again

    def _held_back(self, found: Contents) -> dict[Name, TableError]:
        """The tables of which no record is applied, and why.

        Among them are tables for which the batch begins to publish all rows again, which are rebuilt once all
        rows have arrived. A table that does not exist yet does not wait, so that readers see its rows as they
        arrive.
        """
        again = {
            part.name: published_again(part.name, part.replaced.begun)
            for part in found.tables.values()
            if part.replaced.begun and self._is_there(part.name)
        }
        return {**again, **found.faults, **self.replaced(list(found.tables.values()))}

    def _is_there(self, name: Name) -> bool:
        try:
            return self.warehouse.tables.shape(*name) is not None
        except (*FAILURES, TableError):
            # Its merge reports why.
            return False

    def _add_altered(self, tables: dict[Name, TablePart]) -> list[Event]:
        """Add to a batch the versions that statements have given to tables, since no row may ever follow.

        Return these statements, without those of which a version or a table cannot be read yet. Tables that do
        not exist get no version, nor do waiting tables, whose reload finds the versions.
        """
        if self.ddl is None:
            return []
        altered, later = self.ddl.altered(), set[tuple[str, Place]]()
        for name, key, place in self.ddl.versions(altered, self.book):
            if name is None:
                later.add((key.destination, place))
                continue
            if not self.is_read(self.book.home(key)) or self.waits.waiting(name):
                continue
            part = tables.get(name)
            if part is None:
                try:
                    held = self.warehouse.tables.shape(*name)
                except TableError:
                    # Its next rows report why.
                    continue
                except FAILURES:
                    later.add((key.destination, place))
                    continue
                if held is None:
                    continue
                part = tables[name] = TablePart(name, is_apart=held.apart)
            part.add(key, place)
        return [one for one in altered if (one.destination, one.place) not in later]

    def _mergeable(
        self, batch: DataFrame, found: Contents, faults: Collection[Name]
    ) -> list[TablePart]:
        """What the batch has for the tables that are merged."""
        parts = [
            part
            for part in found.tables.values()
            if part.name not in faults and (part.ops or part.versions)
        ]
        self.keep_pace(batch, self.sizes.rows(parts))
        return parts

    def _merge_all(
        self,
        batch: DataFrame,
        parts: list[TablePart],
        until: Offsets,
        stages: Stages,
        batch_id: int | str,
        *,
        aside: PutAside | None,
    ) -> dict[Name, TableError]:
        """Merge all tables that can be merged; return the faults of the other tables."""
        ready, faults = self._completed(batch, parts, until, stages, usable=aside is not None)
        with stages.timed(LEDGER):
            floors = self.truncates.raised(*(floors_of(part, own) for _, _, part, own in ready))

        def merge(one: Ready) -> None:
            try:
                self._merge_table(*one, floors.get(one[2].name, {}), batch_id, aside=aside)
            except TableError as fault:
                faults[one[2].name] = fault

        if ready:
            with stages.timed(TABLES):
                in_parallel(merge, ready, session=batch.sparkSession, threads=self.threads)
        return faults

    def _completed(
        self,
        batch: DataFrame,
        parts: Iterable[TablePart],
        until: Offsets,
        stages: Stages,
        *,
        usable: bool,
    ) -> tuple[list[Ready], dict[Name, TableError]]:
        """Return the tables with all that their merge needs, and the faults of the other tables."""
        paired: list[tuple[TablePart, DataFrame, TablePart]] = []
        faults: dict[Name, TableError] = {}
        with stages.timed(READ):
            for part in parts:
                try:
                    paired.append((part, *self.paired(batch, part, until, usable=usable)))
                except TableError as fault:
                    faults[part.name] = fault
        with stages.timed(SCHEMAS):
            self.book.fetch(key for *_, part in paired for key in part.versions)
        ready: list[Ready] = []
        for held, records, part in paired:
            try:
                ready.append((held, records, part, versions_of(part, self.book)))
            except TableError as fault:
                faults[part.name] = fault
        return ready, faults

    def paired(
        self, batch: DataFrame, part: TablePart, until: Offsets, *, usable: bool = False
    ) -> tuple[DataFrame, TablePart]:
        """Return a table's records and their contents, with the records past the batch that complete its moves.

        With `usable`, records past the batch that cannot be used are omitted: the stream will come to them.
        """
        if not part.is_partial or self.ahead is None:
            return batch, part
        topics = sorted({topic for topic, _ in part.places})
        more = self.ahead.missing(batch, part.name, topics, until)
        if more is None:
            return batch, part
        if usable:
            more = more.where(f"NOT {unusable()}")
        found = contents(more)
        self.milestones.reach(found.reached)
        if found.claims:
            more, found = self.fetched(more, found)
        if usable:
            more = more.where(f"NOT {unusable()}")
        own = batch.where(of_table(part.name)).unionByName(more).localCheckpoint(eager=False)
        again = contents(own).tables[part.name]
        if fault := again.fault or (None if usable else found.tables[part.name].fault):
            raise fault
        for key, span in part.spans.items():
            # A version that a statement has announced may have no row.
            for at in span:
                again.add(key, at)
        _log.info("moves completed from later records table=%s.%s", *part.name)
        return own, again

    def _merge_table(
        self,
        held: TablePart,
        records: DataFrame,
        part: TablePart,
        versions: list[TableVersion],
        floors: Floors,
        batch_id: int | str,
        *,
        aside: PutAside | None,
    ) -> None:
        """Merge a table, a second time if the first fails; take from `held` the ops that were refused."""
        if self.stopping.is_set():
            # A stop cancels the jobs that run; the jobs of further tables would still begin.
            raise BatchStopped
        started, stages = time.monotonic(), Stages()
        describe(records.sparkSession, f"batch {batch_id}: merge {'.'.join(part.name)}")
        held.ops -= twice(
            partial(self._merge_usable, records, part, versions, floors, stages, aside=aside),
            part.name,
            self.warehouse,
            between=partial(self._forget, part.name),
            stopped=self.stopping.is_set,
        )
        seconds = time.monotonic() - started
        report_table(self.metrics, part, stages, seconds=seconds, now=self.clock())
        if seconds >= LONG_SECONDS and part.has_rows:
            report_last_merge(part.name, self.warehouse.facts.last_merge(part.name))

    def _merge_usable(
        self,
        batch: DataFrame,
        part: TablePart,
        versions: list[TableVersion],
        floors: Floors,
        stages: Stages,
        *,
        aside: PutAside | None,
    ) -> Counter[str]:
        """Merge a table without its refused records, which become dead letters; return their ops."""
        refused: Counter[str] = Counter()
        while True:
            try:
                self._merge(batch, part, versions, floors, stages)
            except (MalformedRecord, UnsupportedPartialImage) as fault:
                if aside is None:
                    raise
                batch = aside.without(batch, part.name, fault)
            else:
                return refused
            rest = contents(batch.where(of_table(part.name))).tables.get(part.name)
            refused += part.ops - rest.ops if rest is not None else part.ops
            if rest is None:
                return refused
            part = rest

    def _merge(
        self,
        batch: DataFrame,
        part: TablePart,
        versions: list[TableVersion],
        floors: Floors,
        stages: Stages,
    ) -> None:
        standing = self.milestones.integrity.checked(part.name)
        if (evolved := self.shapes.evolved(part, versions, standing)) is None:
            return
        shape, placed = evolved
        self.milestones.wrote(part.name)
        with stages.timed(MERGE):
            is_hard = self.rules.has_hard_deletes(part.name)
            for floor in floors_of(part, versions):
                self.warehouse.tables.truncate(shape, floor, is_hard=is_hard)
        if part.has_rows:
            given = batch, part, shape, placed, floors
            is_new = self.shapes.is_new(part.name)
            merged(
                self.warehouse.tables, *given, stages=stages, deleted=self.deleted, is_new=is_new
            )
            self.shapes.merged(shape)
            self.merged[part.name] += 1
        with stages.timed(MERGE):
            self.histories.add(batch, part, versions)

    def _begin_waits(
        self, faults: Mapping[Name, TableError], found: Contents, start: Offsets
    ) -> None:
        """Make the tables wait that could not be merged, and those that are not as the batch left them."""
        for name, fault in faults.items():
            self._wait(name, fault, found.tables[name].began(start), start=start)
            self._replacing(found.tables[name])
        for name, fault in self.milestones.settle(self.waits.waiting).items():
            self._wait(name, fault, {}, start=start)

    def _record(self, entries: list[Entry], *, is_whole: bool) -> None:
        """Record the batch in the ledger, with what all tables hold after it."""
        if not entries:
            return
        milestone = self.milestones.milestone(
            self.truncates.in_force(),
            is_whole=is_whole,
            ddl=self.ddl.history.done if self.ddl is not None else {},
            waiting=self.waits.all_waiting(),
        )
        entries[0] = replace(entries[0], milestone=self.milestones.text(milestone))
        self.warehouse.log.append(entries)
        self.milestones.stored(milestone)

    def _report(
        self,
        found: Contents,
        entries: Iterable[Entry],
        batch_id: int,
        stages: Stages,
        *,
        started: float,
        applied: float,
    ) -> None:
        reached = {(one.topic, one.partition): one.until_offset for one in entries}
        self.applied |= reached
        self.newest |= {d: max(ms, self.newest.get(d, 0)) for d, ms in found.newest.items()}
        self.metrics.applied(reached)
        report_batch(
            self.metrics,
            found,
            batch_id,
            stages,
            waiting=[name for name in found.tables if self.waits.waiting(name)],
            seconds=self.clock() - started,
            applied=applied,
        )

    def _wait(self, name: Name, fault: TableError, offsets: Offsets, *, start: Offsets) -> None:
        if self.ddl is not None:
            fault = self.ddl.advised(name, fault)
        before = self.waits.tables.get(name)
        cut = before.offsets if before is not None else {}
        # Changes that a reload applied before the stream came to them stay applied: in such a partition,
        # reading begins at the reload's cut.
        late = {at: until for at, until in cut.items() if until > start.get(at, 0)}
        self.waits.begin(name, fault, {**offsets, **late})
        # The commit at which the sink left the table stays known: the table may be restored to it.
        self._forget(name)
        level = logging.INFO if fault.ends_by_itself else logging.ERROR
        _log.log(level, "table waits table=%s.%s: %s", *name, fault)

    def _replacing(self, part: TablePart) -> None:
        """Record a batch's part of a replacement of a waiting table's rows; ask for a reload after the last."""
        held = self.waits.tables[part.name]
        replaced = Replacements(begun=dict(held.replacing))
        replaced.add(part.replaced)
        self.waits.replaces(part.name, replaced.open)
        has_ended = bool(part.replaced.ended) and not replaced.open
        if not has_ended or not table_error(held.waits_for).ends_by_itself:
            return
        if not any(one.name == part.name and one.replaced for one in self.waits.requests):
            database, table = part.name
            number, sink = uuid.uuid4().hex, self.waits.sink or ""
            self.waits.ask(
                Request(number=number, database=database, table=table, sink=sink, replaced=True)
            )

    def is_quiet(self) -> bool:
        """Whether no batch has looked for DDL for QUIET_SECONDS, so that DDL is due without a batch."""
        is_due = time.monotonic() - self.followed >= QUIET_SECONDS
        return is_due and self.ddl is not None and not self.gate.locked()

    def forget(self, name: Name) -> None:
        """Drop what is remembered of a table that was replaced."""
        self.milestones.integrity.forget(name)
        self._forget(name)

    def hold_against_ledger(self) -> None:
        """Make tables wait that are not as the sink left them; call it after DDL, before the first batch."""
        absent = self.ddl.absent() if self.ddl is not None else ()
        for name, fault in self.milestones.integrity.misfits(self.waits.tables, absent):
            self._wait(name, fault, {}, start=self.applied)

    def hold_without_ledger(self) -> None:
        """Make all tables wait: the ledger is gone, and Kafka may have removed records that they lack."""
        self.waits.refresh()
        for name in self.warehouse.tables.names():
            if not self.waits.waiting(name):
                self._wait(name, ledger_lost(name), {}, start={})

    def _forget(self, name: Name) -> None:
        self.shapes.forget(name)
        self.milestones.rebuilt(name)
        self.deleted.forget(name)
        self.histories.forget(name)
