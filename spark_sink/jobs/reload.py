"""Reloads of tables on request, beside the stream.

A table is rebuilt in a folder of its own, then put in place in one commit that also records the offsets up to
which Kafka is applied; after that the wait ends. Tables that are requested together are read together and built
in parallel. Each is put in place by itself, and the refusal of one table does not affect the others.

Some steps of a reload run between batches: batches wait for such a step, and the step waits for each batch. So
a reload has few such steps, for all its tables together.

Invariant: a reload interrupted at any point is repeated from the start, or found complete. Readers see the
existing table until its replacement is complete.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_sink.batch.apply import Applier
from spark_sink.batch.contents import Contents, contents, published_again
from spark_sink.batch.dead_letters import MOST, at_of, positions_of
from spark_sink.batch.drops_and_renames.moving import is_unplaced
from spark_sink.batch.table_merge import few, local
from spark_sink.errors import (
    ClaimLost,
    ForeignTable,
    HistoryReplaced,
    KafkaUnreachable,
    MalformedRecord,
    OwnRows,
    ReloadRefused,
    ReloadRequested,
    SinkError,
    TableError,
    TableReplaced,
    UnsupportedPartialImage,
    table_error,
)
from spark_sink.jobs.discard import discard_source
from spark_sink.jobs.load.origin import BEGIN
from spark_sink.jobs.load.state import Loads, LoadState, has_rows_of
from spark_sink.jobs.rebuild import OF_VERSIONS, Rebuild
from spark_sink.jobs.reload_command import repeated
from spark_sink.source.envelope import OF_NO_TABLE, of_table
from spark_sink.source.kafka import Topics
from spark_sink.source.positions import At as RecordAt
from spark_sink.source.positions import Offsets, within_sql
from spark_sink.source.schemas import topics_of
from spark_sink.spark.error_mapping import named
from spark_sink.spark.jobs import MANY, describe, in_parallel
from spark_sink.text.quoting import argument
from spark_sink.warehouse.common.conflicts import again
from spark_sink.warehouse.integrity import forget_foreign
from spark_sink.warehouse.ledger import Floor
from spark_sink.warehouse.moves import Event, pieces, pieces_of
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.spark_failures import FAILURES, is_shared, table_failed
from spark_sink.warehouse.waiting_tables import LOADED, RELOADING, Request, WaitState
from wire.table_version import VersionKey

_log = logging.getLogger(__name__)
_ROUNDS = 5
_ATTEMPTS: Final = 3
"""The number of processes that may end during a reload before it is refused."""
_SECONDS_FOR_TABLES: Final = 5.0
"""Seconds for which the batches wait; after that, only the current table is finished."""
_ERRORS: Final = (SinkError, PySparkException, Py4JError)
_KEEPS_CHANGING: Final = "the table's definition keeps changing"

_ONLY_NEW = (
    "Publish its existing rows again (python -m app snapshot start, with --replace), and once that is done, "
    "add --only-new, which keeps only rows written since"
)

At = tuple[str, int]
Done = TypeVar("Done")


class Reloader:
    """Carries out the reload requests in the log."""

    def __init__(
        self,
        *,
        applier: Applier,
        topics: Topics,
        loads: Loads | None = None,
        most: Callable[[], int] = lambda: MANY,
        broke_off: Callable[[], bool] = lambda: False,
    ) -> None:
        """`loads` are the rows that were loaded from sources; without it, no such request is carried out.

        `most` returns how many records may be kept at a time: as many as a batch may have. `broke_off` returns
        whether the last process of the sink was not stopped in order.
        """
        self._loads = loads
        self._store = applier.warehouse.tables
        self._stage = applier.warehouse.stage
        self._applier = applier
        self._waits = applier.waits
        self._topics = topics
        self._most = most
        self._broke_off = broke_off
        self._merged: Offsets | None = None
        """The offsets that the ledger had when the current reloads began."""
        self._versions: list[str] | None = None
        """The values of the schemas topic as last read for the current reloads."""

    def answer(self, *requests: Request) -> None:
        """Reload tables; record for each table that fails why it failed.

        A reload that was running when the last process ended may be the cause of that end. So such a reload is
        repeated by itself, after the others, and not more often than _ATTEMPTS times.
        """
        # Of two requests for a table, the later is answered after the first.
        first = {request.name: request for request in reversed(requests)}
        asked = list(reversed(first.values()))
        alone = sorted(filter(self._broken_off, asked), key=self._broken_off)
        self._answer([one for one in asked if one not in alone])
        for request in alone:
            self._answer([request])

    def _broken_off(self, request: Request) -> int:
        """How many processes of the sink ended during a reload, none of them in order."""
        held = self._waits.waiting(request.name)
        return held.begun if held is not None and self._broke_off() else 0

    def _answer(self, requests: Collection[Request]) -> None:
        self._merged = self._versions = None
        begun = self._between_batches(
            {request: partial(self._begun, request) for request in requests}
        )
        # Read again from now on: the tables wait, and further topics in which they get rows are recorded.
        self._versions = None
        rebuilds: list[Rebuild] = []
        for request, rebuilt in begun:
            with self._refusing(request):
                rebuilds.append(rebuilt())
        try:
            groups = self._groups(rebuilds)
        except _ERRORS as failure:
            self._refuse(rebuilds, failure)
            return
        for group in groups:
            self._carry_out(group)

    def _between_batches(self, acts: Mapping[Request, Callable[[], Done | None]]) -> list[Done]:
        """Run each request's act while no batch is applied; return the results other than None.

        The batches continue after _SECONDS_FOR_TABLES, and the rest is done after the next batch.
        """
        done: list[Done] = []
        left = list(acts.items())
        while left:
            with self._applier.gate:
                until = time.monotonic() + _SECONDS_FOR_TABLES
                while left:
                    request, act = left.pop(0)
                    try:
                        found = act()
                    except _ERRORS as failure:
                        self._refused(request, failure)
                    else:
                        done += [] if found is None else [found]
                    if time.monotonic() >= until:
                        break
        return done

    @contextmanager
    def _refusing(self, request: Request) -> Iterator[None]:
        """Record an error as the answer of a request."""
        try:
            yield
        except _ERRORS as failure:
            with self._applier.gate:
                self._refused(request, failure)

    def _refused(self, request: Request, failure: Exception) -> None:
        fault = self._fault(request.name, failure)
        if (ddl := self._applier.ddl) is not None and isinstance(fault, TableError):
            fault = ddl.advised(request.name, fault)
        held = self._standing(request)
        if (advice := repeated(fault.advice, request, held)) != fault.advice:
            fault = type(fault)(fault.where, advice=advice)
        _log.error("table not reloaded table=%s.%s: %s", *request.name, fault)
        self._waits.refuse(held, fault, request)

    def _refuse(self, rebuilds: Iterable[Rebuild], fault: Exception) -> None:
        with self._applier.gate:
            for rebuild in rebuilds:
                self._refused(rebuild.request, fault)

    def _begun(self, request: Request) -> tuple[Request, Callable[[], Rebuild]] | None:
        """Begin a reload; return what makes the rebuild of its table. None if the reload is done already."""
        if request.replaced and self._has_ended(request):
            return None
        if request.discard and not request.unknown:
            self._discard(request)
            return None
        held = self._waiting(request)
        if (times := self._broken_off(request)) >= _ATTEMPTS:
            raise ReloadRefused(
                f"the sink has ended {times} times amid the reload of {'.'.join(request.name)}",
                advice="Find in its log why it ended; if it lacked memory, raise driver_memory. Then run the "
                "reload again",
            )
        kept = self._cut(request)
        put = kept[1] if kept is not None and kept[0] == held.since_ms else None
        if put is not None and self._ended(request, put):
            _log.info("table reloaded table=%s.%s", *request.name)
            return None
        # Both are read together, so that no change is between them.
        held, reached = self._waits.tables[request.name], self._position()
        held = self._waits.reloading(held, broken_off=self._broken_off(request))
        return request, partial(self._rebuild, held, request, put, reached)

    def _discard(self, request: Request) -> None:
        """Remove a table that the source has dropped, which ends its wait; or rows of one source table."""
        if request.source:
            discard_source(self._applier, request)
            held = self._standing(request)
            self._waits.loaded(held, held.offsets, request)
            return
        name, ddl = request.name, self._applier.ddl
        if ddl is None:
            raise ReloadRefused(f"no DDL is followed that has dropped {'.'.join(name)}")
        ddl.give_up(name)
        self._applier.truncates.forget()
        for tables in (self._stage, self._applier.warehouse.moving):
            tables.drop(*name)
        self._applier.deleted.discard(name)
        self._applier.metrics.forget([name])
        self._end(request, self._standing(request), {})
        _log.info("table removed, which the source had dropped table=%s.%s", *name)

    def _fault(self, name: Name, failure: Exception) -> SinkError:
        """The error of the table, or a common error if no table could be worked on."""
        if isinstance(failure, SinkError):
            return failure
        try:
            return table_failed(name, failure, self._applier.warehouse)
        except _ERRORS:
            return named(failure)

    def _has_ended(self, request: Request) -> bool:
        """Whether a table whose rows have all come no longer waits, because an operator has reloaded it."""
        if self._waits.waiting(request.name) is not None:
            return False
        held = self._standing(request)
        self._waits.loaded(held, held.offsets, request)
        return True

    def _cut(self, request: Request) -> tuple[int, dict[At, int]] | None:
        """See Tables.cut; None if the table cannot be read, and need not be."""
        try:
            return self._store.cut(*request.name)
        except FAILURES as failure:
            if is_shared(failure) or not (request.from_beginning or request.load):
                raise
            return None

    def _standing(self, request: Request) -> WaitState:
        held = self._waits.tables.get(request.name)
        return held or WaitState(
            kind=LOADED, database=request.database, table=request.table, since_ms=0, at_ms=0
        )

    def _waiting(self, request: Request) -> WaitState:
        """The table's wait; with `from_beginning`, begin one if the table does not wait.

        Raise ReloadRefused.
        """
        if request.unknown:
            raise ReloadRefused(
                f"the command has asked for {', '.join(request.unknown)}, which this version does not know",
                advice="Update the sink, or use the command of its own version",
            )
        if request.from_beginning:
            self._check_beginning(request)
        # A load that is gone must not make the table wait.
        starts = request.from_beginning or self._load(request) is not None
        held = self._waits.waiting(request.name)
        if held is None:
            if not starts:
                raise ReloadRefused(
                    f"{'.'.join(request.name)} does not wait",
                    advice="To read its topics again from their beginning, add --from-beginning",
                )
            self._waits.begin(request.name, ReloadRequested(), self._cut_before(request))
            self._applier.forget(request.name)
            held = self._waits.tables[request.name]
        # A reload without these options begins with the table's own rows.
        if not starts and not request.only_new:
            self._check_own_rows(held)
        if request.unknown_as_null:
            self._check_gone(request)
        return held

    def _check_own_rows(self, held: WaitState) -> None:
        """Raise the error for which a table waits if a reload cannot begin with the table's own rows."""
        error = table_error(held.waits_for)
        # After a refusal, the reason belongs to another error.
        where = ".".join(held.name) if held.cause else held.reason
        match error.own_rows:
            case OwnRows.MOVED | OwnRows.UNDATED:
                raise error(where, advice=held.action)
            case OwnRows.UNPLACED:
                if self._applier.warehouse.moving.shape(*held.name) is None:
                    raise error(where, advice=held.action)
            case OwnRows.SUSPECT | OwnRows.REPLACED:
                self._check_put_back(held)

    def _check_gone(self, request: Request) -> None:
        """Raise ReloadRefused if images that are still to come would not match images with NULL."""
        shape, ddl = self._store.shape(*request.name), self._applier.ddl
        is_gone = ddl is not None and request.name in ddl.absent()
        if shape is not None and not shape.keyed and not is_gone:
            raise ReloadRefused(
                f"{'.'.join(request.name)} has no key, so later changes would not match its rows",
                advice="Run the commands that status prints: the source has the values",
            )

    def _check_put_back(self, held: WaitState) -> None:
        """Raise TableReplaced or ColumnsChanged unless the table is again as the sink left it."""
        # A replaced history is not refused here: the table waits because of it afterwards.
        with suppress(HistoryReplaced):
            found = self._applier.milestones.integrity.checked(held.name)
            # A table that could not be made has no rows.
            if found is None and table_error(held.waits_for).own_rows is OwnRows.REPLACED:
                raise TableReplaced(held.reason, advice=again(held.name))

    def _cut_before(self, request: Request) -> Offsets:
        """The offsets up to which an earlier reload has applied, if the stream has not reached them yet."""
        held, reached = self._waits.tables.get(request.name), self._position()
        cut = held.offsets if held is not None else {}
        return {at: until for at, until in cut.items() if until > reached.get(at, 0)}

    def _check_beginning(self, request: Request) -> None:
        if self._has_loaded_rows(request.name):
            raise ReloadRefused(
                f"rows of {'.'.join(request.name)} were loaded from the source, and are not in its topics",
                advice="Load the table again: see docs/sink/bulk-load.md",
            )
        earliest, _ = self._ranges(self._names(request))
        if not earliest:
            raise ReloadRefused(f"no topic {', '.join(request.topics) or 'matches'}")
        held = self._waits.waiting(request.name)
        match table_error(held.waits_for if held is not None else "").own_rows:
            case OwnRows.KEPT:
                advice = "Reload without --from-beginning, which keeps the rows that were applied"
            case OwnRows.MOVED | OwnRows.UNPLACED:
                advice = (
                    "Publish its existing rows again (python -m app snapshot start, with --replace), and once "
                    "that is done, reload with --only-new instead"
                )
            case _:
                advice = "Load the table (docs/sink/bulk-load.md)"
        for (topic, partition), first in sorted(earliest.items()):
            if first > 0:
                raise ReloadRefused(
                    f"topic {topic}, partition {partition} begins at offset {first}: Kafka has removed "
                    "the earlier records",
                    advice=f"{advice}{self._by_own_topics(request, earliest)}",
                )

    def _by_own_topics(self, request: Request, earliest: Offsets) -> str:
        """The advice to read only the topics that are known to have rows of a table; empty if that is no help.

        Whether mapped tables have filled it from other topics is known to the operator only.
        """
        held = self._waits.waiting(request.name)
        own = {topic for topic, _ in held.offsets} if held is not None else set[str]()
        own |= topics_of(self._known_versions(), {request.name}) or set()
        if request.topics or not own or any(earliest[at] > 0 for at in earliest if at[0] in own):
            return ""
        named = " ".join(f"--topic {topic}" for topic in sorted(own))
        return (
            f"; or, if its rows are in {', '.join(sorted(own))} alone, run: python -m spark_sink reload "
            f"{argument(request.name)} --from-beginning {named}"
        )

    def _has_loaded_rows(self, name: Name) -> bool:
        placed = self._loads.placed() if self._loads is not None else []
        if not placed:
            return False
        floors = self._applier.truncates.raised().get(name, {})
        return has_rows_of(name, placed, pieces(self._events()), floors)

    def _events(self) -> list[Event]:
        ddl = self._applier.ddl
        return list(ddl.history.events.values()) if ddl is not None else []

    def _ranges(self, names: Collection[str]) -> tuple[Offsets, Offsets]:
        """(earliest, latest committed) offsets of topics of this installation; of all if none is named."""
        earliest, latest = self._topics.ranges(names)
        if (foreign := self._applier.foreign) is None:
            return earliest, latest
        strange = foreign.installation.judge(
            {topic for (topic, _), end in latest.items() if end > 0}
        )
        return (
            {at: offset for at, offset in earliest.items() if at[0] not in strange},
            {at: offset for at, offset in latest.items() if at[0] not in strange},
        )

    def _names(self, request: Request) -> Collection[str]:
        """The topics that a request concerns; empty if it concerns all."""
        if request.topics:
            return request.topics
        held = self._waits.waiting(request.name)
        names = {topic for topic, _ in held.offsets} if held else set()
        if request.from_beginning:
            own = self._topics_of(request.name)
            if not own:
                # Topics without a change since the table waits have rows of it, too.
                return ()
            names |= own
        return sorted(names)

    def _topics_of(self, name: Name) -> set[str] | None:
        """The topics of all rows of a table, also under its earlier names; None if they are not known."""
        shape = None
        try:
            shape = self._store.shape(*name)
        except ForeignTable:
            pass
        except FAILURES as failure:
            if is_shared(failure):
                raise
            return None
        # It is not known whether mapped tables filled a table that is gone.
        is_gone = shape is None and name in self._applier.milestones.integrity.left
        if is_gone or (shape is not None and shape.apart):
            return None
        sources = {source for _, source in pieces_of(pieces(self._events()), [name])}
        return topics_of(self._known_versions(), {name, *sources})

    def _known_versions(self) -> list[str]:
        """The values of the schemas topic, read once for all requests of one look."""
        if self._versions is None:
            self._versions = list(self._applier.book.read())
        return self._versions

    def _ended(self, request: Request, put: dict[At, int]) -> bool:
        """End the wait if its reload is already in place with no change since; return whether it did."""
        held, reached = self._waits.tables[request.name], self._position()
        if any(reached.get(at, 0) > put.get(at, 0) for at in held.offsets):
            return False
        self._end(request, held, put)
        return True

    def _end(self, request: Request, held: WaitState, cut: dict[At, int]) -> None:
        # The SELECTs have seen all earlier changes, but the stream may still come to some of these: also under
        # an earlier name of the table, in a topic that is not the load's.
        self._applier.truncates.raised(self._loaded_floors(request))
        self._waits.loaded(held, cut, request)
        self._applier.forget(request.name)

    def _position(self) -> dict[At, int]:
        if self._merged is None:
            self._merged = self._applier.warehouse.log.applied()
        # Batches may have merged more since; topics that are excluded stay as the ledger has them.
        return {**self._merged, **self._applier.applied}

    def _rebuild(
        self, held: WaitState, request: Request, put: dict[At, int] | None, reached: Offsets
    ) -> Rebuild:
        """The rebuild of a table, with the offsets at which the reading of its records begins.

        `put` are the offsets of a rebuild that is already in place for this wait.
        """
        load = self._load(request) if put is None else None
        rebuild = Rebuild(
            name=request.name,
            request=request,
            applier=self._applier,
            stage=self._stage,
            load=load,
            loaded=self._loads.rows(load) if load is not None and self._loads is not None else None,
            is_fresh=put is None and (request.from_beginning or request.only_new),
        )
        rebuild.start = self._start(held, request, put, load, reached)
        if request.skip_unusable:
            rebuild.unread = held.offsets.keys() - rebuild.start.keys()
        if load is not None:
            records = self._unseen(held, load.offsets)
            unseen = self._applier.envelopes(records, tables=[request.name])
            unseen = unseen.where(of_table(request.name))
            rebuild.check_whole(self._store, unseen)
            rebuild.keep_history(unseen, {**reached, **load.offsets})
        return rebuild

    def _groups(self, rebuilds: Collection[Rebuild]) -> list[list[Rebuild]]:
        """The groups of tables that are read together: all records of a group can be kept."""
        if len(rebuilds) < 2:
            return [[one] for one in rebuilds]
        groups: list[list[Rebuild]] = []
        most, end = self._most(), self._ends(first_of(one.start for one in rebuilds))
        for rebuild in rebuilds:
            for group in groups:
                if size(first_of(one.start for one in (*group, rebuild)), end) <= most:
                    group.append(rebuild)
                    break
            else:
                groups.append([rebuild])
        return groups

    def _carry_out(self, rebuilds: list[Rebuild]) -> None:
        """Read the records of tables, build these, and put each in place."""
        left = rebuilds
        for _ in range(_ROUNDS):
            try:
                left, reading = self._read(left)
            except _ERRORS as failure:
                # One of them may have been refused before.
                left = [
                    one
                    for one in left
                    if self._waits.tables[one.name].answered != one.request.number
                ]
                if len(left) == 1 or isinstance(failure, KafkaUnreachable):
                    self._refuse(left, failure)
                    return
                # The records of one table must not affect the others.
                for one in left:
                    self._carry_out([one])
                return
            if not left:
                return
            build = partial(self._built, reading)
            session, threads = reading.rows.sparkSession, self._applier.threads
            in_parallel(build, left, session=session, threads=threads)
            # A table with a version that is new since is built again: changes before the version may be in
            # other partitions.
            left = self._between_batches(
                {
                    one.request: partial(self._handed_over, one)
                    for one in left
                    if one.end is not None
                }
            )
            if not left:
                return
        self._refuse(left, ReloadRefused(_KEEPS_CHANGING, advice="Try again later"))

    def _read(self, rebuilds: list[Rebuild]) -> tuple[list[Rebuild], Reading]:
        """The tables that can still be built, and a reading of all the records that they need.

        No version is read without the changes that precede it. The ends of partitions are not fetched at one
        instant, so the first fetch may see the later of two transactions without the earlier. The records that
        are committed before the second fetch include all that precede the records seen by the first.
        """
        for _ in range(_ROUNDS):
            start = first_of(one.start for one in rebuilds)
            first, end = self._ends(start), self._ends(start)
            rebuilds = self._between_batches(
                {one.request: partial(self._ready, one) for one in rebuilds}
            )
            reading = Reading(
                applier=self._applier,
                topics=self._topics,
                starts={one.name: one.start for one in rebuilds},
                end=end,
                most=self._most(),
            )
            if rebuilds:
                reading.read()
            if not rebuilds or first == end or not reading.has_versions_since(first):
                return rebuilds, reading
        raise ReloadRefused(_KEEPS_CHANGING, advice="Try again later")

    def _ready(self, rebuild: Rebuild) -> Rebuild:
        """A table that can be built: DDL is followed, and the markers of deleted rows are in the table."""
        # The records may be past DDL to which no batch has come.
        self._applier.follow_ddl({})
        self._check_reloading(self._waits.tables[rebuild.name])
        try:
            self._applier.deleted.put_back(rebuild.name)
        except FAILURES as failure:
            if is_shared(failure) or not (rebuild.request.from_beginning or rebuild.load):
                raise
        return rebuild

    def _handed_over(self, rebuild: Rebuild) -> Rebuild | None:
        """Put a built table in place and end its wait; return the rebuild if it must be built again."""
        request, load = rebuild.request, rebuild.load
        held, reached = self._waits.tables[request.name], self._position()
        self._check_reloading(held)
        end = dict(rebuild.end or {})
        since = {
            at: end.get(at, held.offsets.get(at, 0)) for at in held.offsets.keys() - rebuild.unread
        }
        until = {at: max(offset, reached.get(at, 0)) for at, offset in since.items()}
        if until != since:
            records = self._topics.read(since, until)
            rows = self._applier.envelopes(records, tables=[request.name])
            if not request.skip_unusable and not rows.where(OF_NO_TABLE).isEmpty():
                return rebuild
            rows = rows.where(of_table(request.name))
            part = rebuild.part(rows)
            if part is not None and (part.fault is not None or not part.versions <= rebuild.seen):
                return rebuild
            rebuild.apply(rows, {**reached, **until}, part)
        # DDL may have been followed since the table was built.
        rebuild.alter()
        if request.replaced and (again := rebuild.replaced.open):
            # A second replacement has begun, whose end will ask again.
            raise published_again(request.name, again)
        end |= until
        known = load.offsets if load is not None else {}
        own = rebuild.places | held.offsets.keys() | known.keys()
        self._put(rebuild, held, {at: end[at] for at in own - rebuild.unread})
        _log.info("table reloaded table=%s.%s", *request.name)
        return None

    def _check_reloading(self, held: WaitState) -> None:
        """Raise ReloadRefused if the table was renamed or dropped since the reload began."""
        if held.kind != RELOADING:
            raise ReloadRefused(
                f"{'.'.join(held.name)} was renamed or dropped meanwhile",
                advice=held.action or "Run the reload again",
            )

    def _put(self, rebuild: Rebuild, held: WaitState, cut: dict[At, int]) -> None:
        """Put the new table in place, then end the wait."""
        request, load = rebuild.request, rebuild.load
        shape = self._stage.shape(*request.name)
        ddl = self._applier.ddl
        # Without rows, a table is removed if it was dropped or renamed, or if all that it ever had is skipped.
        is_emptied = (ddl is not None and ddl.concerns(request.name)) or (
            bool(rebuild.omitted or rebuild.unread or rebuild.aside or rebuild.passed_by)
            and self._store.shape(*request.name) is None
        )
        if shape is None and is_emptied:
            self._store.drop(*request.name)
            self._end(request, held, cut)
            return
        if shape is None:
            raise ReloadRefused(
                f"the topics have no row of {'.'.join(request.name)}",
                advice="Write the name as status prints it",
            )
        if load is not None and self._loads is not None:
            self._loads.keep_placed(load)
        renewed = request.from_beginning or load is not None
        self._replace(shape, cut=(held.since_ms, cut), is_whole=renewed)
        if renewed:
            self._applier.deleted.discard(request.name)
            forget_foreign(self._applier.warehouse.notes, request.name)
        self._end(request, held, cut)
        self._applier.warehouse.moving.drop(*request.name)
        renewed = renewed or held.waits_for == HistoryReplaced.__name__
        self._applier.milestones.integrity.took(request.name, has_history=renewed)
        self._stage.drop(*request.name)

    def _replace(self, shape: Shape, *, cut: tuple[int, Offsets], is_whole: bool) -> None:
        """Replace the table by the rebuilt one; `is_whole` if the rebuilt table has nothing of the old one.

        With `is_whole`, a table that cannot be replaced, for example with a damaged log, is removed first.
        """
        rows, name = self._stage.rows(shape), (shape.database, shape.table)
        try:
            self._store.replace(shape, rows, cut=cut)
        except FAILURES as failure:
            if not is_whole or is_shared(failure):
                raise
            # Make sure that the rows that take its place exist, and can be read.
            rows.write.format("noop").mode("overwrite").save()
            _log.warning("table removed, as it cannot be replaced table=%s.%s: %s", *name, failure)
            self._store.drop(*name)
            self._store.replace(shape, self._stage.rows(shape), cut=cut)

    def _built(self, reading: Reading, rebuild: Rebuild) -> None:
        """Build a table in the stage; it has no `end` if that failed."""
        rebuild.end = None
        with self._refusing(rebuild.request):
            self._build(reading, rebuild)
            rebuild.end = {at: reading.end[at] for at in rebuild.start}

    def _build(self, reading: Reading, rebuild: Rebuild) -> None:
        until = {**self._position(), **reading.end}
        rows, keys = reading.of(rebuild.name), partial(reading.records, rebuild.name)
        # With a load, the contents are determined again: records that the load has seen do not matter.
        is_known = rebuild.load is None
        part = reading.found.tables.get(rebuild.name) if is_known else rebuild.part(rows)
        if reading.found.nameless:
            own = {*self._waits.tables[rebuild.name].offsets, *(part.places if part else ())}
            rebuild.pass_by(reading.nameless(rebuild.name, {topic for topic, _ in own}))
        rebuild.sort_out(rows, keys, part)
        rebuild.keep_history(rows, until)
        held = self._waits.tables[rebuild.name]
        tables = self._applier.warehouse.moving if is_unplaced(held) else self._store
        shape: Shape | None = None if rebuild.is_fresh else tables.shape(*rebuild.name)
        # Start over if records must be skipped.
        while True:
            if rebuild.load is not None:
                rebuild.begin_loaded()
            else:
                rebuild.begin(shape, tables.rows(shape) if shape is not None else None)
            try:
                rebuild.apply(rows, until, part)
            except (MalformedRecord, ClaimLost, UnsupportedPartialImage) as fault:
                places = positions_of(fault)
                if not places or any(at in rebuild.aside for at in places):
                    raise
                rebuild.put_aside(rows, keys, places, fault)
            except OF_VERSIONS as fault:
                if not rebuild.omit(rows, fault):
                    raise
            else:
                rebuild.alter()
                return

    def _load(self, request: Request) -> LoadState | None:
        """What a request's load has read; None if the request names no load. Raise ReloadRefused."""
        if not request.load:
            return None
        state = self._loads.of(request.name) if self._loads is not None else None
        if state is None or state.number != request.load:
            raise ReloadRefused("its load is gone", advice="Run the load again")
        return state

    def _loaded_floors(self, request: Request) -> list[Floor]:
        """The positions of the source tables of a request's load, as truncates: no earlier change counts."""
        placed = self._loads.placed() if request.load and self._loads is not None else []
        return [
            Floor(
                database=request.database,
                table=request.table,
                source=one.source(state.name),
                epoch=state.lows[one.destination].epoch,
                seq=state.lows[one.destination].seq,
                ts_ms=state.lows[one.destination].written_ms,
            )
            for state in placed
            if state.number == request.load
            for one in state.sources
        ]

    def _start(
        self,
        held: WaitState,
        request: Request,
        put: dict[At, int] | None,
        load: LoadState | None,
        reached: Offsets,
    ) -> dict[At, int]:
        names = self._names(request)
        earliest, _ = self._ranges(names)
        if request.from_beginning and put is None:
            return dict.fromkeys(earliest, 0)
        # A snapshot may be in partitions that had no change since the table waits, and that no batch has read.
        own = earliest if names else {}
        offsets = {at: max(first, reached.get(at, first)) for at, first in own.items()}
        offsets |= {**held.offsets, **(put or {})}
        if load is not None:
            # A partition or topic that is new since the load began has no change from before.
            offsets = {**dict.fromkeys(earliest, 0), **load.offsets}
        for at, offset in sorted(offsets.items()):
            where, first = f"topic {at[0]}, partition {at[1]}", earliest.get(at)
            if first is None and request.skip_unusable:
                del offsets[at]
                _log.warning(
                    "changes skipped, as their topic is not read table=%s.%s: %s from offset %d on",
                    *request.name,
                    where,
                    offset,
                )
            elif first is not None and request.only_new:
                offsets[at] = max(first, offset)
            elif first is None:
                raise ReloadRefused(
                    f"{where} is not among those that are read, and has changes from offset {offset} on",
                    advice="If it was excluded or deleted on purpose, add --skip-unusable, which keeps the "
                    "table without these changes",
                )
            elif first > offset:
                raise ReloadRefused(
                    f"{where} no longer holds the changes from offset {offset} on; it begins at {first}",
                    advice=_ONLY_NEW if load is None else BEGIN,
                )
        return offsets

    def _unseen(self, held: WaitState, until: Offsets) -> DataFrame:
        """The records before these offsets that the table does not have, as far as Kafka has them."""
        earliest, _ = self._topics.ranges({topic for topic, _ in until})
        reached = self._position()
        since = {
            at: max(earliest.get(at, 0), min(reached.get(at, 0), held.offsets.get(at, end)))
            for at, end in until.items()
        }
        return self._topics.read(since, until)

    def _ends(self, start: Offsets) -> dict[At, int]:
        topics = sorted({topic for topic, _ in start})
        latest: Any = self._topics.ranges(topics)[1] if topics else {}
        return {at: max(offset, latest.get(at, offset)) for at, offset in start.items()}


_VERSION: Final = ("destination", "source_database", "source_table", "version")


@dataclass(slots=True, kw_only=True)
class Reading:
    """The records of some tables, each from its own offsets on, up to `end`.

    A reload looks at its records several times, and each time would read and parse all records of the
    table's topics again. So the records of all these tables are read and parsed once, and kept on the
    executors, like the records of a batch.

    Invariant: a reading that is kept has no more records than a batch may have; a table with more is read
    alone, and its records are read as often as they are needed.
    """

    applier: Applier
    topics: Topics
    starts: Mapping[Name, Offsets]
    """The offsets at which each table's records begin; in other partitions it has none."""
    end: Offsets
    most: int
    """The most records that are kept; if there are more, none is kept."""
    rows: DataFrame = field(init=False)
    """All records, as envelopes with the tables to which they belong now."""
    found: Contents = field(init=False)
    """The contents of the records, by table."""

    def read(self) -> None:
        """Read the records."""
        start = first_of(self.starts.values())
        rows = self._envelopes(self.topics.read(start, self.end))
        is_kept = size(start, self.end) <= self.most
        self.rows = rows.localCheckpoint(eager=False) if is_kept else rows
        describe(rows.sparkSession, f"reload: read {len(self.starts)} tables")
        self.found = contents(self.rows)
        if is_kept:
            number = sum(part.ops.total() for part in self.found.tables.values())
            self.applier.keep_pace(self.rows, number)

    def of(self, name: Name) -> DataFrame:
        """Return the records of one table, as envelopes."""
        rows, part = self.rows.where(of_table(name)), self.found.tables.get(name)
        if part is None:
            return rows.limit(0)
        at_hand = part.fault is None and few(rows=part.ops.total(), size=part.size)
        return local(rows) if at_hand else rows

    def nameless(self, name: Name, topics: Collection[str]) -> dict[RecordAt, str]:
        """Return the records of these topics, in the range of a table, that name no table, with the reasons."""
        start = {at: first for at, first in self.starts[name].items() if at[0] in topics}
        within = within_sql(start, {at: self.end[at] for at in start if at in self.end})
        found = self.rows.where(f"{OF_NO_TABLE} AND {within}").limit(MOST).collect()
        return {at_of(row): row.reason for row in found}

    def records(self, name: Name) -> DataFrame:
        """Return Kafka's records in the range of one table."""
        return self.topics.read(self.starts[name], self.end)

    def has_versions_since(self, first: Offsets) -> bool:
        """Whether a table has records of a version at or after these offsets, and none before them."""
        late = contents(self._envelopes(self.topics.read(first, self.end))).tables.values()
        wanted = {(part.name, key) for part in late if not part.fault for key in part.versions}
        if not wanted:
            return False
        before = self.rows.where(within_sql({}, first)).select("database", "table", *_VERSION)
        known = {((row[0], row[1]), VersionKey(*row[2:])) for row in before.distinct().collect()}
        return not wanted <= known

    def _envelopes(self, records: DataFrame) -> DataFrame:
        rows = self.applier.envelopes(records, tables=list(self.starts))
        return rows.where(" OR ".join(map(self._of, self.starts)))

    def _of(self, name: Name) -> str:
        """The condition that a record is of a table, or of none, and in the table's range."""
        start = self.starts[name]
        until = {at: end for at, end in self.end.items() if at in start}
        return f"(({OF_NO_TABLE} OR {of_table(name)}) AND {within_sql(start, until)})"


def first_of(starts: Iterable[Offsets]) -> dict[tuple[str, int], int]:
    """Return the lowest offset of each partition among these."""
    found: dict[tuple[str, int], int] = {}
    for start in starts:
        for at, offset in start.items():
            found[at] = min(offset, found.get(at, offset))
    return found


def size(start: Offsets, end: Offsets) -> int:
    """Return the number of offsets in a range."""
    return sum(max(0, end.get(at, first) - first) for at, first in start.items())
