"""GTID sets against Python's own sets, and in MySQL's own words."""

from __future__ import annotations

import pickle
import struct
import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.mysql.gtid import GtidSet, split_gtid

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


def test_a_set_without_tags_is_written_in_the_form_that_old_servers_know() -> None:
    encoded = GtidSet.parse(f"{A}:1-5:7").encode()
    spans = struct.pack("<QQQQQ", 2, 1, 6, 7, 8)
    assert encoded == struct.pack("<Q", 1) + uuid.UUID(A).bytes + spans


def test_a_set_with_tags_says_so_twice_and_has_a_tag_for_each_source() -> None:
    encoded = GtidSet.parse(f"{A}:1:backup:2").encode()
    source = uuid.UUID(A).bytes
    untagged = source + b"\0" + struct.pack("<QQQ", 1, 1, 2)
    tagged = source + b"\x0cbackup" + struct.pack("<QQQ", 1, 2, 3)
    assert encoded == bytes([1, 2, 0, 0, 0, 0, 0, 1]) + untagged + tagged


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<Q", 2 << 56),
        struct.pack("<Q", 0) + b"more",
        struct.pack("<Q", 1) + bytes(16) + struct.pack("<QQQ", 1, 5, 5),
        struct.pack("<Q", 1) + bytes(16) + struct.pack("<QQ", 1, 5),
        struct.pack("<Q", 1 << 56 | 1 << 8 | 1) + bytes(16) + b"\x04a b" + bytes(8),
        b"short",
    ],
)
def test_bytes_that_are_no_set_are_refused(data: bytes) -> None:
    with pytest.raises((ValueError, struct.error)):
        GtidSet.decode(data)


@given(one=members, added=st.integers(1, 30))
def test_a_copy_does_not_change_with_what_it_was_copied_from(one: Members, added: int) -> None:
    found = made(one)
    copied = found.copy()
    found.add(f"{A}:{added}")
    assert copied == made(one)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        (f"{A}:1-5:7", f"{A}:1-5:7"),
        (f"{A}:7:1-5:6", f"{A}:1-7"),
        (f"{A.upper()}:1", f"{A}:1"),
        (f"{B}:1,\n{A}:2", f"{A}:2,{B}:1"),
        (f"{A}:1,{A}:2", f"{A}:1-2"),
        (f"{A}:1-3:backup:1-2:4", f"{A}:1-3:backup:1-2:4"),
        (f"{A}:b:2:1-3,{A}:a:1,{B}:1", f"{A}:a:1:b:1-3,{B}:1"),
        (f"{A}:Backup:1", f"{A}:backup:1"),
        (f"{A}:999999:1000000", f"{A}:999999-1000000"),
        (f"{A}:9223372036854775806", f"{A}:9223372036854775806"),
        (f" {A}:1 ,", f"{A}:1"),
    ],
)
def test_mysqls_text_is_read_and_printed_in_its_normal_form(text: str, printed: str) -> None:
    assert str(GtidSet.parse(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        A,
        f"{A}:",
        f"{A}:0",
        f"{A}:0-5",
        f"{A}:-5",
        f"{A}:5-3",
        f"{A}:1--3",
        f"{A}:1;{B}:1",
        f"{A[:-1]}:1",
        f"{A}:backup",
        f"{A}:1:backup",
        f"{A}:backup:other:1",
        f"{A}:{'t' * 33}:1",
        f"{A}:1x",
    ],
)
def test_what_is_no_set_of_gtids_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        GtidSet.parse(text)


def test_a_gtid_is_parted_into_its_source_and_its_number() -> None:
    assert split_gtid(f"{A}:23") == (A, 23)
    assert split_gtid(f"{TAGGED}:23") == (TAGGED, 23)


def test_a_set_can_be_pasted_from_its_representation() -> None:
    assert repr(GtidSet.parse(f"{A}:1")) == f"GtidSet.parse('{A}:1')"
