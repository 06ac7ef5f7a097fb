"""The search for a cut: recent changes as of now, then as they were when earlier batches were merged.

A transaction of the source is in a cut wholly or not at all. Among the recent changes, it is a run of records
with its id, in the order of `seq`, that no record of another transaction interrupts. The rows of a quarantined
table are published again later, under their old ids: they are runs of their own. The tables hold the changes of
whole batches, which may divide transactions. So a cut reads the tables as of a batch (its base) that holds
nothing after the cut's positions, and adds the recent changes between that batch and the positions.

Invariant: no position is inside a transaction. A position is chosen only if recent changes and milestones prove
this; if evidence is missing, an error is raised. The ledger is read before the recent changes, so the recent
changes continue its batches; versions that were removed meanwhile are skipped. The text of a moment has exactly
one meaning; a time without a time zone is refused.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.errors import CutAmbiguous, CutGone, CutIncomplete, CutUnknown
from spark_sink.source.envelope import EXISTED
from spark_sink.source.own_topics import UNREADABLE
from spark_sink.source.positions import Offsets
from spark_sink.text.quoting import literal
from spark_sink.warehouse.coverage import Cut, Marker, reaches
from spark_sink.warehouse.milestones import (
    Batch,
    Existing,
    Milestone,
    Position,
    Positions,
    joined,
)
from spark_sink.warehouse.moves import Place
from spark_sink.warehouse.protocol import Name, Recent, VersionGone, Warehouse
from wire.text import utc

_NUMBER: Final = re.compile(r"(.+)@(\d+)")
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction, by its GTID or other id (`transaction.id` of docs/wire.md)."""

    id: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a destination, by its `source.seq`."""

    destination: str
    seq: int


@dataclass(frozen=True, slots=True)
class Time:
    """A time of commits at the source, in milliseconds since 1970 UTC."""

    ms: int


Moment = Transaction | Change | Time


def moment(at: str | datetime.datetime | tuple[str, int]) -> Moment:
    """The moment that a reader names: a GTID, a time, `(destination, seq)` or `destination@seq`.

    Times are ISO 8601 with a time zone. Raise CutAmbiguous.
    """
    if isinstance(at, tuple):
        return Change(*at)
    if isinstance(at, str) and (found := _NUMBER.fullmatch(at.strip())):
        return Change(found[1], int(found[2]))
    if isinstance(at, str) and not _DAY.fullmatch(at.strip()):
        return Transaction(at.strip())
    try:
        time = datetime.datetime.fromisoformat(at.strip()) if isinstance(at, str) else at
    except ValueError as fault:
        raise CutAmbiguous(str(at), advice="Write a time as 2026-11-22T15:02:11Z") from fault
    if time.tzinfo is None:
        raise CutAmbiguous(f"{at} has no time zone", advice="Append Z or an offset such as +01:00")
    return Time(round(time.timestamp() * 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The records of one transaction."""

    destination: str
    first: Position
    last: Position
    starts: bool
    """Whether `first` is the first change that the transaction has published."""
    is_seen: bool
    """Whether any of its records is before the offsets that count as whole."""
    tables: tuple[Name, ...] = ()
    existed: bool = False
    """Whether it is not a transaction, but existing rows that one SELECT has read, or looked for."""

    @property
    def before(self) -> Position:
        """The position before its first change."""
        return Position(self.first.epoch, self.first.seq - 1, self.first.ts_ms)


def runs(records: DataFrame, whole: Offsets) -> list[Run]:
    """The runs among records (columns of `envelope.FIELDS`), by destination and in order."""
    seen = " OR ".join(
        f"(topic = {literal(topic)} AND partition = {number} AND offset < {end})"
        for (topic, number), end in sorted(whole.items())
    )
    window = "OVER (PARTITION BY destination ORDER BY epoch, seq)"
    # The end of a replacement has no number of its own.
    usable = records.where(
        "destination IS NOT NULL AND epoch IS NOT NULL AND seq IS NOT NULL AND NOT (op <=> 'e')"
    )
    numbered = usable.selectExpr(
        "destination",
        "epoch",
        "seq",
        "ts_ms",
        # A record that names no transaction is a run of its own.
        "coalesce(transaction, CAST(struct(epoch, seq) AS STRING)) AS id",
        "coalesce(transaction, '') AS transaction",
        "coalesce(ordinal = 1, transaction IS NULL) AS starts",
        f"{seen or 'false'} AS is_seen",
        f"{EXISTED} AS existed",
        "struct(database, `table`) AS name",
    )
    begun = numbered.selectExpr("*", f"NOT (id <=> lag(id) {window}) AS begins")
    grouped = begun.selectExpr("*", f"count_if(begins) {window} AS run").groupBy(
        "destination", "run"
    )
    place = "struct(epoch, seq, ts_ms, transaction, starts)"
    rows = grouped.agg(
        *(
            f.expr(text)
            for text in (
                f"min({place}) AS first",
                f"max({place}) AS last",
                "bool_or(is_seen) AS is_seen",
                "bool_or(existed) AS existed",
                "collect_set(name) AS names",
            )
        )
    ).collect()
    found = [
        Run(
            destination=row.destination,
            first=Position(*row.first[:4]),
            last=Position(*row.last[:4]),
            starts=row.first.starts,
            is_seen=row.is_seen,
            tables=tuple(sorted((name.database, name["table"]) for name in row.names)),
            existed=row.existed,
        )
        for row in rows
    ]
    return timed(sorted(found, key=lambda run: (run.destination, run.first)))


def timed(found: Iterable[Run]) -> list[Run]:
    """The runs, each with the newest commit time of its destination's given runs up to it.

    Commits may not be in the order of their times. Existing rows have the time of the SELECT by the worker's
    clock, which is often earlier than the times of transactions that precede them.
    """
    result: list[Run] = []
    newest: dict[str, int] = {}
    for run in found:
        known = newest.get(run.destination)
        own = (
            run.last.ts_ms
            if known is None
            else known
            if run.existed
            else max(known, run.last.ts_ms)
        )
        if not run.existed:
            newest[run.destination] = own
        first, last = replace(run.first, ts_ms=own), replace(run.last, ts_ms=own)
        result.append(replace(run, first=first, last=last))
    return result


def existing(found: Iterable[Run]) -> Existing:
    """The position of the last existing row of each table."""
    return joined(
        {name: {run.destination: (run.last.epoch, run.last.seq)}}
        for run in found
        if run.existed
        for name in run.tables
    )


def unfinished(markers: Iterable[Marker], whole: Offsets) -> frozenset[str]:
    """The ids of transactions in parts whose last part is not known to be held as a whole."""
    finished: dict[str, bool] = {}
    for one in markers:
        try:
            body: dict[str, Any] = json.loads(one.text)
            is_end, name, is_last = body["status"] == "END", str(body["id"]), body.get("last", True)
        except UNREADABLE:
            # Another program wrote it.
            continue
        if not is_end:
            continue
        is_whole = one.topic is None or (
            (one.offset or 0) < whole.get((one.topic, one.partition or 0), 0)
        )
        finished[name] = finished.get(name, False) or (is_last is True and is_whole)
    return frozenset(name for name, is_last in finished.items() if not is_last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of transactions: recent changes as of one commit, and the batches in the ledger."""

    batches: Sequence[Batch]
    """Oldest first."""
    coverage: Cut
    runs: Sequence[Run]
    """The runs of all recent changes, in order."""
    unfinished: frozenset[str] = frozenset()
    """The ids of transactions in parts whose last part is missing so far."""

    def of(self, destination: str) -> list[Run]:
        """The runs of a destination, in order."""
        return [run for run in self.runs if run.destination == destination]


NOTHING = Position(0, 0, 0)
"""The position before all changes of a destination."""

IsAfter = Callable[[str, Position], bool]
"""Whether a change of a destination is after the moment at which a cut is asked for."""


def newest(evidence: Evidence) -> dict[str, Position] | None:
    """The newest position of each destination before which everything is whole; None if that is not known."""
    whole = evidence.coverage.whole
    if whole is None or evidence.unfinished - {run.last.transaction for run in evidence.runs}:
        return None
    settled: Positions = {}
    for batch in evidence.batches:
        if batch.milestone is not None and reaches(whole, batch.until):
            settled = batch.milestone.reached
    positions: dict[str, Position] = {}
    for destination in sorted({*settled, *(run.destination for run in evidence.runs)}):
        position = _newest(evidence.of(destination), settled.get(destination), evidence.unfinished)
        if position is None:
            return None
        positions[destination] = position
    return positions


def _newest(found: list[Run], settled: Position | None, names: Collection[str]) -> Position | None:
    following = next((run for run in found if settled is not None and run.last > settled), None)
    if following is not None and settled is not None and not settled.transaction:
        if not following.starts:
            # This run may or may not be the rest of a transaction that is merged in part.
            return None
        following = None
    # The run's changes up to `settled` are merged, and may no longer be among the recent changes.
    is_rest = (
        following is not None
        and settled is not None
        and following.last.transaction == settled.transaction
    )
    seen = [run for run in found if run.is_seen or (is_rest and run is following)]
    unfinished = next((run for run in seen if run.last.transaction in names), None)
    if unfinished is not None:
        # Everything before the unfinished run is whole, as a destination publishes in order.
        return _before(found, unfinished)
    known = [*(run.last for run in seen), *([settled] if settled is not None else [])]
    return max(known, default=NOTHING)


def _before(found: list[Run], run: Run) -> Position | None:
    """The position before a run; None if its own first change is missing."""
    earlier = [one.last for one in found if one.last < run.first]
    if earlier:
        return earlier[-1]
    return run.before if run.starts else None


def base(
    batches: Iterable[Batch],
    positions: Positions,
    since: Offsets,
    is_after: IsAfter = lambda *_: False,
) -> Batch | None:
    """The last batch that holds nothing after the positions, and that recent changes from `since` continue."""
    fitting = None
    for batch in batches:
        reached = batch.milestone.reached if batch.milestone is not None else None
        if reached is None or any(is_after(*one) for one in reached.items()):
            continue
        continued = all(first <= batch.until.get(at, 0) for at, first in since.items())
        if continued and all(d in positions and at <= positions[d] for d, at in reached.items()):
            fitting = batch
    return fitting


def bounded(evidence: Evidence, tops: Positions, is_after: IsAfter) -> dict[str, Position] | None:
    """For each destination, the position of its last transaction before the first one after a moment.

    None if the recent changes begin too late. The positions are right for a base that is itself not after the
    moment: changes that are no longer recent are merged.
    """
    positions: dict[str, Position] = {}
    for name, top in tops.items():
        found = [run for run in evidence.of(name) if run.last <= top]
        later = next((run for run in found if is_after(name, run.last)), None)
        position = _before(found, later) if later is not None else top
        if position is None or (later is None and is_after(name, top)):
            return None
        positions[name] = position
    return positions


def named(positions: Positions, reached: Positions, runs: Iterable[Run]) -> dict[str, Position]:
    """The positions, with time and transaction from the base if no recent change has that position."""
    recent = {(run.destination, run.last) for run in runs}
    return {
        name: one if one.transaction or (name, one) in recent else reached.get(name, one)
        for name, one in positions.items()
    }


def transaction(runs: Iterable[Run], name: str) -> Run | None:
    """The last run of a transaction."""
    return next((run for run in reversed(list(runs)) if run.last.transaction == name), None)


_GTID: Final = re.compile(r"(.+):(\d+)")
_SLACK: Final = 3
"""The number of batches that recent changes may reach back before the batch that they were stored with."""
_START: Final = Batch(at_ms=0, query_id="", until={}, milestone=Milestone(reached={}, versions={}))
"""The state before the first batch, when no table has a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A cut: the positions, the batch as of which tables are read, and the changes to add."""

    positions: Positions
    base: Batch
    recent: Recent[DataFrame] | None
    """All recent changes as of one commit; None if the batch is the cut."""
    existing: Existing
    """The positions of each table's last existing row, as far as they are known, also those after the cut."""

    @property
    def milestone(self) -> Milestone:
        """What the tables hold after the batch."""
        assert self.base.milestone is not None
        return self.base.milestone


@dataclass(slots=True)
class Finder:
    """Finds one cut."""

    warehouse: Warehouse[DataFrame]
    _batches: list[Batch] = field(default_factory=list)
    _existing: dict[Name, dict[str, Place]] = field(default_factory=dict)
    _oldest: int | None = None
    """The oldest commit time (ms) in the evidence that was read."""

    def find(self, moment: Moment | None) -> Found:
        """The newest cut, or the one at a moment. Raise CutUnknown, CutIncomplete or CutGone."""
        self._batches = [_START, *self.warehouse.log.batches()]
        _refuse_several_sinks(self._batches)
        self._existing = joined(one.milestone.existing for one in self._batches if one.milestone)
        recent = self.warehouse.recent.newest()
        last = self._batches[-1]
        is_covered = recent is None or reaches(last.until, recent.cut.until)
        found = self._after(last, moment) if is_covered else None
        if found is None and recent is not None:
            found = self._among(recent, moment, is_newest=True)
        if found is not None:
            return found
        for batch in self._earlier(moment):
            if (found := self._after(batch, moment) or self._before(batch, moment)) is not None:
                return found
        raise self._missing(moment)

    def _earlier(self, moment: Moment | None) -> Iterator[Batch]:
        """The batches from the newest to the oldest; first those near the moment."""
        near: list[Batch] = []
        far: list[Batch] = []
        for number, batch in reversed(list(enumerate(self._batches))):
            before = self._batches[max(0, number - _SLACK)].milestone
            fits = moment is None or before is None or _may_precede(before, moment)
            (near if fits else far).append(batch)
        yield from near
        yield from far

    def _after(self, batch: Batch, moment: Moment | None) -> Found | None:
        """The cut after a batch that is known to divide no transaction."""
        milestone = batch.milestone
        if milestone is None or not milestone.is_whole or not _ends_at(milestone, moment):
            return None
        return Found(positions=milestone.reached, base=batch, recent=None, existing=self._existing)

    def _before(self, batch: Batch, moment: Moment | None) -> Found | None:
        """A cut among the recent changes while a batch was merged."""
        if batch.milestone is None or batch.milestone.recent is None:
            return None
        try:
            return self._among(self.warehouse.recent.at(batch.milestone.recent), moment)
        except VersionGone:
            return None

    def _among(
        self, recent: Recent[DataFrame], moment: Moment | None, *, is_newest: bool = False
    ) -> Found | None:
        whole = recent.cut.whole
        if whole is None:
            return None
        evidence = Evidence(
            batches=self._batches,
            coverage=recent.cut,
            runs=runs(recent.records, whole),
            unfinished=unfinished(recent.markers, whole),
        )
        self._existing = joined((self._existing, existing(evidence.runs)))
        times = [run.first.ts_ms for run in evidence.runs]
        self._oldest = min(
            [*times, *([self._oldest] if self._oldest is not None else [])], default=None
        )
        tops = newest(evidence)
        if tops is None:
            return None
        is_after: IsAfter | None = _none_is
        if moment is not None:
            is_after = _after_it(moment, evidence, tops, is_newest=is_newest)
        positions = bounded(evidence, tops, is_after) if is_after is not None else None
        if positions is None or is_after is None:
            return None
        batch = base(self._batches, positions, recent.cut.since, is_after)
        if batch is None or batch.milestone is None:
            return None
        positions = named(positions, batch.milestone.reached, evidence.runs)
        return Found(positions=positions, base=batch, recent=recent, existing=self._existing)

    def _missing(self, moment: Moment | None) -> CutGone | CutUnknown:
        if moment is None:
            return CutUnknown(
                "nothing proves yet which transactions are complete",
                advice="Start the sink with fresh: true and wait until it has caught up; see"
                " docs/sink/reading.md#consistent-cuts",
            )
        since = f"cuts are possible from about {utc(self._oldest)} on" if self._oldest else ""
        return CutGone(
            "; ".join(filter(None, (described(moment), since))),
            advice="Check the moment, or raise maintenance.retention_hours for the future",
        )


def described(moment: Moment) -> str:
    """A moment in messages."""
    match moment:
        case Transaction():
            return f"transaction {moment.id}"
        case Change():
            return f"destination {moment.destination}, seq {moment.seq}"
        case Time():
            return f"time {utc(moment.ms)}"


def _after_it(
    moment: Moment, evidence: Evidence, tops: Positions, *, is_newest: bool
) -> IsAfter | None:
    """The test for being after a moment; None if this evidence lacks the moment. Raise CutIncomplete."""
    match moment:
        case Time():
            return lambda _, one: one.ts_ms > moment.ms
        case Change():
            top = tops.get(moment.destination)
            if top is None:
                return None
            if moment.seq > top.seq:
                raise CutIncomplete(f"{described(moment)}: complete up to seq {top.seq}")
            own = bounded(
                evidence,
                tops,
                lambda name, one: name == moment.destination and one.seq > moment.seq,
            )
            if own is None:
                return None
            ms = own[moment.destination].ts_ms
            return lambda name, one: (
                one.seq > moment.seq if name == moment.destination else one.ts_ms > ms
            )
        case Transaction():
            run = transaction(evidence.runs, moment.id)
            if run is None:
                return None
            if run.destination not in tops or run.last > tops[run.destination]:
                if is_newest:
                    raise CutIncomplete(described(moment), advice="Try again in some seconds")
                return None
            last = run.last
            return lambda name, one: (
                one > last if name == run.destination else one.ts_ms > last.ts_ms
            )


def _none_is(_: str, __: Position) -> bool:
    return False


def _ends_at(milestone: Milestone, moment: Moment | None) -> bool:
    """Whether a batch that divides no transaction is the cut at a moment, as closely as batches allow."""
    match moment:
        case None:
            return True
        case Transaction():
            return any(one.transaction == moment.id for one in milestone.reached.values())
        case Change():
            one = milestone.reached.get(moment.destination)
            return one is not None and one.seq <= moment.seq
        case Time():
            return all(one.ts_ms <= moment.ms for one in milestone.reached.values())


def _may_precede(milestone: Milestone, moment: Moment) -> bool:
    """Whether a moment is probably after a batch."""
    reached = milestone.reached
    match moment:
        case Time():
            return not reached or any(one.ts_ms <= moment.ms for one in reached.values())
        case Change():
            one = reached.get(moment.destination)
            return one is None or one.seq <= moment.seq
        case Transaction():
            wanted = _GTID.fullmatch(moment.id)
            for one in reached.values():
                found = _GTID.fullmatch(one.transaction)
                if wanted and found and wanted[1] == found[1]:
                    return int(found[2]) <= int(wanted[2])
            return True


def _refuse_several_sinks(batches: list[Batch]) -> None:
    """Raise CutUnknown if batches of several queries alternate."""
    order = [batches[0].query_id]
    for batch in batches:
        if batch.query_id != order[-1]:
            order.append(batch.query_id)
    if len(order) > len(set(order)):
        raise CutUnknown(
            "several sinks fill this warehouse",
            advice="Let one sink read all topics of the warehouse",
        )
