"""Any assignment is even, and stays the same once all destinations have moved."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from app.worker.coordination.assignment import DestinationView, leaders

WORKERS = ("a", "b", "c", "d")


@st.composite
def views(draw: st.DrawFn) -> dict[str, DestinationView]:
    count = draw(st.integers(0, 12))
    return {
        f"d{n}": DestinationView(
            candidates=draw(st.frozensets(st.sampled_from(WORKERS))),
            leader=draw(st.sampled_from((None, *WORKERS))),
        )
        for n in range(count)
    }


@given(views())
def test_a_second_look_after_all_have_moved_moves_nothing(
    view: dict[str, DestinationView],
) -> None:
    wanted = leaders(view)
    assert set(wanted) == {name for name, each in view.items() if each.candidates}
    assert all(worker in view[name].candidates for name, worker in wanted.items())
    moved = {
        name: DestinationView(candidates=each.candidates, leader=wanted.get(name))
        for name, each in view.items()
    }
    assert leaders(moved) == wanted


@given(views())
def test_no_destination_could_go_to_a_worker_with_two_fewer(
    view: dict[str, DestinationView],
) -> None:
    wanted = leaders(view)
    load = Counter(wanted.values())
    for name, worker in wanted.items():
        assert all(load[worker] - load[other] < 2 for other in view[name].candidates)
