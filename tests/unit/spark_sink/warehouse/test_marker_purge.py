"""The markers that maintenance purges, also if a batch commits first; on an in-memory warehouse."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any

from spark_sink.settings.model import Maintenance as Plan
from spark_sink.warehouse.maintenance_schedule import Maintenance, Sources, SteadyClock
from spark_sink.warehouse.protocol import CommitConflict, Name, OutOfTime
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.table_status import status_lines
from tests.harness.memory_warehouse import MemoryUpkeep, MemoryWarehouse

NAME = ("shop", "t")
HOUR = 3600
NOW = 100 * HOUR


def marked(*, apart: bool) -> MemoryWarehouse:
    """A warehouse with a marker of each of two sources, committed long ago, and a row."""
    kept = MemoryWarehouse()
    shape = Shape(*NAME, (("id", "int"),), ("id",), apart=apart)
    kept.tables.evolve(None, shape)
    rows = [row(1, "shop", deleted=True), row(2, "crm", deleted=True), row(3, "crm", deleted=False)]
    kept.tables.merge(shape, rows)
    return kept


def row(key: int, destination: str, *, deleted: bool) -> dict[str, Any]:
    return {
        "id": key, "__destination": destination, "__epoch": 1, "__seq": key, "__deleted": deleted,
        "__schema": 1, "__ts_ms": HOUR * 1000, "__unrepresentable": None,
        "__source_database": "shop", "__source_table": "t_0",
    }  # fmt: skip


def keeping(
    kept: MemoryWarehouse,
    *,
    complete_until: float = NOW,
    waits: Callable[[Name], object] = lambda _: None,
) -> Maintenance:
    """Maintenance of a warehouse that knows no source's own progress."""
    return Maintenance(
        warehouse=kept,
        plan=Plan(every=1, purge_deleted_hours=10),
        complete_until=lambda: complete_until,
        busy_since=lambda: None,
        sources=Sources(notes=kept.notes, of_table=lambda _: ("shop", "crm"), newest={}),
        waits=waits,
    )


def test_files_stay_while_a_batch_of_another_sink_runs_for_long_and_a_request_says_so() -> None:
    kept = marked(apart=True)
    one = keeping(kept)
    half = one.plan.retention_seconds / 2
    for seconds, removed in ((half - 1, True), (half, False)):
        kept.upkeep.asked.clear()
        one.busy_elsewhere = lambda seconds=seconds: seconds  # type: ignore[misc]
        assert ("unused files are kept" in one.maintain(NAME)) is not removed
        assert (("remove", NAME) in kept.upkeep.asked) is removed
    assert one.maintain(("shop", "gone")) == "there is no such table"
    one.waits = lambda _: True
    one.busy_elsewhere = lambda: 0.0
    assert "the table waits" in one.maintain(NAME)


def test_markers_stay_until_other_sinks_of_the_warehouse_are_as_complete() -> None:
    for elsewhere, kept_rows in ((HOUR * 11, [1, 2, 3]), (HOUR * 11 + 1, [3])):
        kept = marked(apart=True)
        one = keeping(kept)
        one.complete_elsewhere = lambda elsewhere=elsewhere: elsewhere  # type: ignore[misc]
        assert one.maintain(NAME) == ""
        assert left(kept) == kept_rows


def test_after_a_step_of_the_clock_nothing_is_removed_until_the_retention_time_has_passed() -> None:
    kept, now = marked(apart=True), {"wall": 0.0, "monotonic": 0.0}
    one = keeping(kept)
    one.steady = SteadyClock(lambda: now["wall"], lambda: now["monotonic"])
    one.steady.seconds()
    now["wall"] += 24 * HOUR
    for monotonic, removed in ((1.0, False), (one.plan.retention_seconds + 1.0, True)):
        now["wall"] += monotonic - now["monotonic"]
        now["monotonic"] = monotonic
        assert ("the clock was set" in one.maintain(NAME)) is not removed
        assert (("remove", NAME) in kept.upkeep.asked) is removed
        assert left(kept) == ([3] if removed else [1, 2, 3])


def left(kept: MemoryWarehouse) -> list[int]:
    shape = kept.tables.shape(*NAME)
    assert shape is not None
    return sorted(found["id"] for found in kept.tables.rows(shape))


def test_sources_that_share_keys_keep_each_others_markers() -> None:
    kept = marked(apart=False)
    keeping(kept).maintain(NAME)
    assert left(kept) == [1, 2, 3]
    assert kept.upkeep.asked == [("compact", NAME), ("remove", NAME)]


def test_sources_kept_apart_wait_for_no_other() -> None:
    kept = marked(apart=True)
    keeping(kept).maintain(NAME)
    assert left(kept) == [3]


def test_the_age_of_markers_ends_where_the_warehouse_is_complete() -> None:
    for hours, held in ((10, [1, 2, 3]), (12, [3])):
        kept = marked(apart=True)
        # A sink that has not applied what Kafka holds purges by the time up to which it has.
        keeping(kept, complete_until=hours * HOUR).maintain(NAME)
        assert left(kept) == held


def test_a_table_that_waits_keeps_its_markers() -> None:
    kept = marked(apart=True)
    keeping(kept, waits=lambda name: name == NAME).maintain(NAME)
    assert left(kept) == [1, 2, 3]


class Busy(MemoryUpkeep):
    """A table to which batches commit as long as they are let in, and which is compacted in several commits."""

    def __init__(self, kept: MemoryWarehouse, gate: threading.Lock, *, steps: int = 1) -> None:
        super().__init__(kept.tables)
        self._gate = gate
        self.steps = steps
        """Times that batches must wait until all is done."""
        self.commits = 0
        self.limits: list[float | None] = []

    def compact(self, name: Name, *, seconds: float | None = None) -> None:
        self.asked.append(("tried", name))
        if not self._gate.locked():
            raise CommitConflict
        self.limits.append(seconds)
        self.steps -= 1
        self.commits += self.steps >= 0
        if self.steps != 0:
            raise OutOfTime
        super().compact(name)

    def version(self, name: Name, *, at_least: bool = False) -> int:
        return super().version(name, at_least=at_least) + self.commits


def test_a_compaction_that_loses_to_a_batch_is_made_while_the_next_waits() -> None:
    kept = marked(apart=True)
    made = keeping(kept)
    kept.upkeep = busy = Busy(kept, made.gate)
    assert made.maintain(NAME) == ""
    assert [what for what, _ in kept.upkeep.asked] == ["tried", "tried", "compact", "remove"]
    assert busy.limits == [10], "batches wait for no longer"
    assert not made.gate.locked()


def test_batches_wait_for_seconds_at_a_time_and_run_for_longer_between() -> None:
    kept = marked(apart=True)
    made = keeping(kept)
    kept.upkeep = busy = Busy(kept, made.gate, steps=3)
    between: list[bool] = []
    made.wait = lambda _: between.append(made.gate.locked())
    assert made.maintain(NAME) == ""
    assert (busy.limits, between) == ([10, 10, 10], [False, False])


def test_a_compaction_that_makes_no_progress_is_left_and_says_what_ends_that() -> None:
    kept = marked(apart=True)
    made = keeping(kept)
    kept.upkeep = busy = Busy(kept, made.gate, steps=-1)
    found = made.maintain(NAME)
    assert (len(busy.limits), "increase maintenance.hold_seconds" in found) == (1, True)
    assert kept.upkeep.asked[-1] == ("remove", NAME), "unused files are removed all the same"
    assert not made.gate.locked()
    lines = "\n".join(status_lines(kept))
    assert "maintenance: batches commit first, and 10 s without them did not suffice" in lines
    made.plan = Plan(every=1, hold_seconds=0)
    assert made.maintain(NAME) == "another writer committed first"
    assert len(busy.limits) == 1, "batches never wait"
    # With more time, or without batches.
    busy.steps, made.plan = 1, Plan(every=1, hold_seconds=60)
    assert made.maintain(NAME) == ""
    assert "maintenance" not in "\n".join(status_lines(kept))


class Unpurged(MemoryUpkeep):
    """A table of which batches write to, while its markers are purged."""

    def __init__(self, kept: MemoryWarehouse, gate: threading.Lock) -> None:
        super().__init__(kept.tables)
        self._gate = gate
        self.held: list[tuple[str, bool, float | None]] = []
        self.is_long = False
        """Whether a purge has no time to end."""

    def sources_if_old(self, name: Name, before: int) -> Collection[str]:
        self.held.append(("look", self._gate.locked(), None))
        return super().sources_if_old(name, before)

    def purge(self, name: Name, before: int, *, seconds: float | None = None) -> None:
        self.held.append(("purge", self._gate.locked(), seconds))
        if not self._gate.locked():
            raise CommitConflict
        if self.is_long:
            raise OutOfTime
        super().purge(name, before)


def test_markers_are_looked_for_beside_batches_and_purged_in_bounded_time() -> None:
    kept = marked(apart=True)
    made = keeping(kept)
    kept.upkeep = busy = Unpurged(kept, made.gate)
    assert made.maintain(NAME) == ""
    assert busy.held == [("look", False, None), ("purge", False, None), ("purge", True, 10)]
    assert left(kept) == [3]


def test_a_purge_that_has_no_time_to_end_prevents_no_compaction() -> None:
    kept = marked(apart=True)
    made = keeping(kept)
    kept.upkeep = busy = Unpurged(kept, made.gate)
    busy.is_long = True
    assert "increase maintenance.hold_seconds" in made.maintain(NAME)
    assert kept.upkeep.asked == [("compact", NAME), ("remove", NAME)]
    assert left(kept) == [1, 2, 3]
