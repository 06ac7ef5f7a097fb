"""The search for a cut: recent changes as of now, then as they were when earlier batches were merged.

Invariant: the ledger is read before the recent changes, so the recent changes continue its batches. Versions
that were removed meanwhile are skipped. A cut is never guessed: if evidence is missing, an error is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame

from spark_sink.errors import CutGone, CutIncomplete, CutUnknown
from spark_sink.views.cuts.choice import (
    Evidence,
    IsAfter,
    base,
    bounded,
    named,
    newest,
    transaction,
)
from spark_sink.views.cuts.moment import Change, Moment, Time, Transaction
from spark_sink.views.cuts.transactions import existing, runs, unfinished
from spark_sink.views.recent.wholeness import reaches
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
