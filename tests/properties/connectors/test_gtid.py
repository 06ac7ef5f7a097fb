"""GTID sets against Python's own sets."""

from __future__ import annotations

import pickle

from hypothesis import example, given
from hypothesis import strategies as st

from connectors.mysql.gtid import GtidSet

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

B = "4e11fa47-71ca-11e1-9e33-c80aa9429562"

TAGGED = f"{A}:backup"

Members = set[tuple[str, int]]

members = st.sets(st.tuples(st.sampled_from([A, B, TAGGED]), st.integers(1, 30)), max_size=40)

orders = st.randoms(use_true_random=False)


def made(of: Members) -> GtidSet:
    found = GtidSet()
    found.update(f"{source}:{number}" for source, number in of)
    return found


@given(one=members, random=orders)
def test_a_set_holds_what_was_added_in_whatever_order(one: Members, random: object) -> None:
    listed = sorted(one)
    random.shuffle(listed)  # type: ignore[attr-defined]
    found = GtidSet()
    found.update(f"{source}:{number}" for source, number in listed)
    for source in (A, B, TAGGED):
        for number in range(1, 33):
            assert (f"{source}:{number}" in found) == ((source, number) in one)
    assert found == made(one)


@given(one=members)
def test_a_set_is_the_same_after_its_text(one: Members) -> None:
    assert GtidSet.parse(str(made(one))) == made(one)
    assert bool(made(one)) == bool(one)


@given(one=members, other=members)
@example(one={(A, 1), (A, 3)}, other={(A, 1), (A, 2), (A, 3)})
@example(one={(A, 1)}, other={(TAGGED, 1)})
def test_subset_and_equality_are_those_of_sets(one: Members, other: Members) -> None:
    assert made(one).issubset(made(other)) == (one <= other)
    assert made(one).issubset(made(one | other))
    assert (made(one) == made(other)) == (one == other)
    assert made(one).without(made(other)) == made(one - other)


@given(one=members, first=st.integers(1, 30), length=st.integers(0, 30))
def test_an_interval_is_all_of_its_numbers(one: Members, first: int, length: int) -> None:
    found = made(one)
    found.add_interval(A, first, first + length)
    assert found == made(one | {(A, number) for number in range(first, first + length + 1)})


@given(one=members, other=members)
def test_a_merged_set_holds_both(one: Members, other: Members) -> None:
    found, merged = made(one), made(other)
    found.merge(merged)
    assert found == made(one | other)
    assert merged == made(other)
    found.add(f"{A}:31")
    assert merged == made(other)


@given(one=members)
def test_a_set_is_the_same_after_its_bytes_and_after_pickling(one: Members) -> None:
    assert GtidSet.decode(made(one).encode()) == made(one)
    assert pickle.loads(pickle.dumps(made(one))) == made(one)


@given(one=members, added=st.integers(1, 30))
def test_a_copy_does_not_change_with_what_it_was_copied_from(one: Members, added: int) -> None:
    found = made(one)
    copied = found.copy()
    found.add(f"{A}:{added}")
    assert copied == made(one)
