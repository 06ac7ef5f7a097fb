"""Generated readers of JSON documents against the plain one, over random documents and broken ones."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mysql.rows.compiled import json_text
from connectors.mysql.rows.compiled.json_text import Documents
from connectors.mysql.rows.values.json_binary import document_text
from tests.unit.connectors.mysql.binary_json import Opaque, document

NAMES = ("", "k", "s", "arr", 'a"b', "ключ", "{x}", "b\\n")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-40_000, 70_000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=9),
    st.sampled_from(["x" * 39, 'é"' * 25, "\x01" * 127, "y" * 128, "z" * 300]),
    st.just(Opaque(246, b"\x0c\x02" + bytes([0x80, 0, 0, 0, 12, 50]))),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=12,
)


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Functions are made at the first container of their kind."""
    with mock.patch.object(json_text, "_OFTEN", 1), mock.patch.object(json_text, "_EVERY", 1):
        yield


@settings(deadline=None, max_examples=300)
@given(
    values=st.lists(VALUES, min_size=1, max_size=25), large=st.sampled_from([False, False, True])
)
def test_a_document_has_the_text_of_the_plain_reader(values: list[Any], large: bool) -> None:
    reader = Documents()
    with at_once():
        for value in values * 2:
            raw = document(value, large=large)
            assert reader.text(raw) == document_text(raw)


@settings(deadline=None, max_examples=300)
@given(
    value=VALUES, cut=st.integers(0, 40), flipped=st.tuples(st.integers(0, 40), st.integers(0, 255))
)
def test_a_broken_document_is_read_as_by_the_plain_reader(
    value: Any, cut: int, flipped: tuple[int, int]
) -> None:
    reader = Documents()
    raw = document(value)
    at, byte = flipped
    changed = raw[:at] + bytes([byte]) + raw[at + 1 :] if at < len(raw) else raw
    with at_once():
        reader.text(raw)
        for broken in (raw[: max(1, len(raw) - cut)], changed):
            assert outcome(reader.text, broken) == outcome(document_text, broken)
    assert reader.text(raw) == document_text(raw)


def outcome(read: Any, raw: bytes) -> Any:
    try:
        return read(raw)
    except (IndexError, ValueError, KeyError, struct.error):
        return "refused"


def test_a_document_that_holds_itself_is_refused() -> None:
    reader = Documents()
    inner = document({"a": {"b": 1}})
    # The member's offset is made that of its own container.
    endless = inner[:10] + struct.pack("<H", 0) + inner[12:] if inner[9] == 0 else b""
    assert endless
    with at_once():
        reader.text(inner)
        with pytest.raises(ValueError, match="too deep"):
            reader.text(endless)


@settings(deadline=None, max_examples=500)
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_keeps_its_digits(value: float) -> None:
    reader = Documents()
    with at_once():
        reader.text(document({"d": 1.5}))
        text = reader.text(document({"d": value}))
    assert text == document_text(document({"d": value}))
    assert float(json.loads(text, parse_float=Decimal)["d"]) == value


def test_what_is_remembered_of_ever_new_names_is_bounded() -> None:
    reader = Documents()
    with at_once(), mock.patch.object(json_text, "_MOST_FUNCTIONS", 8):
        for n in range(30):
            raw = document({f"name{n}": n})
            assert reader.text(raw) == document_text(raw)
            assert 0 < len(reader._objects) <= len(reader._alike) <= 8
    often = mock.patch.object(json_text, "_OFTEN", 3)
    with at_once(), often, mock.patch.object(json_text, "_MOST_COUNTED", 8):
        for n in range(30):
            reader.text(document({f"other{n}": n}))
            assert len(reader._counts) <= 8
    assert reader._counts


def test_names_of_the_same_lengths_are_not_taken_for_each_other() -> None:
    reader = Documents()
    with at_once():
        for _ in range(3):
            for name in ("ab", "cd", "zz"):
                raw = document({name: 1, "x": [{name: 2}]})
                assert reader.text(raw) == document_text(raw)


def test_more_members_than_a_byte_counts_are_all_read() -> None:
    reader = Documents()
    with at_once():
        for count in (1, 2, 17, 256, 257, 258, 300):
            for value in (list(range(count)), {f"k{n:03d}": n for n in range(count)}):
                raw = document(value)
                assert reader.text(raw) == document_text(raw)


@pytest.mark.parametrize("kind", [1, 3])
def test_a_count_that_the_document_cannot_hold_is_refused_before_anything_is_made_for_it(
    kind: int,
) -> None:
    with pytest.raises(IndexError):
        document_text(bytes([kind]) + struct.pack("<II", 1_000_000, 8) + bytes(16))
