"""The order of a merged partition: by time, within a wait, whole and unchanged for each shard."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.worker.merge.ordering import Lane, PartitionOrder

SHARDS = ("a", "b", "c")


def lanes(*shards: str) -> dict[str, Lane]:
    return {shard: Lane(shard) for shard in shards}


def add(lane: Lane, *times: int | None, read_at: float = 0.0) -> None:
    for number, time_ms in enumerate(times):
        lane.add(time_ms, read_at, number, b"k", None if time_ms is None else b"v", [])


def taken(
    order: PartitionOrder, now: float = 0.0, stalled: tuple[str, ...] = ()
) -> list[tuple[str, int]]:
    """What is taken if all lanes are read as of now."""
    for lane in order.lanes:
        lane.read_all(now)
    return [(lane.shard, held.time_ms) for lane, held in order.take(stalled)]


def test_records_come_by_time_as_far_as_every_shard_is_known() -> None:
    a, b = (found := lanes("a", "b")).values()
    order = PartitionOrder(found.values(), wait=None)
    add(a, 1, 3, 5)
    add(b, 2, 4)
    assert taken(order) == [("a", 1), ("b", 2), ("a", 3), ("b", 4)]
    assert taken(order) == []
    b.complete_until(5)
    assert taken(order) == [("a", 5)]


def test_an_empty_shard_is_waited_for_until_it_is_known_to_be_complete() -> None:
    a, b = (found := lanes("a", "b")).values()
    order = PartitionOrder(found.values(), wait=None)
    add(a, 7)
    assert taken(order, now=1e9) == []
    b.complete_until(6)
    assert taken(order, now=1e9) == []
    add(b, 6)
    b.complete_until(7)
    assert taken(order) == [("b", 6), ("a", 7)]


def test_of_several_empty_shards_the_one_that_is_known_least_counts() -> None:
    a, b, c = (found := lanes("a", "b", "c")).values()
    order = PartitionOrder(found.values(), wait=None)
    add(a, 7)
    b.complete_until(9)
    c.complete_until(6)
    assert taken(order) == []
    c.complete_until(7)
    assert taken(order) == [("a", 7)]


def test_a_record_waits_no_longer_than_it_may() -> None:
    a, _ = (found := lanes("a", "b")).values()
    order = PartitionOrder(found.values(), wait=2.0)
    add(a, 7, read_at=10.0)
    add(a, 8, read_at=11.0)
    assert taken(order, now=11.9) == []
    assert taken(order, now=12.0) == [("a", 7)]
    assert taken(order, now=13.0) == [("a", 8)]


def test_a_record_waits_until_all_is_read_that_came_while_it_waited() -> None:
    a, b, c = (found := lanes("a", "b", "c")).values()
    order = PartitionOrder(found.values(), wait=2.0)
    add(a, 7, 9, read_at=10.0)
    b.complete_until(7)
    c.read_all(1e9)
    # Of c nothing is known, and nothing is to be read; b is not needed before its time.
    assert [held.time_ms for _, held in order.take()] == [7]
    b.read_all(11.9)
    assert order.take() == []
    # A dead shard is not waited for all the same.
    assert [held.time_ms for _, held in order.take(("b",))] == [9]
    add(a, 11, read_at=10.0)
    b.read_all(12.0)
    assert [held.time_ms for _, held in order.take()] == [11]


def test_what_comes_too_late_is_published_and_counted() -> None:
    a, b = (found := lanes("a", "b")).values()
    order = PartitionOrder(found.values(), wait=0.0)
    add(a, 9)
    assert taken(order, now=1.0) == [("a", 9)]
    add(b, 4, 10)
    add(a, 11)
    assert taken(order, now=1.0) == [("b", 4), ("b", 10), ("a", 11)]
    assert order.late == 1


def test_a_stalled_shard_holds_nobody_up_and_its_records_wait_for_nobody() -> None:
    a, b = (found := lanes("a", "b")).values()
    order = PartitionOrder(found.values(), wait=100.0)
    add(a, 50, 51)
    assert taken(order) == []
    assert taken(order, stalled=("b",)) == [("a", 50), ("a", 51)]
    add(b, 10, 12)
    add(a, 52)
    assert taken(order, stalled=("b",)) == [("b", 10), ("b", 12), ("a", 52)]
    assert order.late == 2


def test_a_tombstone_and_an_earlier_time_follow_the_record_before() -> None:
    a, b = (found := lanes("a", "b")).values()
    order = PartitionOrder(found.values(), wait=None)
    add(a, 5, None, 3, 8)
    add(b, 4, 6, 9)
    assert taken(order) == [("b", 4), ("a", 5), ("a", 5), ("a", 5), ("b", 6), ("a", 8)]


@pytest.mark.parametrize(("value", "headers"), [(None, 0), (100, 0), (100, 1), (60, 6), (4000, 1)])
def test_a_lane_knows_how_much_memory_it_holds(value: int | None, headers: int) -> None:
    lane, count = Lane("a"), 3000

    def name(number: int) -> str:
        # As a library decodes it: each record has a text of its own.
        return "".join(["head", f"er{number}"])

    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for offset in range(count):
            more = [(name(number), b"%d" % (offset + 1000)) for number in range(headers)]
            text = None if value is None else b"x" * value
            lane.add(
                1_795_234_567_123 + offset, offset / 7, 10**9 + offset, b"%d" % offset, text, more
            )
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.95 * held <= lane.memory <= 2 * held
    for _ in range(count):
        lane.pop()
    assert lane.memory == 0


def test_an_order_continues_with_another_lane() -> None:
    found = lanes("a", "b")
    before = PartitionOrder([found["a"]], wait=0.0)
    add(found["a"], 9)
    taken(before, now=1.0)
    order = PartitionOrder(found.values(), wait=0.0)
    order.resume(before)
    add(found["b"], 4)
    taken(order, now=1.0)
    assert order.late == 1


@given(
    st.dictionaries(st.sampled_from(SHARDS), st.lists(st.integers(1, 50), max_size=20)),
    st.randoms(use_true_random=False),
    st.sampled_from([None, 0.0, 3.0]),
    st.sets(st.sampled_from(SHARDS)),
)
def test_each_record_is_released_once_in_its_shard_s_order(
    times: dict[str, list[int]], chance: object, wait: float | None, stalled: set[str]
) -> None:
    found = lanes(*SHARDS)
    order = PartitionOrder(found.values(), wait=wait)
    rest = {shard: list(each) for shard, each in times.items()}
    released: list[tuple[str, int]] = []
    now = 0.0
    while any(rest.values()):
        shard = chance.choice(sorted(name for name, each in rest.items() if each))  # type: ignore[attr-defined]
        found[shard].add(rest[shard].pop(0), now, len(rest[shard]), None, b"v", [])
        now += 1.0
        for lane in found.values():
            lane.read_all(now)
        released += [(lane.shard, held.offset) for lane, held in order.take(stalled)]
    for lane in found.values():
        lane.complete_until(1000)
    released += [(lane.shard, held.offset) for lane, held in order.take()]
    for shard in SHARDS:
        mine = [offset for name, offset in released if name == shard]
        assert mine == list(reversed(range(len(times.get(shard, [])))))


@given(st.lists(st.tuples(st.sampled_from(SHARDS), st.integers(1, 50)), max_size=60))
def test_without_a_limit_records_of_clocks_that_go_forward_come_by_time(
    arrivals: list[tuple[str, int]],
) -> None:
    found = lanes(*SHARDS)
    order = PartitionOrder(found.values(), wait=None)
    released: list[int] = []
    last = dict.fromkeys(SHARDS, 0)
    for shard, step in arrivals:
        last[shard] += step
        found[shard].add(last[shard], 0.0, 0, None, b"v", [])
        released += [held.time_ms for _, held in order.take()]
    assert all(before <= after for before, after in itertools.pairwise(released))
    assert order.late == 0
    if all(last.values()):
        assert len(released) >= sum(1 for _ in arrivals) - sum(
            len(one.records) for one in found.values()
        )


@pytest.mark.parametrize("stalled", [(), ("b",)])
def test_nothing_held_gives_nothing(stalled: tuple[str, ...]) -> None:
    assert taken(PartitionOrder(lanes("a", "b").values(), wait=0.0), 1.0, stalled) == []
