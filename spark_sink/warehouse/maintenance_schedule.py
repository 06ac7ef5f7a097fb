"""Table maintenance beside the writer: compaction, removal of unused files, purge of deletion markers.

Invariant: maintenance never changes the rows that readers see. A marker of a deleted row is purged only when
no change older than its delete can still arrive: the delete was committed more than `purge_deleted_hours`
before the time up to which the warehouse is complete, and, if several sources fill the table, before a commit
time up to which all changes of each are applied. The rows alone do not name all sources: those of a source may
all have been replaced by rows of other sources. A commit time of a source is certain only once everything that
Kafka held well after it was noted is applied: a source publishes in commit order, but its partitions are
applied unevenly, and a transaction that was open in one of them may have hidden the records after it. If Kafka
is read again from an earlier offset, the delete is read again after the change, in the same partition. A
waiting table is not purged: its rows do not reflect the changes that wait.
After a step of the clock, neither markers nor files are removed until the retention time has passed: by that
step, what readers still use would seem older.
A table that cannot be maintained, for whatever reason, stops no other table and no batch: the reason is kept in
a note, for the status, and the next round tries again. The same applies if the process has ended during a
table's maintenance.
All batches wait for the maintenance of a table only after its commits have lost to theirs, for at most
`hold_seconds` at a time, and for at most a fourth of the time.
Unused files include files that no commit names yet, and a batch reads the log as of its start. So no files or
log entries are removed while a batch has been running for half the retention time or longer.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from spark_sink.errors import MaintenanceIncomplete, SinkError
from spark_sink.settings.model import Maintenance as Plan
from spark_sink.spark.error_mapping import named
from spark_sink.text.quoting import MAINTAINED, SOURCES, UNMAINTAINED
from spark_sink.warehouse.milestone_recorder import MilestoneRecorder
from spark_sink.warehouse.notes import Notes, json_of
from spark_sink.warehouse.protocol import CommitConflict, Name, OutOfTime, Upkeep, Warehouse
from spark_sink.warehouse.shape import Shape
from wire.text import printed

_log = logging.getLogger(__name__)
_LONGEST_TRANSACTION_SECONDS: Final = 900.0
"""Kafka's limit (`transaction.max.timeout.ms`): a transaction open now has ended after that time."""


@dataclass(slots=True, kw_only=True)
class Sources:
    """The sources of the warehouse's tables."""

    notes: Notes
    of_table: Callable[[Name], Collection[str]]
    """Returns the sources that have published a version of a table to the schemas topic."""
    newest: Mapping[str, int]
    """The newest commit time (ms) of each source that batches of this process have applied."""
    note: str = SOURCES
    """The name of the note that keeps the times."""
    _certain: dict[str, int] = field(default_factory=dict)
    _noted: dict[str, int] = field(default_factory=dict)
    _noted_at: float = 0.0
    _was_read: bool = False

    def settle(self, now: float, complete_until: float) -> None:
        """Make the noted times certain once `complete_until` is well past them, then note the new ones."""
        self._read()
        if self._noted and complete_until < self._noted_at + _LONGEST_TRANSACTION_SECONDS:
            return
        self._certain = {
            name: max(self._certain.get(name, 0), self._noted.get(name, 0))
            for name in {*self._certain, *self._noted}
        }
        self._noted, self._noted_at = dict(self.newest), now

    def all_past(self, name: Name, in_rows: Collection[str]) -> float:
        """The commit time (ms) before which no source of the table can send a change.

        Infinite with a single source; 0 if one of several was not seen yet.
        """
        found = {*in_rows, *self.of_table(name)}
        self._read()
        if len(found) < 2:
            return float("inf")
        return min(self._certain.get(source, 0) for source in found)

    def keep(self) -> None:
        """Store the times for the next process."""
        stored = {
            "version": 1,
            "certain": self._certain,
            "noted": self._noted,
            "noted_at": self._noted_at,
        }
        self.notes.write(self.note, json.dumps(stored))

    def _read(self) -> None:
        if self._was_read:
            return
        self._was_read = True
        # If the text is incomplete, markers stay a little longer.
        stored = json_of(self.notes, self.note, {})
        if stored.get("version") == 1:
            self._certain, self._noted = stored["certain"], stored["noted"]
            self._noted_at = stored["noted_at"]


_STEP: float = 30.0
"""Seconds above which a difference to the monotonic clock is a step, and not a correction of its rate."""


@dataclass(slots=True)
class SteadyClock:
    """Compares the wall clock with the monotonic one each time that it is asked.

    Files and markers have times of the wall clock. If it steps forward by a day, all of them seem a day
    older, and readers may still need them.
    """

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    _ahead: float | None = None
    _stepped: float = float("-inf")

    def seconds(self) -> float:
        """The seconds since the last call that has seen a step; infinite if none has."""
        now = self.monotonic()
        ahead = self.wall() - now
        if self._ahead is not None and abs(ahead - self._ahead) > _STEP:
            self._stepped = now
        self._ahead = ahead
        return now - self._stepped


_TIMES_FOR_BATCHES: Final = 3
"""How many times as long as they have waited for a table's maintenance, batches run before they wait again."""
_SECONDS_OF_A_TURN: Final = 600.0
"""How long a table's maintenance continues in this way; then it is the turn of other work."""


@dataclass(slots=True, kw_only=True)
class Maintenance:
    """Selects the tables that are due, and maintains them."""

    warehouse: Warehouse[Any]
    plan: Plan
    complete_until: Callable[[], float]
    """Returns the time (Unix seconds) up to which all records that Kafka held are applied."""
    busy_since: Callable[[], float | None]
    """Returns the start of the running batch by the monotonic clock, in seconds; None without one."""
    busy_elsewhere: Callable[[], float] = lambda: 0.0
    """Returns for how many seconds a batch of another sink of this warehouse has been running."""
    complete_elsewhere: Callable[[], float] = lambda: float("inf")
    """Returns the time (Unix seconds) up to which the warehouse's other sinks have applied their topics."""
    sources: Sources
    """The sources of each table, and the commit time up to which each is applied."""
    steady: SteadyClock = field(default_factory=SteadyClock)
    """Sees steps of the wall clock."""
    waits: Callable[[Name], object] = lambda _: None
    """Returns a true value for a table that batches skip."""
    note: str = MAINTAINED
    """The name of the note of what this sink has maintained."""
    fault_note: str = UNMAINTAINED
    """The name of the note of the tables that this sink could not maintain."""
    report: Callable[[int], None] = lambda _: None
    """Takes the number of tables that could not be maintained."""
    milestones: MilestoneRecorder | None = None
    """Records the versions of tables that were rewritten."""
    gate: threading.Lock = field(default_factory=threading.Lock)
    """Held while a batch is applied."""
    broke_off: Callable[[], bool] = lambda: False
    """Returns whether the last process of this sink was not stopped in order."""
    wait: Callable[[float], object] = time.sleep
    merged: Counter[Name] = field(default_factory=Counter)
    """The number of batches of this process with rows of a table since its last maintenance."""
    _before: dict[Name, int] = field(default_factory=dict)
    _done: dict[str, int] | None = None
    """The version of each table after its last maintenance; its complement (~) once the next one has begun."""
    _running: Name | None = None
    _is_ending: bool = False

    def end(self) -> None:
        """Note that the sink ends in order: the maintenance that it cuts short is no fault of the table."""
        self._is_ending = True
        if self._running is not None:
            self._not_begun(self._running)

    def due(self) -> Name | None:
        """Return the table with the most batches since its last maintenance, by any process.

        None if there are not enough for any. Were it the first one with enough, the others would never have a
        turn where maintenance takes longer than the batches until the first ones are due again.
        """
        if self.plan.every == 0:
            return None
        if self._is_steady():
            self.sources.settle(time.time(), self.complete_until())
        found: Counter[Name] = Counter()
        for name, number in list(self.merged.items()):
            try:
                found[name] = number + self._unmaintained(name)
            except Exception as failure:
                self._before[name] = 0
                self._failed(name, failure)
        most = found.most_common(1)
        return most[0][0] if most and most[0][1] >= self.plan.every else None

    def maintain(self, name: Name) -> str:
        """Purge markers, compact files, and remove old files and log entries. Safe beside the writer.

        Return why this was not done, or not completely; empty if it was done.
        """
        taken, left = self.merged[name], ""
        self._running = name
        try:
            self._begin(name)
            left = self._maintain(name)
        except CommitConflict:
            # The next round tries again.
            _log.warning("maintenance postponed, another writer committed first table=%s.%s", *name)
            left = "another writer committed first"
        except OutOfTime:
            left = self._note(
                name,
                f"batches commit first, and {self.plan.hold_seconds:g} s without them did not suffice: "
                "increase maintenance.hold_seconds, or maintain it while the sink is stopped",
            )
            _log.error("table not maintained table=%s.%s: %s", *name, left)
        except Exception as failure:
            left = self._failed(name, failure)
        else:
            self._note(name, "")
        self._running = None
        self._not_begun(name)
        self.merged[name] -= taken
        self._before[name] = 0
        return left

    def _begin(self, name: Name) -> None:
        """Note that a table's maintenance begins.

        Raise MaintenanceIncomplete if the last process ended during it: only the next round tries again. So a
        table whose maintenance needs more memory than there is does not end each process at its start.
        """
        last = self._maintained().get(json.dumps(name), 0)
        if last < 0 and self.broke_off():
            raise MaintenanceIncomplete(
                "the sink ended amid it: if its log says that memory was lacking, raise driver_memory"
            )
        self._record(name, min(last, ~last))

    def _not_begun(self, name: Name) -> None:
        with suppress(Exception):
            if (last := self._maintained().get(json.dumps(name), 0)) < 0:
                self._record(name, ~last)

    def _failed(self, name: Name, failure: Exception) -> str:
        """Keep the reason why a table cannot be maintained, unless the table is gone or the sink ends.

        Return the reason.
        """
        if self._is_ending:
            return "the sink ended amid it"
        if self._is_gone(name):
            self._note(name, "")
            return "it was dropped or renamed meanwhile"
        if isinstance(failure, SinkError | PySparkException | Py4JError | OSError):
            fault = named(failure)
            _log.error("table not maintained table=%s.%s: %s", *name, fault)
            return self._note(name, f"{type(fault).__name__}: {fault.where}")
        # For example a ValueError, because a file of the table is damaged.
        text = printed(f"{type(failure).__name__}: {failure}")
        _log.error("table not maintained table=%s.%s: %s", *name, text, exc_info=failure)
        return self._note(name, text)

    def report_faults(self) -> None:
        """Report the number of tables that an earlier process could not maintain."""
        faults = faults_of(self.warehouse, self.fault_note)
        self.report(sum(not self._is_gone(name) for name in faults))

    def _is_gone(self, name: Name) -> bool:
        try:
            return self.warehouse.tables.shape(*name) is None
        except Exception:
            return False

    def _note(self, name: Name, text: str) -> str:
        """Keep the reason why a table cannot be maintained, or remove it (empty `text`); return the reason.

        The reasons of tables that are gone are removed too, which no later maintenance would do.
        """
        known = faults_of(self.warehouse, self.fault_note)
        held = {one: why for one, why in known.items() if one != name and not self._is_gone(one)}
        held |= {name: text} if text else {}
        if held != known:
            body = {json.dumps(one): reason for one, reason in held.items()}
            self.warehouse.notes.write(self.fault_note, json.dumps(body))
        self.report(len(held))
        return text

    def _maintain(self, name: Name) -> str:
        shape, upkeep = self.warehouse.tables.shape(*name), self.warehouse.upkeep
        if shape is None:
            return "there is no such table"
        if self.milestones is not None:
            with self.gate:
                self.milestones.begin()
        may_remove = self._may_remove()
        is_whole = self._keep_up(name, upkeep, purged=shape, may_remove=may_remove)
        deleted, histories = self.warehouse.deleted, self.warehouse.histories
        if (markers := deleted.tables.shape(*name)) is not None:
            is_whole &= self._keep_up(name, deleted.upkeep, purged=markers, may_remove=may_remove)
        if histories.tables.shape(*name) is not None:
            is_whole &= self._keep_up(name, histories.upkeep, purged=None, may_remove=may_remove)
        if self.milestones is not None:
            self.milestones.wrote(name)
            with self.gate:
                self.milestones.restate()
        self.sources.keep()
        self._record(name, upkeep.version(name))
        _log.info("table maintained table=%s.%s", *name)
        if not is_whole:
            return "some files are left for the next round, as batches commit first"
        if not may_remove:
            return "unused files are kept, since a batch has run for long, or the clock was set"
        if shape.keyed and self.waits(name):
            return "markers of deleted rows are kept, since the table waits"
        return ""

    def _keep_up(
        self, name: Name, upkeep: Upkeep, *, purged: Shape | None, may_remove: bool
    ) -> bool:
        """Purge markers of the shape `purged`, compact files, and remove unused files.

        Return whether all files are compacted. A step that has too little time or loses to a batch does not
        prevent the others: its error is raised after the last step.
        """

        def retain(**_: float) -> None:
            upkeep.retain(name, self.plan.retention_seconds)

        def version() -> int:
            return upkeep.version(name)

        steps: list[Callable[..., object]] = [retain, partial(upkeep.compact, name)]
        if purged is not None and (before := self._purged_before(name, purged, upkeep)):
            steps.insert(1, partial(upkeep.purge, name, before))
        is_whole, faults = True, list[Exception]()
        for step in steps:
            try:
                is_whole &= self._despite_batches(step, version)
            except (CommitConflict, OutOfTime) as fault:
                faults.append(fault)
        if may_remove:
            upkeep.remove_unused(name)
        if faults:
            raise faults[0]
        return is_whole

    def _despite_batches(self, step: Callable[..., object], version: Callable[[], int]) -> bool:
        """Take a step beside the batches; after a conflict, continue it while no batch runs.

        Otherwise a table that every batch writes to would never be compacted. Batches wait for some seconds at
        a time, and run for longer in between. Return whether the step was finished; if its turn ends first, the
        rest remains. Raise OutOfTime if nothing could be committed within one wait, and CommitConflict.
        """
        try:
            step()
        except CommitConflict:
            if self.plan.hold_seconds == 0:
                raise
        else:
            return True
        began = time.monotonic()
        while True:
            with self.gate:
                held, before = time.monotonic(), version()
                try:
                    step(seconds=self.plan.hold_seconds)
                except OutOfTime:
                    if version() == before:
                        raise
                else:
                    return True
            seconds = time.monotonic() - held
            if time.monotonic() - began + seconds * _TIMES_FOR_BATCHES > _SECONDS_OF_A_TURN:
                return False
            self.wait(seconds * _TIMES_FOR_BATCHES)

    def _may_remove(self) -> bool:
        """Whether the running batch is too young to have written, or to be reading, what would be removed."""
        if not self._is_steady():
            return False
        if self.busy_elsewhere() >= self.plan.retention_seconds / 2:
            return False
        since = self.busy_since()
        return since is None or time.monotonic() - since < self.plan.retention_seconds / 2

    def _is_steady(self) -> bool:
        """Whether the clock has not been set for as long as files are retained."""
        return self.steady.seconds() >= self.plan.retention_seconds

    def _purged_before(self, name: Name, shape: Shape, upkeep: Upkeep) -> int:
        """The time (ms) before which markers are purged; 0 if none are."""
        if not shape.keyed or self.waits(name) or not self._is_steady():
            return 0
        complete = min(self.complete_until(), self.complete_elsewhere())
        before = int((complete - self.plan.purge_deleted_hours * 3600) * 1000)
        sources = upkeep.sources_if_old(name, before)
        if not sources:
            return 0
        return before if shape.apart else self._past_all_sources(name, sources, before)

    def _past_all_sources(self, name: Name, in_rows: Collection[str], before: int) -> int:
        """The time (ms) before which no source of the table can send a change; 0 if unknown.

        Needed only where sources share keys. In a table filled by mapped tables, a marker excludes only its
        own source's changes, and its delete follows these in the same partition.
        """
        try:
            return int(min(before, self.sources.all_past(name, in_rows)))
        except (SinkError, PySparkException, Py4JJavaError) as failure:
            # For instance, Kafka is unavailable; the next round tries again.
            fault = named(failure)
            _log.warning(
                "markers kept, the table's sources are unknown table=%s.%s: %s", *name, fault
            )
            return 0

    def _unmaintained(self, name: Name) -> int:
        """The commits since the last maintenance, as of when this process first saw the table."""
        if name not in self._before:
            last = self.warehouse.upkeep.version(name, at_least=True)
            done = self._maintained().get(json.dumps(name), 0)
            self._before[name] = max(0, last - max(done, ~done))
        return self._before[name]

    def _maintained(self) -> dict[str, int]:
        if self._done is None:
            # If the text is incomplete, the tables are maintained a little early.
            self._done = dict(json_of(self.warehouse.notes, self.note, {}))
        return self._done

    def _record(self, name: Name, version: int) -> None:
        self._maintained()[json.dumps(name)] = version
        self.warehouse.notes.write(self.note, json.dumps(self._done))


def faults_of(warehouse: Warehouse[Any], note: str) -> dict[Name, str]:
    """Why tables could not be maintained, by name."""
    body: Mapping[str, str] = json_of(warehouse.notes, note, {})
    return {tuple(json.loads(name)): text for name, text in body.items()}
