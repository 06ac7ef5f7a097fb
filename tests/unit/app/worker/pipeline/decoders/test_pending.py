"""Outcomes are taken in the order of their portions, in whatever order they arrive."""

from __future__ import annotations

from app.worker.pipeline.decoders.pool import Limits, Pending
from connectors.errors import SourceLost, UnsupportedEvent


def taken(pending: Pending) -> list[object]:
    found = []
    while pending.has_next:
        found.append(pending.next())
        if len(pending):
            pending.took()
    return found


def test_outcomes_are_taken_in_the_order_in_which_portions_were_put() -> None:
    pending = Pending(Limits())
    numbers = [pending.put(10) for _ in range(4)]
    for number in (2, 1, 3):
        pending.came(number, f"piece {number}")
    assert taken(pending) == []
    pending.came(0, "piece 0")
    assert taken(pending) == [f"piece {number}" for number in numbers]
    assert (len(pending), pending.bytes, pending.taken) == (0, 0, 4)


def test_the_end_comes_after_all_outcomes_and_only_the_first_one_counts() -> None:
    pending, end = Pending(Limits()), SourceLost("gone")
    pending.put(1)
    before = pending.has_end
    pending.end(end)
    pending.end(SourceLost("again"))
    assert (before, pending.has_end) == (False, True)
    pending.came(0, "piece 0")
    assert taken(pending) == ["piece 0", end]


def test_an_error_of_a_portion_comes_before_the_end() -> None:
    pending, error = Pending(Limits()), UnsupportedEvent("unknown")
    pending.put(1)
    pending.end(SourceLost("gone"))
    pending.came(0, error)
    assert pending.next() is error


def test_there_is_room_below_each_limit() -> None:
    for limits in (Limits(portions=2), Limits(bytes=20)):
        pending = Pending(limits)
        rooms = []
        for _ in range(2):
            pending.put(10)
            rooms.append(pending.has_room)
        pending.came(0, "piece 0")
        rooms.append(pending.has_room)
        assert taken(pending) == ["piece 0"]
        assert [*rooms, pending.has_room] == [True, False, False, True]
