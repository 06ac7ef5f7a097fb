"""GTID sets against Python's own sets, and in MySQL's own words."""

from __future__ import annotations

import struct
import uuid

import pytest

from connectors.mysql.gtid import GtidSet, split_gtid

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
TAGGED = f"{A}:backup"


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
