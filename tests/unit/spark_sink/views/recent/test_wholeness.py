"""Which offsets count as whole."""

from __future__ import annotations

from spark_sink.views.recent.wholeness import Wholeness

A, B = ("aq.shop.a", 0), ("aq.shop.b", 0)


def test_what_was_shown_is_whole_once_the_ends_since_are_covered() -> None:
    wholeness = Wholeness()
    assert wholeness.covered({A: 3, B: 1}) is None
    wholeness.seen({A: 3, B: 1}, {A: 3, B: 4})
    assert wholeness.covered({A: 3, B: 3}) is None
    wholeness.seen({A: 3, B: 3}, {A: 9, B: 4})
    assert wholeness.covered({A: 3, B: 4}) == {A: 3, B: 1}
    assert wholeness.covered({A: 9, B: 4}) == {A: 3, B: 3}


def test_a_partition_that_is_not_covered_at_all_counts_if_it_has_records() -> None:
    wholeness = Wholeness()
    wholeness.seen({A: 1}, {A: 1, B: 0})
    assert wholeness.covered({A: 1}) == {A: 1}
    wholeness.seen({A: 2}, {A: 2, B: 1})
    assert wholeness.covered({A: 2}) == {A: 1}


def test_the_newest_of_many_samples_is_kept() -> None:
    wholeness = Wholeness()
    for offset in range(1, 1001):
        wholeness.seen({A: offset}, {A: 5_000 + offset})
    assert len(wholeness._samples) <= 100
    assert wholeness.covered({A: 6_000}) == {A: 1_000}
