"""Rules for columns: applied before text is made, in images and keys, by generated code and plainly alike."""

from __future__ import annotations

import struct
from typing import Any
from unittest import mock

import pytest

from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.rows import compiled as made_patterns
from connectors.mysql.rows.compiled import CompiledDecoder
from connectors.mysql.rows.decoder import ABSENT, Value, ruled
from connectors.mysql.types.registry import FieldType, MappedColumn
from tests.unit.connectors.mysql.rows.row_events import CHARSETS, event

T = FieldType


def column(name: str, kind: int, **more: Any) -> MappedColumn:
    return MappedColumn(
        **{"type": kind, "name": name, "metadata": 0, "nullable": True, "unsigned": False, **more}
    )


TABLE = TableMap(
    table_id=1,
    database="d",
    table="t",
    columns=(
        column("id", T.LONG),
        column("n", T.LONG),
        column("v", T.VARCHAR, metadata=40, collation=255),
    ),
    primary_key=(0, 1),
)
ROW = b"\0" + struct.pack("<ii", 7, 8) + b"\x02ab"


@pytest.mark.parametrize("patterns", [0, 32])
def test_a_rule_is_for_its_column_alone_and_for_its_part_of_the_key(patterns: int) -> None:
    with mock.patch.object(made_patterns, "_MOST_PATTERNS", patterns):
        ours = CompiledDecoder(TABLE, CHARSETS, rules={"n": lambda _: "masked"})
    ((_, after, _, key, _),) = ours.rows(EventType.WRITE_ROWS, event(TABLE, [ROW], present=1))
    assert after == '{"id":7,"n":"masked","v":"ab"}'
    assert key == '{"id":7,"n":"masked"}'


def test_a_row_that_lacks_columns_has_its_rules_too() -> None:
    ours = CompiledDecoder(TABLE, CHARSETS, rules={"n": lambda n: -int(n or 0)})
    # Both images have the key alone, as with binlog_row_image = MINIMAL.
    body = bytes(8) + b"\x02\x00" + b"\x03" + b"\x03\x03"
    body += b"\0" + struct.pack("<ii", 7, 8) + b"\0" + struct.pack("<ii", 7, 9)
    ((before, after, old_key, new_key, marks),) = ours.rows(EventType.UPDATE_ROWS, body)
    assert (before, after) == ('{"id":7,"n":-8}', '{"id":7,"n":-9}')
    assert (old_key, new_key) == ('{"id":7,"n":-8}', '{"id":7,"n":-9}')
    assert marks is not None
    assert '"absent":["v"]' in marks


def test_a_rule_sees_neither_null_nor_what_an_image_lacks() -> None:
    def refused(value: Value) -> Value:
        raise AssertionError(value)

    rules = {0: refused, 1: refused}
    assert ruled((None, ABSENT, 1), rules) == (None, ABSENT, 1)
    with_null = b"\x02" + struct.pack("<i", 7) + b"\x02ab"
    for patterns in (0, 32):
        with mock.patch.object(made_patterns, "_MOST_PATTERNS", patterns):
            ours = CompiledDecoder(TABLE, CHARSETS, rules={"n": refused})
        body = event(TABLE, [with_null], present=1)
        ((_, after, _, key, _),) = ours.rows(EventType.WRITE_ROWS, body)
        assert (after, key) == ('{"id":7,"n":null,"v":"ab"}', '{"id":7,"n":null}')


def test_a_key_may_be_of_other_columns_than_the_primary_key() -> None:
    ours = CompiledDecoder(TABLE, CHARSETS, key=(2,))
    ((_, _, _, key, _),) = ours.rows(EventType.WRITE_ROWS, event(TABLE, [ROW], present=1))
    assert key == '{"v":"ab"}'
