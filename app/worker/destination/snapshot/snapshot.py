"""The snapshot of a destination: the reading of all tables whose existing rows are still to be published.

Invariant: the keys of a table's changed rows are recorded from before its first SELECT on; the
stream never waits for a SELECT.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from app import metrics
from app.worker.destination.commit.entered_tables import EnteredTables
from app.worker.destination.commit.gone_tables import GoneTables
from app.worker.destination.commit.participants import CommitParticipant
from app.worker.destination.commit.read_tables import ReadTables
from app.worker.destination.commit.renamed_tables import RenamedTables
from app.worker.destination.commit.signal_rows import SignalRows
from app.worker.destination.commit.unlogged_rows import UnloggedRows
from app.worker.destination.emptied_tables import EmptiedTables
from app.worker.destination.plan import Plan, Signals
from app.worker.destination.snapshot.entries import Entries
from app.worker.destination.snapshot.read_times import LaneTimes, ReadTimes
from app.worker.destination.snapshot.table_reading import TableReading
from app.worker.destination.snapshot.unseen_tables import UnseenTables
from app.worker.destination.takeover.initial_snapshots import unsupported
from app.worker.destination.takeover.takeover import TakenOver
from app.worker.pipeline.portions import KeyWatch
from app.worker.pipeline.stage import StageSpec
from app.worker.status import DestinationStatus
from connectors.errors import SnapshotUnsupported, TableUnreadable
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Server, Table, TableName
from connectors.mysql.ddl.online import ShadowRules
from connectors.mysql.schema.unseen_tables import seen_in_part
from connectors.mysql.select.chunk_reader import ChunkReader, DefinitionChanged
from connectors.mysql.select.load_limits import LoadGate
from connectors.mysql.select.read_views import Seen, seen_at
from connectors.mysql.select.spool import Spools
from connectors.mysql.server.connection import SourceAddress
from tables.history.record import Dropped, Known, Unresolved
from tables.journal_format import Entry
from tables.rules.masking import NO_KEYS, MaskingKeys
from tables.state.operator_requests import Control, DesiredState, control_note
from tables.state.snapshots.request import (
    SNAPSHOT_REQUEST_PART,
    SnapshotRequest,
    after_request,
    latest,
    pending,
)
from tables.state.snapshots.resume_key import ResumeKeys
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot, gone, note_of

log = logging.getLogger(__name__)

LANES = 16
"""Tables in progress at once; for most of them, rows that were read are being decoded and committed."""
MOST_LANES = 4 * LANES
"""The same, including tables that cannot be read now."""
SELECTS = 2
"""The number of these tables whose rows are being read at once."""
_GLANCE_SECONDS = 0.5
_WARNINGS, _UNSEEN, _END = "snapshot", "snapshot grants", "snapshot end"
_NAMED = 10
"""The most tables that a warning names."""
_BY_ITSELF = "It is read by itself once it can be seen."


@dataclass(frozen=True, slots=True)
class _Lane:
    """A table that is read now."""

    reading: TableReading
    task: asyncio.Task[None]


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """The reading of tables in one run."""

    destination: str
    address: SourceAddress
    charsets: Charsets
    server: Server
    server_id: int
    status: DestinationStatus
    entries: Entries = field(default_factory=Entries)
    """The portions that are handed in; takes part in the run's commits."""
    times: ReadTimes = field(default_factory=ReadTimes)
    """The times of reads whose rows are not published yet."""
    captured: Callable[[int | None], Iterable[TableName]]
    """Returns the captured tables that exist after the schema history's record with this number."""
    captures: Callable[[TableName], bool]
    """Whether rows of a table are published."""
    is_mapped: Callable[[TableName], bool]
    """Whether a mapping applies to a table that is published."""
    shadows: ShadowRules
    """Which tables are shadows of others."""
    reads_entered: bool
    """Whether existing rows of a table that a RENAME brings in are read without a request."""
    definition: Callable[[TableName], Table | None]
    """Returns a table's present definition or, without the table, None; raises DefinitionChanged if unknown."""
    is_masked: Callable[[TableName], bool]
    """Whether a table has masked columns, so that nothing raw of its rows may be stored."""
    requests: Callable[[], Iterable[SnapshotRequest]]
    """The last request on each table."""
    keys: MaskingKeys = NO_KEYS
    """The keys that seal the key of the last row, for tables with masked columns."""
    gate: LoadGate
    """Makes reads wait for the source's load and for the rate."""
    can_replace: Callable[[TableName], bool]
    """Whether a table's subscribers can be sent a record that all its rows are gone."""
    can_remove: Callable[[TableName], bool]
    """Whether a table's subscribers can have exactly the rows of the source."""
    spools: Spools = field(default_factory=Spools)
    """Where the rows of tables without a key are kept until they enter the stream."""
    unseen: UnseenTables | None = None
    """The tables that the account may not see; None: this is not checked."""
    emptied: EmptiedTables | None = None
    """Deletes the rows that subscribers have, if no TRUNCATE record does; None without a history."""
    unsupported: SnapshotUnsupported | None = None
    """Why existing rows cannot be read at this server; requests are answered with it."""
    all: dict[TableName, TableSnapshot] = field(default_factory=dict)
    ends_with: Entry | None = None
    """The journal record that stops the destination once all is read; None: the destination continues."""
    _lanes: dict[TableName, _Lane] = field(default_factory=dict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SELECTS))
    _is_active: bool = False
    """Whether tables are being read, for the log."""
    _changed_since: list[TableSnapshot] = field(default_factory=list)
    """States that changed while an earlier state of their table was being written."""
    _tables: ReadTables = field(init=False)

    def __post_init__(self) -> None:
        self._tables = ReadTables(
            destination=self.destination,
            captured=self.captured,
            snapshots=self.all,
            requests=self.requests,
        )

    async def run(self) -> None:
        """Read all pending tables, and tables requested meanwhile, until the run ends."""
        self._show_all()
        try:
            while True:
                has_ended = self._end_lanes()
                again, self._changed_since = self._changed_since, []
                newest = [*again, *await self._apply_requests(), *await self._look()]
                # A state that is written after a later one of its table would be written again and again.
                changed = [*{one.name: one for one in newest}.values()]
                begun = self._next_tables()
                if has_ended or changed or begun:
                    sees = await self._watch({*self._lanes, *begun}, map(note_of, changed))
                    self._show_written(changed)
                    for name in begun:
                        self._begin(self.all[name], sees)
                self._log_end()
                await self._end()
                await self._glance()
        finally:
            for lane in self._lanes.values():
                lane.task.cancel()
                lane.reading.stop()

    async def _glance(self) -> None:
        """Wait for the end of a lane, or for the next check of requests."""
        lanes = [lane.task for lane in self._lanes.values()]
        if lanes:
            await asyncio.wait(lanes, timeout=_GLANCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(_GLANCE_SECONDS)

    async def _look(self) -> list[TableSnapshot]:
        """The tables whose names have become known, and which wait until they can be seen.

        Raise RunRestarts once some can be seen: the next run takes them into the schema history.
        """
        if self.unseen is None or self.unsupported is not None:
            return []
        found = await self.unseen.look(self.all)
        self.status.warnings[_UNSEEN] = self.unseen.warnings
        self.all.update({one.name: one for one in found})
        return found

    def participants(self) -> tuple[CommitParticipant, ...]:
        """The participants in the run's commits: the parts that make requests, and the portions handed in."""
        tables = self._tables
        left = GoneTables(
            tables=tables,
            shadows=self.shadows,
            can_replace=self.can_replace,
            show=self._show,
        )
        entered = EnteredTables(
            tables=tables,
            captures=self.captures,
            is_mapped=self.is_mapped,
            shadows=self.shadows,
            can_replace=self.can_replace,
            is_read=self.reads_entered,
            show=self._show,
        )
        unlogged = UnloggedRows(
            tables=tables,
            can_replace=self.can_replace,
            is_read=lambda name: name in self._lanes,
            show=self._show,
        )
        renamed = RenamedTables(tables, can_replace=self.can_replace)
        return SignalRows(tables), renamed, left, entered, unlogged, self.entries

    def _end_lanes(self) -> bool:
        """Forget the lanes that have ended, and return whether there were any; raise the error of a lane."""
        ended = [name for name, lane in self._lanes.items() if lane.task.done()]
        for name in ended:
            self._lanes.pop(name).task.result()
        return bool(ended)

    async def _apply_requests(self) -> list[TableSnapshot]:
        """Apply the pending requests: stop the reading of their tables, and return the tables' new states."""
        found = [
            self._refused(one)
            for one in self.all.values()
            if one.name not in self._lanes and self._refusal(one) is not None
        ]
        requests = pending(self.requests(), self.all)
        for name in self._lanes.keys() & {request.name for request in requests}:
            self._lanes[name].reading.stop()
        for request in requests:
            lane = self._lanes.pop(request.name, None)
            if lane is not None:
                await lane.task
            now_ms = time.time_ns() // 1_000_000
            one = after_request(request, self.all.get(request.name), now_ms=now_ms)
            if self._refusal(one) is not None:
                one = self._refused(one)
            log.info(
                "%s: snapshot %s of %s, as %s requested",
                self.destination, request.action.value, ".".join(request.name), request.by,
            )  # fmt: skip
            found.append(one)
        self.all.update({one.name: one for one in found})
        return found

    def _refused(self, one: TableSnapshot) -> TableSnapshot:
        refusal = self._refusal(one)
        assert refusal is not None
        return replace(one, state=SnapshotState.FAILED, error=f"{refusal.name}: {refusal}")

    def _refusal(self, one: TableSnapshot) -> SnapshotUnsupported | None:
        """Why a table cannot be read as requested; None if it can, or is not to be read."""
        if not one.is_pending or self.unsupported is not None:
            return self.unsupported if one.is_pending else None
        # A table that is not captured any more is found to be gone.
        if one.replaces and self.captures(one.name) and not self.can_replace(one.name):
            return SnapshotUnsupported(
                "its rows cannot be replaced, as nothing is published that removes all of them (truncates: "
                "omit, or operations without delete)",
                table=".".join(one.name),
                remedy="Leave out --replace, or set truncates to record and publish deletes.",
            )
        if one.removes and not self.can_remove(one.name):
            return SnapshotUnsupported(
                "its extra rows cannot be removed, as its mapping does not publish all changes",
                table=".".join(one.name),
                remedy="Let its mapping publish inserts, updates and deletes.",
            )
        return None

    def _next_tables(self) -> list[TableName]:
        """The tables that are to be read next."""
        waiting = [
            name
            for name, one in sorted(self.all.items())
            if one.is_pending and name not in self._lanes and not self._is_unseen(one)
        ]
        if waiting and not self._is_active:
            log.info(
                "%s: the existing rows of %d table(s) are read", self.destination, len(waiting)
            )
            self._is_active = True
        # A table that cannot be read now leaves its lane to other tables.
        busy = sum(self.all[name].error is None for name in self._lanes)
        return waiting[: max(0, min(LANES - busy, MOST_LANES - len(self._lanes)))]

    def _is_unseen(self, one: TableSnapshot) -> bool:
        """Whether a table cannot be seen; if so, show that. The table takes no lane from other tables."""
        why = self.unseen.why(one.name) if self.unseen is not None else None
        if why is None:
            return False
        error = TableUnreadable(why, table=".".join(one.name), remedy=_BY_ITSELF)
        shown = f"{error.name}: {error}"
        if one.error != shown:
            table = ".".join(one.name)
            log.error(
                "%s: existing rows of %s cannot be read now: %s", self.destination, table, shown
            )
            self._show(replace(one, error=shown))
        return True

    async def _watch(self, tables: Collection[TableName], notes: Iterable[Entry]) -> Seen:
        """Record the keys of changed rows of these tables only; return the transactions before that point.

        ``notes``: records for the journal, in the same transaction.
        """
        number, noted = self.entries.number(), tuple(notes)
        entered = self.entries.hand_in(
            number,
            lambda start: [KeyWatch(start=start, tables=frozenset(tables), id=number, notes=noted)],
        )
        return seen_at((await entered).cursor.offset)

    def _begin(self, one: TableSnapshot, sees: Seen) -> None:
        """Begin to read a table, whose changed keys are being recorded already."""
        times = LaneTimes(self.times)
        reader = ChunkReader(
            self.address,
            one.name,
            charsets=self.charsets,
            server=self.server,
            definition=partial(self.definition, one.name),
            is_masked=self.is_masked(one.name),
            where=one.where,
            gate=self.gate,
            is_whole=bool(one.removes),
            clock=times,
            spools=self.spools,
            is_divided=self.can_replace(one.name),
            # Later rows come with the stream only if all changes are published.
            is_bounded=self.can_remove(one.name),
        )
        reading = TableReading(
            one,
            reader,
            self.entries,
            server_id=self.server_id,
            sees=sees,
            show=self._show,
            turns=self._turns,
            times=times,
            emptied=self.emptied,
            resume_keys=ResumeKeys.of(one, self.keys, is_masked=self.is_masked(one.name)),
        )
        self._lanes[one.name] = _Lane(reading, asyncio.create_task(reading.run()))

    def _is_over(self) -> bool:
        """Whether there are snapshots, and none of them is pending."""
        return bool(self.all) and not any(one.is_pending for one in self.all.values())

    def _log_end(self) -> None:
        if not self._is_active or not self._is_over():
            return
        self._is_active = False
        log.info(
            "%s: the snapshot has ended: %s", self.destination,
            ", ".join(f"{count} table(s) {state}" for state, count in self._counts().items() if count),
        )  # fmt: skip

    async def _end(self) -> None:
        """End the destination, if so set, once all rows are published; until then, show what prevents that."""
        found = []
        if self.ends_with is not None and self._is_over() and not self._tables.unapplied():
            missing = [one for _, one in sorted(self.all.items()) if one.is_missing]
            if not missing:
                await self._watch((), [self.ends_with])
                self.ends_with = None
            else:
                found.append(self._missing_text(missing))
        for warning in found:
            if warning not in self.status.warnings.get(_END, ()):
                log.warning("%s: %s", self.destination, warning)
        self.status.warnings[_END] = found

    def _missing_text(self, missing: list[TableSnapshot]) -> str:
        """Why the destination does not end: which tables lack rows, and the commands that end each wait."""
        words = {SnapshotState.PAUSED: "is paused", SnapshotState.FAILED: "has failed"}
        named = [f"{'.'.join(one.name)} {words[one.state]}" for one in missing[:_NAMED]]
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        name, states = self.destination, {one.state for one in missing}
        ways = []
        if SnapshotState.PAUSED in states:
            ways.append(
                f"For what is paused run: python -m app snapshot resume {name}; or, without the other rows: "
                f"python -m app snapshot stop {name}."
            )
        if SnapshotState.FAILED in states:
            ways.append(
                "For what has failed remove the cause, which its error has, and run: "
                f"python -m app snapshot start {name} TABLE."
            )
        return (
            "snapshot.mode initial_only does not end the destination yet, as existing rows are not published: "
            f"{', '.join(named)}{more}. {' '.join(ways)} To end without these rows run: "
            f"python -m app destination stop {name}"
        )

    def _show_written(self, written: Iterable[TableSnapshot]) -> None:
        """Show states that are in the journal; one that a statement has changed meanwhile is written again."""
        for one in written:
            now = self.all[one.name]
            if now is one:
                self._show(one)
            else:
                self._changed_since.append(now)

    def _show(self, one: TableSnapshot) -> None:
        """Show a table's progress after a commit."""
        before = self.all.get(one.name)
        self.all[one.name] = one
        self._show_all()
        if one.state is SnapshotState.FAILED:
            log.error(
                "%s: existing rows of %s are not published: %s",
                self.destination, ".".join(one.name), one.error,
            )  # fmt: skip
        elif one.state is SnapshotState.GONE and (before is None or before.state is not one.state):
            log.warning(
                "%s: %s was dropped or renamed after %d of its existing rows; the others are not published "
                "under this name",
                self.destination, ".".join(one.name), one.rows,
            )  # fmt: skip
        elif one.state is SnapshotState.DONE:
            log.info(
                "%s: %d existing row(s) of %s are published, in %d chunk(s)",
                self.destination, one.rows, ".".join(one.name), one.chunks,
            )  # fmt: skip

    def _counts(self) -> dict[SnapshotState, int]:
        return {
            state: sum(one.state is state for one in self.all.values()) for state in SnapshotState
        }

    def _show_all(self) -> None:
        self.status.snapshots = self.all
        for state, count in self._counts().items():
            metrics.SNAPSHOT_TABLES.labels(self.destination, state.value).set(count)
        prevented = sum(one.is_pending and one.error is not None for one in self.all.values())
        lacking = self.unseen.scopes if self.unseen is not None else 0
        metrics.SNAPSHOT_PREVENTED.labels(self.destination).set(prevented + lacking)


def snapshot_of(
    plan: Plan,
    led: TakenOver,
    spec: StageSpec,
    status: DestinationStatus,
    signals: Signals,
) -> Snapshot:
    """The snapshot of a run, with its state in the journal."""
    history, before = led.opened.history, led.state.parts[SNAPSHOT_REQUEST_PART].all
    in_part = seen_in_part(led.address, led.facts, led.names)

    def definition(name: TableName) -> Table | None:
        if spec.rules.routes.of(name) is None:
            return None
        now = history.now() if history is not None else None
        found = now.state(*name) if now is not None else None
        # A history that began late may lack a table that exists.
        is_missing = found is None and name in led.names
        if now is None or isinstance(found, Unresolved) or is_missing:
            raise DefinitionChanged(in_part.get(name, "its definition is not known"))
        return now.find(*name)

    shadows = spec.rules.shadow_rules()

    def captured(number: int | None) -> Iterable[TableName]:
        if history is None:
            return []
        known = (history.now() if number is None else history.after(number)).tables()
        return [
            name
            for name in known
            if spec.rules.routes.captures(*name) and shadows.shadow(name, known) is None
        ]

    def is_known(name: TableName) -> bool:
        """Whether the schema history knows a table, or the table is not published."""
        now = history.now() if history is not None else None
        if now is None or spec.rules.routes.of(name) is None:
            return True
        return isinstance(now.state(*name), Known | Dropped)

    def is_masked(name: TableName) -> bool:
        route = spec.rules.routes.of(name)
        return route is not None and route.masks

    def can_replace(name: TableName) -> bool:
        route = spec.rules.routes.of(name)
        return route is not None and route.publishes_truncates

    def can_remove(name: TableName) -> bool:
        route = spec.rules.routes.of(name)
        return route is None or route.publishes_all

    unseen = UnseenTables(plan, led, is_known=is_known)
    for warning in unseen.warnings:
        log.warning("%s: %s", plan.name, warning)
    status.warnings[_UNSEEN] = unseen.warnings

    def show_wait(reason: str | None) -> None:
        shown = [] if reason is None else [f"the reading of existing rows waits: {reason}"]
        if shown and not status.warnings.get(_WARNINGS):
            log.info("%s: %s", plan.name, shown[0])
        status.warnings[_WARNINGS] = shown

    emptied = None
    if history is not None:
        emptied = EmptiedTables(
            spec=spec, history=history, kafka_options=plan.kafka_options, status=status
        )
    return Snapshot(
        destination=plan.name,
        address=led.address,
        charsets=spec.charsets,
        server=spec.server,
        server_id=int(led.facts.variables.get("server_id", "0")),
        status=status,
        captured=captured,
        captures=lambda name: spec.rules.routes.captures(*name),
        is_mapped=lambda name: (
            (route := spec.rules.routes.of(name)) is not None and route.mapped is not None
        ),
        shadows=shadows,
        reads_entered=plan.snapshot.is_initial,
        definition=definition,
        is_masked=is_masked,
        keys=spec.rules.routes.keys,
        ends_with=_last_note(plan, led) if plan.snapshot.is_only else None,
        requests=lambda: latest(before.values(), signals.snapshot_requests.values()),
        gate=LoadGate(plan.snapshot.limits, show_wait),
        spools=plan.snapshot.spools,
        can_replace=can_replace,
        can_remove=can_remove,
        times=ReadTimes(is_merged=led.publisher.shows_progress),
        unseen=unseen,
        unsupported=unsupported(led.facts, led.address, has_history=history is not None),
        all=_captured(plan, led, spec),
        emptied=emptied,
    )


def _captured(plan: Plan, led: TakenOver, spec: StageSpec) -> dict[TableName, TableSnapshot]:
    """The snapshots in the journal; a table that has failed or is paused is gone while it is not captured.

    The journal keeps its state, as its topic still has other rows once the table is captured again.
    """
    found = dict(led.state.snapshots.all)
    for name, one in found.items():
        if one.is_missing and not spec.rules.routes.captures(*name):
            log.info(
                "%s: %s is not captured any more: that its existing rows are %s is not shown",
                plan.name, ".".join(name), one.state.value,
            )  # fmt: skip
            found[name] = gone(one)
    return found


def _last_note(plan: Plan, led: TakenOver) -> Entry | None:
    """The request that stops a destination once its existing rows are published; None if it has stopped it."""
    control, snapshots = led.state.control, led.state.snapshots.all.values()
    if control is not None and control.has_ended:
        return None
    # A version that did not record this has stopped it if all is read and an operator has made a request since.
    is_read = not any(one.is_pending or one.is_missing for one in snapshots)
    if control is not None and is_read:
        last_ms = max((one.ts_ms for one in snapshots), default=0)
        if control.ts_ms >= last_ms:
            return None
    stop = Control(
        destination=plan.name,
        desired=DesiredState.STOP,
        by="snapshot.mode initial_only",
        ts_ms=time.time_ns() // 1_000_000,
        has_ended=True,
    )
    return control_note(stop)
