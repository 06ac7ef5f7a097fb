"""The choice of a cut: its position in each destination, and the batch after which it reads the tables.

A transaction of the source is in a cut wholly or not at all. The tables hold the changes of whole batches,
which may divide transactions. So a cut reads the tables as of a batch (its base) that holds nothing after the
cut's positions, and adds the recent changes between that batch and the positions.

Invariant: no position is inside a transaction. A position is chosen only if recent changes and milestones prove
this. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from spark_sink.source.positions import Offsets
from spark_sink.views.cuts.transactions import Run
from spark_sink.views.recent.wholeness import reaches
from spark_sink.warehouse.coverage import Cut
from spark_sink.warehouse.milestones import Batch, Position, Positions


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
