"""Generated decoders against the plain readers, over random tables, rows and patterns of NULLs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from unittest import mock

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import MalformedEvent
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.rows import compiled as made_patterns
from connectors.mysql.rows.compiled import CompiledDecoder
from connectors.mysql.rows.counter import row_count
from connectors.mysql.rows.decoder import RowDecoder
from connectors.mysql.types.decimals import decimal_groups, decimal_json, decimal_text
from tests.properties.connectors.row_images import images, packed, tables
from tests.properties.examples import examples
from tests.unit.connectors.mysql.rows.row_events import CHARSETS, event


def plainly(table: TableMap, image: Any, indexes: Any) -> Any:
    if image is None:
        return None
    return orjson.loads(orjson.dumps({table.columns[n].name: image[n] for n in indexes}))


def parsed(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


@settings(deadline=None, max_examples=examples(200))
@given(data=st.data(), table=tables(), patterns=st.sampled_from([0, 2, 32]))
def test_generated_code_says_what_the_plain_readers_say(
    data: st.DataObject, table: TableMap, patterns: int
) -> None:
    rows = data.draw(
        st.lists(images(table), min_size=2, max_size=60).filter(lambda r: len(r) % 2 == 0)
    )
    for kind, present in (
        (EventType.WRITE_ROWS, 1),
        (EventType.UPDATE_ROWS, 2),
        (EventType.DELETE_ROWS, 1),
    ):
        body = event(table, rows, present=present)
        with mock.patch.object(made_patterns, "_MOST_PATTERNS", patterns):
            result = list(CompiledDecoder(table, CHARSETS).decode(kind, body))
        plain = list(RowDecoder(table, CHARSETS).decode(kind, body))
        assert len(result) == len(plain) == row_count(table, kind, body)
        everything, key = range(len(table.columns)), table.primary_key
        for row, change in zip(result, plain, strict=True):
            assert parsed(row.before) == plainly(table, change.before, everything)
            assert parsed(row.after) == plainly(table, change.after, everything)
            assert parsed(row.old_key) == (plainly(table, change.before, key) if key else None)
            assert parsed(row.new_key) == (plainly(table, change.after, key) if key else None)


@settings(deadline=None, max_examples=examples(50))
@given(data=st.data(), table=tables())
def test_a_row_that_is_cut_is_refused_and_never_padded(
    data: st.DataObject, table: TableMap
) -> None:
    body = event(table, [data.draw(images(table))], present=1)
    head = len(event(table, [], present=1))
    cut = data.draw(st.integers(head + 1, len(body)))
    if cut == len(body):
        return
    with pytest.raises(MalformedEvent):
        list(CompiledDecoder(table, CHARSETS).decode(EventType.WRITE_ROWS, body[:cut]))


@settings(deadline=None, max_examples=examples(300))
@given(data=st.data(), precision=st.integers(1, 65))
def test_a_decimal_is_the_same_by_both_ways(data: st.DataObject, precision: int) -> None:
    scale = data.draw(st.integers(0, min(30, precision)))
    digits = data.draw(st.integers(0, 10**precision - 1))
    negative = data.draw(st.booleans())
    raw = packed(digits, precision, scale, negative=negative)
    groups, whole = decimal_groups(precision, scale)
    text = decimal_json(precision, scale)(raw)
    assert text == decimal_text(raw, groups, whole)
    expected = Decimal(f"{digits}E-{scale}")
    assert Decimal(text) == (expected.copy_negate() if negative else expected)
