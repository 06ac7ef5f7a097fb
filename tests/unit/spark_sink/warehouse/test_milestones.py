"""What the ledger keeps of the tables after each batch."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from spark_sink.errors import ReloadRequested, TableReplaced
from spark_sink.warehouse.ledger import Entry, Floor, Source
from spark_sink.warehouse.milestone_recorder import MilestoneRecorder
from spark_sink.warehouse.milestones import (
    Commit,
    Milestone,
    Position,
    Share,
    batches,
    in_order,
    last_of_sinks,
)
from spark_sink.warehouse.protocol import Name, Standing
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.waiting_tables import Request, Waits
from tests.harness.memory_warehouse import MemoryCommits, MemoryUpkeep, MemoryWarehouse

NAME, OTHER = ("shop", "t"), ("shop", "u")
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
    warehouse.log.append([entry])
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
    for version in (2, 3):
        assert Milestone.of(json.dumps({**body, "version": version})) is None


def test_batches_and_waits_are_in_their_order_though_the_clock_is_set_back() -> None:
    warehouse = MemoryWarehouse()
    warehouse.tables.evolve(None, SHAPE)
    recorder, now = MilestoneRecorder(warehouse), [2_000.0]
    waits = Waits(warehouse.log, lambda: now[0])
    moments: list[int] = []

    def batch(until: int) -> None:
        recorder.begin()
        moments.append(recorder.moment(now[0], waits))
        milestone = recorder.milestone((), is_whole=True).text()
        entry = Entry(
            query_id="q", batch_id=until, topic="a", partition=0, from_offset=until - 1,
            until_offset=until, records=1, applied_at_ms=moments[-1], milestone=milestone,
        )  # fmt: skip
        warehouse.log.append([entry])

    def wait() -> None:
        waits.begin(NAME, ReloadRequested(), {})
        moments.append(waits.tables[NAME].since_ms)

    for number, step in enumerate((0, 86_400, -86_400, -3_600, 1), start=1):
        now[0] += step
        batch(2 * number - 1)
        wait()
        if number == 3:
            # A restart, after which only what is stored is known.
            recorder, waits = MilestoneRecorder(warehouse), Waits(warehouse.log, lambda: now[0])
            waits.refresh()
        batch(2 * number)
    assert moments == sorted(set(moments))
    found = warehouse.log.batches()
    assert [one.until["a", 0] for one in found] == list(range(1, 11)), (
        "none is lost or out of order"
    )
    assert [one.at_ms for one in found] == [
        one for one in moments if one in {b.at_ms for b in found}
    ]


MANY = [("shop", f"table_{number:04d}") for number in range(5000)]


def changed(rng: random.Random, before: Milestone, tables: list[Name]) -> Milestone:
    """A milestone after a batch of these tables."""
    floors = {(one.database, one.table): one for one in before.floors}
    versions, left, beside = dict(before.versions), dict(before.left), dict(before.beside)
    for name in tables:
        versions[name] = versions.get(name, 0) + rng.choice((1, 2))
        left[name] = Commit(versions[name], f"{rng.randrange(16**12):012x}")
        match rng.randrange(8):
            case 0:
                beside["markers", *name] = Commit(rng.randrange(99), "m")
            case 1:
                seq = rng.randrange(99)
                floors[name] = Floor(
                    database=name[0], table=name[1], source=Source("shop", *name), epoch=1, seq=seq, ts_ms=0
                )  # fmt: skip
            case 2:
                for held in (versions, left, floors):
                    held.pop(name, None)
                beside.pop(("markers", *name), None)
    return Milestone(
        reached={"shop": Position(1, rng.randrange(99), 5, "u:1")},
        versions=versions,
        left=left,
        beside=beside,
        floors=in_order(floors.values()),
        existing={name: {"shop": (1, 2)} for name in tables[:1]},
        sink="s",
    )


def test_a_batch_of_few_tables_among_5000_adds_few_bytes_to_the_ledger_and_all_can_be_read() -> (
    None
):
    rng, recorder = random.Random(5), MilestoneRecorder(MemoryWarehouse(), sink="s")
    milestone = changed(rng, Milestone(reached={}, versions={}), MANY)
    shares, stated = [], []
    for number in range(104):
        milestone = changed(rng, milestone, rng.sample(MANY, 25))
        shares.append(share(number, 0, number, number + 1, recorder.text(milestone)))
        recorder.stored(milestone)
        stated.append(milestone)
    sizes = sorted(len(one.milestone or "") for one in shares)
    whole = len(milestone.text())
    assert sizes[-2] > 0.5 * whole, "at the start, and after each hundred"
    assert sizes[-3] < 5_000
    assert sum(sizes) / len(sizes) < whole / 30
    found = batches(shares)
    assert [one.milestone for one in found] == stated
    # Most of what they have is the same, and there once.
    read = [one.milestone for one in found if one.milestone is not None]
    assert len({id(one.beside) for one in read}) < len(read)
    texts = [(one.at_ms, one.milestone) for one in reversed(shares)]
    assert last_of_sinks(texts) == [(103, milestone)]
    # A text of an earlier version of the sink, which has all, and no link.
    assert last_of_sinks([(7, milestone.text())]) == [(7, milestone)]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_linked_is_read_as_it_was_stored_whatever_failed_between(seed: int) -> None:
    rng = random.Random(seed)
    tables = MANY[:6]
    milestone, shares, stated = Milestone(reached={}, versions={}), [], []
    recorder = MilestoneRecorder(MemoryWarehouse(), sink="s")
    for number in range(240):
        milestone = changed(rng, milestone, rng.sample(tables, rng.randrange(4)))
        text = recorder.text(milestone)
        what = rng.randrange(20)
        if what == 0:
            # Not known to be stored: it is, or is not.
            if rng.randrange(2):
                shares.append(share(number, 0, number, number + 1, text))
                stated.append((number, milestone))
            continue
        shares.append(share(number, 0, number, number + 1, text))
        stated.append((number, milestone))
        recorder.stored(milestone)
        if what == 1:
            recorder = MilestoneRecorder(MemoryWarehouse(), sink="s")
    found = batches(shares)
    assert [(one.at_ms, one.milestone) for one in found] == stated
    # Without a part of them, no other milestone than the one that was stored is read.
    lost = rng.sample(shares, len(shares) - 5)
    read = {one.at_ms: one.milestone for one in batches(lost)}
    assert all(one in (None, dict(stated)[at_ms]) for at_ms, one in read.items())


def test_maintenance_of_one_table_adds_few_bytes_too_and_the_next_batch_is_read() -> None:
    warehouse = MemoryWarehouse()
    sink = Sink(warehouse)
    first = sink.batch(1, *MANY[:300])
    sink.recorder.wrote(MANY[3])
    warehouse.tables.merge(Shape(*MANY[3], SHAPE.columns, SHAPE.key), [row(3, 3)])
    sink.recorder.restate()
    again = sink.batch(2, MANY[4])
    texts = [one["milestone"] or "" for one in warehouse.log._read().batches.values()]
    assert len(texts[0]) > 10_000
    assert max(len(text) for text in texts[1:]) < 1_000
    one, two = warehouse.log.batches()
    assert one.milestone is not None
    assert one.milestone.versions == {**first.versions, MANY[3]: first.versions[MANY[3]] + 1}
    assert two.milestone == again
    # Of another sink's batch, which has no part in the link.
    other = Sink(warehouse, "b")
    other.batch(3, MANY[5])
    sink.recorder.wrote(MANY[3])
    warehouse.tables.merge(Shape(*MANY[3], SHAPE.columns, SHAPE.key), [row(4, 4)])
    sink.recorder.begin()
    sink.recorder.restate()
    sink.batch(4, MANY[6])
    assert all(one.milestone is not None for one in warehouse.log.batches())


class Sink:
    """One of two sinks of a warehouse, as it starts."""

    def __init__(self, warehouse: MemoryWarehouse, name: str = "", *, seconds: float = 0.0) -> None:
        self.warehouse = warehouse
        self.seconds = seconds
        """The time of its host, in which all that it does happens."""
        warehouse.notes.write(f"__sinks/{name or 'default.unnamed'}.json", "{}")
        self.waits = Waits(warehouse.log, lambda: self.seconds, sink=name)
        self.recorder = MilestoneRecorder(warehouse, sink=name)
        self.waits.refresh()
        self.recorder.integrity.begin((), self.waits.tables.values())

    def batch(self, until: int, *names: tuple[str, str]) -> Milestone:
        """A batch that merges these tables; the waits are those that it began with."""
        self.recorder.begin()
        for name in names:
            shape = Shape(*name, SHAPE.columns, SHAPE.key)
            self.warehouse.tables.evolve(None, shape)
            self.recorder.integrity.checked(name)
            self.recorder.wrote(name)
            self.warehouse.tables.merge(shape, [row(until, until)])
        milestone = self.recorder.milestone((), is_whole=False, waiting=self.waits.all_waiting())
        entry = Entry(
            query_id="q", batch_id=until, topic="a", partition=0, from_offset=until - 1,
            until_offset=until, records=1, milestone=self.recorder.text(milestone),
            applied_at_ms=self.recorder.moment(self.seconds, self.waits),
        )  # fmt: skip
        self.warehouse.log.append([entry])
        self.recorder.stored(milestone)
        return milestone

    def faults(self) -> list[tuple[tuple[str, str], TableReplaced]]:
        """The tables that are not as the ledger has them."""
        found = self.recorder.integrity.misfits(self.waits.tables, ())
        return [(name, fault) for name, fault in found if isinstance(fault, TableReplaced)]


def test_a_start_loads_no_table_that_is_as_the_sink_left_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warehouse = MemoryWarehouse()
    tables = [("shop", f"t{number}") for number in range(40)]
    first = Sink(warehouse)
    left = first.batch(1, *tables)
    loaded: list[Name] = []
    since, version = MemoryCommits.since, MemoryUpkeep.version

    def loading(self: MemoryCommits, name: Name, commit: Commit | None) -> Standing | None:
        loaded.append(name)
        return since(self, name, commit)

    def asked(self: MemoryUpkeep, name: Name, *, at_least: bool = False) -> int:
        loaded.append(name)
        return version(self, name, at_least=at_least)

    monkeypatch.setattr(MemoryCommits, "since", loading)
    monkeypatch.setattr(MemoryUpkeep, "version", asked)
    again = Sink(warehouse)
    assert again.faults() == []
    again.recorder.begin()
    assert loaded == []
    assert again.batch(2, tables[0]).versions == {**left.versions, tables[0]: 2}
    # One is written by a batch that is killed, one is put back as it was, and one is gone.
    changed, older, gone = tables[:3]
    shape = Shape(*changed, SHAPE.columns, SHAPE.key)
    warehouse.tables.merge(shape, [row(3, 3)])
    for name in (older, gone):
        warehouse.tables.drop(*name)
    warehouse.tables.evolve(None, Shape(*older, SHAPE.columns, SHAPE.key))
    loaded.clear()
    third = Sink(warehouse)
    assert sorted(name for name, _ in third.faults()) == [older, gone]
    third.recorder.begin()
    assert set(loaded) == {changed, older, gone}
    assert third.batch(3, tables[3]).reached["shop"].seq == 3


def test_a_table_is_held_against_the_last_batch_of_the_sink_that_fills_it() -> None:
    warehouse = MemoryWarehouse()
    one = Sink(warehouse)
    one.batch(1, NAME)
    other = Sink(warehouse, "rest")
    newest = one.batch(2, NAME).left
    assert other.batch(3, OTHER).left.keys() == {OTHER}
    # It knows of all tables that have changed since, of the other sink's too.
    assert Sink(warehouse, "rest").batch(4, OTHER).left.keys() == {OTHER}
    assert Sink(warehouse).recorder.integrity.left == newest
    # A single sink has all, also those that it has not merged since its start.
    alone = MemoryWarehouse()
    Sink(alone).batch(1, NAME, OTHER)
    assert Sink(alone).batch(2, NAME).left.keys() == {NAME, OTHER}


def test_a_table_that_another_sink_fills_now_is_that_sink_s() -> None:
    warehouse = MemoryWarehouse()
    Sink(warehouse).batch(1, NAME, OTHER)
    Sink(warehouse, "rest").batch(2, OTHER)
    assert Sink(warehouse).batch(3, NAME).left.keys() == {NAME}
    assert Sink(warehouse, "rest").recorder.integrity.left.keys() == {OTHER}


def test_a_wait_that_ended_while_another_sink_applied_a_batch_is_not_taken_for_lost() -> None:
    warehouse = MemoryWarehouse()
    one, other = Sink(warehouse), Sink(warehouse, "rest", seconds=3_600.0)
    one.batch(1, NAME)
    one.waits.begin(NAME, ReloadRequested(), {("a", 0): 1})
    other.waits.refresh()
    request = Request(number="1", database=NAME[0], table=NAME[1])
    one.waits.loaded(one.waits.tables[NAME], {("a", 0): 1}, request)
    # Its clock is ahead, and it began before the wait ended.
    other.batch(2, OTHER)
    warehouse.tables.replace(SHAPE, [row(1, 1)], cut=(one.waits.tables[NAME].since_ms, {}))
    assert Sink(warehouse).faults() == []
