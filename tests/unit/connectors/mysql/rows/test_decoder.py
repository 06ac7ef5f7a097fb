"""Generated decoders against the plain readers, over random tables, rows and patterns of NULLs."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from connectors.errors import MalformedEvent
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.rows import compiled as made_patterns
from connectors.mysql.rows.compiled import CompiledDecoder
from connectors.mysql.types.registry import FieldType, MappedColumn
from tests.unit.connectors.mysql.rows.row_events import CHARSETS, event

T = FieldType


def text_table(*more: dict[str, Any]) -> TableMap:
    columns = tuple(
        MappedColumn(**{"metadata": 0, "nullable": True, "unsigned": False, "name": f"c{n}", **one})
        for n, one in enumerate([{"type": T.VARCHAR, "metadata": 40, "collation": 255}, *more])
    )
    return TableMap(table_id=1, database="d", table="t", columns=columns, primary_key=None)


@pytest.mark.parametrize("patterns", [0, 64])
def test_a_text_that_ends_after_its_event_is_refused_wherever_the_event_stands(
    patterns: int,
) -> None:
    table = text_table()
    body = event(table, [b"\xfe\x05hello"] * 2, present=1)
    with mock.patch.object(made_patterns, "_MOST_PATTERNS", patterns):
        ours = CompiledDecoder(table, CHARSETS)
    within = b"before" + body + b"behind"
    begin, end = len(b"before"), len(b"before") + len(body)
    rows = ours.rows(EventType.WRITE_ROWS, body)
    assert rows == [(None, '{"c0":"hello"}', None, None, None)] * 2
    assert ours.rows(EventType.WRITE_ROWS, within, begin, end) == rows
    for cut in range(1, 14):
        if cut == 7:
            continue  # Where the first row ends.
        with pytest.raises(MalformedEvent):
            ours.rows(EventType.WRITE_ROWS, body[:-cut])
        with pytest.raises(MalformedEvent):
            ours.rows(EventType.WRITE_ROWS, within, begin, end - cut)


def test_a_fraction_that_no_server_writes_is_refused() -> None:
    table = text_table({"type": T.TIMESTAMP2, "metadata": 4})
    row = b"\xfc\x00" + bytes([1, 2, 3, 4])
    ours = CompiledDecoder(table, CHARSETS)
    for last in (9999, 10_000):
        body = event(table, [row + last.to_bytes(2, "big")], present=1)
        if last < 10_000:
            assert '.9999Z"' in (ours.rows(EventType.WRITE_ROWS, body)[0][1] or "")
            continue
        with pytest.raises(MalformedEvent):
            ours.rows(EventType.WRITE_ROWS, body)
