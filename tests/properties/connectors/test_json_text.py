"""Generated readers of JSON documents against the plain one, over random documents and broken ones."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mysql.types.json_binary import document_text
from connectors.mysql.types.json_text import Documents
from tests.properties.examples import examples
from tests.unit.connectors.mysql.binary_json import Opaque, document
from tests.unit.connectors.mysql.types.json_functions import at_once

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


@settings(deadline=None, max_examples=examples(300))
@given(
    values=st.lists(VALUES, min_size=1, max_size=25), large=st.sampled_from([False, False, True])
)
def test_a_document_has_the_text_of_the_plain_reader(values: list[Any], large: bool) -> None:
    reader = Documents()
    with at_once():
        for value in values * 2:
            raw = document(value, large=large)
            assert reader.text(raw) == document_text(raw)


@settings(deadline=None, max_examples=examples(300))
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


@settings(deadline=None, max_examples=examples(500))
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_keeps_its_digits(value: float) -> None:
    reader = Documents()
    with at_once():
        reader.text(document({"d": 1.5}))
        text = reader.text(document({"d": value}))
    assert text == document_text(document({"d": value}))
    assert float(json.loads(text, parse_float=Decimal)["d"]) == value
