"""The assignment of destinations to workers: even, deterministic, and with minimal moves."""

from __future__ import annotations

from collections import Counter

from app.worker.coordination.assignment import DestinationView, leaders


def seen(candidates: str, leader: str | None = None, ready: str | None = None) -> DestinationView:
    fit = None if ready is None else frozenset(ready)
    return DestinationView(candidates=frozenset(candidates), leader=leader, ready=fit)


def test_destinations_without_a_leader_are_spread_evenly() -> None:
    wanted = leaders({f"d{n}": seen("ab") for n in range(10)})
    assert Counter(wanted.values()) == {"a": 5, "b": 5}


def test_what_a_dead_worker_led_is_spread_and_nothing_else_moves() -> None:
    before = {f"d{n}": "abc"[n % 3] for n in range(9)}
    after = leaders(
        {name: seen("ab", leader if leader != "c" else None) for name, leader in before.items()}
    )
    assert all(after[name] == leader for name, leader in before.items() if leader != "c")
    assert sorted(Counter(after.values()).values()) == [4, 5]


def test_a_worker_that_joins_takes_its_share_and_no_more() -> None:
    after = leaders({f"d{n}": seen("abc", "ab"[n % 2]) for n in range(6)})
    assert Counter(after.values()) == {"a": 2, "b": 2, "c": 2}
    assert sum(after[f"d{n}"] != "ab"[n % 2] for n in range(6)) == 2


def test_one_destination_does_not_move_to_a_worker_that_joins() -> None:
    assert leaders({"d": seen("ab", "a")}) == {"d": "a"}


def test_a_leader_that_is_no_candidate_any_more_is_to_be_followed_by_another() -> None:
    assert leaders({"d": seen("b", "a")}) == {"d": "b"}


def test_a_worker_that_is_not_ready_gets_what_nobody_else_could_lead_and_no_more() -> None:
    all_of_a = {f"d{n}": seen("ab", "a", ready="a") for n in range(6)}
    assert set(leaders(all_of_a).values()) == {"a"}
    assert set(leaders({f"d{n}": seen("ab", ready="a") for n in range(6)}).values()) == {"a"}
    assert leaders({"d": seen("b", ready="")}) == {"d": "b"}
    now_ready = {name: seen("ab", "a", ready="ab") for name in all_of_a}
    assert Counter(leaders(now_ready).values()) == {"a": 3, "b": 3}


def test_a_destination_that_no_worker_can_lead_is_omitted() -> None:
    assert leaders({"d": seen(""), "e": seen("", "a")}) == {}
