from collections import Counter

from bench.contents import Contents
from bench.workloads import small

RECIPE = small("x", 10)


def whole() -> Contents:
    return Contents(
        ops=Counter(c=10, u=2, d=1),
        creates=Counter({("t", str(key).encode()): 1 for key in range(10)}),
        messages=13,
        tombstones=1,
    )


def test_all_rows_and_no_others_are_no_fault() -> None:
    assert whole().faults(RECIPE, tombstones=True) == []


def test_a_lost_update_is_a_fault() -> None:
    contents = whole()
    contents.ops["u"] -= 1
    assert contents.faults(RECIPE, tombstones=True) == ["1 records with op u, not 2"]


def test_a_row_that_came_twice_instead_of_another_is_a_fault() -> None:
    contents = whole()
    del contents.creates["t", b"7"]
    contents.creates["t", b"3"] += 1
    assert contents.faults(RECIPE, tombstones=True) == ["9 keys created, not 10"]


def test_a_missing_tombstone_is_a_fault_only_of_a_peer_that_writes_them() -> None:
    contents = whole()
    contents.tombstones = 0
    assert contents.faults(RECIPE, tombstones=False) == []
    assert contents.faults(RECIPE, tombstones=True) == ["0 tombstones, not 1"]


def test_a_record_of_another_kind_is_a_fault() -> None:
    contents = whole()
    contents.ops["r"] = 1
    assert contents.faults(RECIPE, tombstones=True) == ["1 records with op r, not 0"]
