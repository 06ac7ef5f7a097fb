"""What the ledger keeps of the tables after each batch."""

from __future__ import annotations

import json
from typing import Any

from spark_sink.errors import ReloadRequested
from spark_sink.warehouse.ledger import Entry
from spark_sink.warehouse.memory import MemoryWarehouse
from spark_sink.warehouse.milestone_recorder import MilestoneRecorder
from spark_sink.warehouse.milestones import Milestone, Position, Share, batches
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.waiting_tables import Waits

NAME = ("shop", "t")
SHAPE = Shape(*NAME, (("id", "int"),), ("id",))


def row(key: int, seq: int) -> dict[str, Any]:
    return {
        "id": key, "__destination": "shop", "__epoch": 1, "__seq": seq, "__deleted": False,
        "__schema": 1, "__ts_ms": seq * 10, "__unrepresentable": None,
    }  # fmt: skip


def share(at_ms: int, partition: int, first: int, last: int, text: str | None = None) -> Share:
    return Share(at_ms, "q", "a", partition, first, last, text)


def merge(warehouse: MemoryWarehouse, recorder: MilestoneRecorder, key: int, seq: int) -> Milestone:
    """One batch of a row, with its entry in the ledger."""
    recorder.begin()
    recorder.reach({"shop": Position(1, seq, seq * 10, f"u:{seq}")})
    recorder.wrote(NAME)
    warehouse.tables.merge(SHAPE, [row(key, seq)])
    milestone = recorder.milestone((), is_whole=False)
    entry = Entry(
        query_id="q", batch_id=seq, topic="a", partition=0, from_offset=seq - 1, until_offset=seq,
        records=1, applied_at_ms=seq, milestone=milestone.text(),
    )  # fmt: skip
    warehouse.ledger.append([entry])
    return milestone


def test_each_batch_has_the_newest_change_and_the_version_of_every_table() -> None:
    warehouse = MemoryWarehouse()
    warehouse.tables.evolve(None, SHAPE)
    recorder = MilestoneRecorder(warehouse)
    assert merge(warehouse, recorder, 1, 5).versions == {NAME: 1}
    second = merge(warehouse, recorder, 2, 4)
    assert second.reached["shop"] == Position(1, 5, 50)
    assert second.versions == {NAME: 2}
    again = MilestoneRecorder(warehouse)
    third = merge(warehouse, again, 3, 6)
    assert third.reached["shop"].transaction == "u:6"


def test_changes_that_a_killed_process_has_left_in_a_table_are_found() -> None:
    warehouse = MemoryWarehouse()
    warehouse.tables.evolve(None, SHAPE)
    merge(warehouse, MilestoneRecorder(warehouse), 1, 5)
    # It was killed before the ledger was written, and the next batch is a smaller one.
    warehouse.tables.merge(SHAPE, [row(9, 90)])
    milestone = merge(warehouse, MilestoneRecorder(warehouse), 2, 6)
    assert milestone.reached["shop"] == Position(1, 90, 900)
    assert milestone.reached["shop"].transaction == ""


def test_changes_of_a_rebuilt_table_are_found() -> None:
    warehouse = MemoryWarehouse()
    warehouse.tables.evolve(None, SHAPE)
    recorder = MilestoneRecorder(warehouse)
    merge(warehouse, recorder, 1, 5)
    warehouse.tables.replace(SHAPE, [row(1, 5), row(2, 70)])
    recorder.rebuilt(NAME)
    assert merge(warehouse, recorder, 3, 6).reached["shop"] == Position(1, 70, 700)


def test_a_table_that_was_dropped_is_in_no_later_milestone_after_a_restart_either() -> None:
    warehouse = MemoryWarehouse()
    warehouse.tables.evolve(None, SHAPE)
    recorder = MilestoneRecorder(warehouse)
    merge(warehouse, recorder, 1, 5)
    warehouse.tables.drop(*NAME)
    again = MilestoneRecorder(warehouse)
    again.begin()
    assert again.milestone((), is_whole=False).versions == {}
    recorder.rebuilt(NAME)
    assert recorder.milestone((), is_whole=False).versions == {}


def test_a_milestone_says_up_to_where_ddl_is_carried_out_and_an_older_one_up_to_nowhere() -> None:
    stored = Milestone(reached={}, versions={}, ddl={"shop": (1, 7)}).text()
    read = Milestone.of(stored)
    assert read is not None
    assert read.ddl == {"shop": (1, 7)}
    body = json.loads(stored)
    del body["ddl"]
    older = Milestone.of(json.dumps(body))
    assert older is not None
    assert older.ddl == {}


def test_batches_know_what_was_merged_before_the_first_share_that_is_left() -> None:
    text = Milestone(reached={}, versions={}).text()
    one, two, three = batches(
        [share(30, 1, 7, 9), share(10, 0, 2, 4, text), share(20, 0, 4, 6), share(30, 0, 6, 6)]
    )
    assert [batch.at_ms for batch in (one, two, three)] == [10, 20, 30]
    assert one.until == {("a", 0): 4, ("a", 1): 7}
    assert three.until == {("a", 0): 6, ("a", 1): 9}
    assert one.milestone is not None
    assert (two.milestone, three.milestone) == (None, None)


def test_a_milestone_of_a_later_version_is_not_read() -> None:
    body = json.loads(Milestone(reached={}, versions={}).text())
    assert Milestone.of(json.dumps({**body, "version": 2})) is None


def test_batches_and_waits_are_in_their_order_though_the_clock_is_set_back() -> None:
    warehouse = MemoryWarehouse()
    warehouse.tables.evolve(None, SHAPE)
    recorder, now = MilestoneRecorder(warehouse), [2_000.0]
    waits = Waits(warehouse.waits, lambda: now[0])
    moments: list[int] = []

    def batch(until: int) -> None:
        recorder.begin()
        moments.append(recorder.moment(now[0], waits))
        milestone = recorder.milestone((), is_whole=True).text()
        entry = Entry(
            query_id="q", batch_id=until, topic="a", partition=0, from_offset=until - 1,
            until_offset=until, records=1, applied_at_ms=moments[-1], milestone=milestone,
        )  # fmt: skip
        warehouse.ledger.append([entry])

    def wait() -> None:
        waits.begin(NAME, ReloadRequested(), {})
        moments.append(waits.tables[NAME].since_ms)

    for number, step in enumerate((0, 86_400, -86_400, -3_600, 1), start=1):
        now[0] += step
        batch(2 * number - 1)
        wait()
        if number == 3:
            # A restart, after which only what is stored is known.
            recorder, waits = MilestoneRecorder(warehouse), Waits(warehouse.waits, lambda: now[0])
            waits.refresh()
        batch(2 * number)
    assert moments == sorted(set(moments))
    found = warehouse.ledger.batches()
    assert [one.until["a", 0] for one in found] == list(range(1, 11)), (
        "none is lost or out of order"
    )
    assert [one.at_ms for one in found] == [
        one for one in moments if one in {b.at_ms for b in found}
    ]
