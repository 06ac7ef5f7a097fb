"""Generated readers of JSON documents against the plain one, over random documents and broken ones."""

from __future__ import annotations

import struct
from unittest import mock

import pytest

from connectors.mysql.types import json_text
from connectors.mysql.types.json_binary import document_text
from connectors.mysql.types.json_text import Documents
from tests.unit.connectors.mysql.binary_json import document
from tests.unit.connectors.mysql.types.json_functions import at_once


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


def test_another_column_has_its_functions_at_once_for_what_was_frequent_in_one() -> None:
    raws = [document({"a": n, "b": [n]}) for n in range(300)]
    other, rare = Documents(), document({"rare": 1, "c": [1, 2]})
    with mock.patch.object(json_text, "_FREQUENT", set()):
        first = Documents()
        for raw in raws:
            assert first.text(raw) == document_text(raw)
        assert first._objects
        for raw in (raws[0], raws[1], rare, rare):
            assert other.text(raw) == document_text(raw)
        assert other._objects.keys() == first._objects.keys()
        assert other._arrays.keys() == first._arrays.keys()
        assert not other._counts
        assert len(json_text._FREQUENT) == 2
    with (
        mock.patch.object(json_text, "_FREQUENT", set()),
        mock.patch.object(json_text, "_MOST_COUNTED", 3),
    ):
        for n in range(9):
            reader = Documents()
            for _ in range(300):
                reader.text(document({f"name{n}": n}))
        assert 0 < len(json_text._FREQUENT) <= 3


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
