"""Rows counted by generated code against the plain walk, over random tables, rows and patterns of NULLs."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import MalformedEvent
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.rows import counter
from connectors.mysql.rows.counter import RowCounter, row_count
from tests.properties.connectors.row_images import images, tables
from tests.properties.examples import examples
from tests.unit.connectors.mysql.rows.row_events import event

KINDS = ((EventType.WRITE_ROWS, 1), (EventType.UPDATE_ROWS, 2), (EventType.DELETE_ROWS, 1))


@settings(deadline=None, max_examples=examples(150))
@given(data=st.data(), table=tables(), patterns=st.sampled_from([0, 2, 64]))
def test_rows_are_counted_as_the_plain_walk_counts_them(
    data: st.DataObject, table: TableMap, patterns: int
) -> None:
    rows = data.draw(st.lists(images(table), min_size=2, max_size=40))
    rows = rows[: len(rows) // 2 * 2]
    with mock.patch.object(counter, "_MOST_PATTERNS", patterns):
        rows_of = RowCounter(table)
        for kind, present in KINDS:
            body = event(table, rows, present=present)
            assert rows_of.count(kind, body) == row_count(table, kind, body) == len(rows) // present


@settings(deadline=None, max_examples=examples(80))
@given(data=st.data(), table=tables())
def test_rows_that_are_cut_are_refused(data: st.DataObject, table: TableMap) -> None:
    rows = data.draw(st.lists(images(table), min_size=1, max_size=4))
    body = event(table, rows, present=1)
    first = len(body) - sum(map(len, rows))
    ends = {first + sum(map(len, rows[:n])) for n in range(len(rows) + 1)}
    cut = data.draw(st.integers(first, len(body)).filter(lambda at: at not in ends))
    with pytest.raises(MalformedEvent):
        RowCounter(table).count(EventType.WRITE_ROWS, body[:cut])
