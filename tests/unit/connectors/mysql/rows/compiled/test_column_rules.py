"""Rules for columns: applied before text is made, in images and keys, by generated code and plainly alike."""

from __future__ import annotations

import struct
from typing import Any
from unittest import mock

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import FieldType, MappedColumn, TableMap
from connectors.mysql.rows.column_rule import ColumnRule, Value
from connectors.mysql.rows.compiled import decoder
from connectors.mysql.rows.compiled.decoder import CompiledDecoder
from connectors.mysql.rows.decoder import ABSENT, RowDecoder, ruled
from tests.unit.connectors.mysql.rows.compiled.test_decoder import CHARSETS, event, images, tables

T = FieldType


def shown(value: Value) -> Value:
    """A rule that shows a value with its type, so that no two ways may give it differently."""
    return f"{type(value).__name__} {value}"


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


@settings(deadline=None, max_examples=100)
@given(data=st.data(), table=tables(), patterns=st.sampled_from([0, 32]))
def test_generated_code_gives_a_rule_what_the_plain_readers_give_it(
    data: st.DataObject, table: TableMap, patterns: int
) -> None:
    rows = [data.draw(images(table)) for _ in range(2)]
    body = event(table, rows, present=2)
    rules: dict[str, ColumnRule] = {one.name or "": shown for one in table.columns}
    with mock.patch.object(decoder, "_MOST_PATTERNS", patterns):
        ours = CompiledDecoder(table, CHARSETS, rules=rules)
    ((before, after, old_key, new_key, _),) = ours.rows(EventType.UPDATE_ROWS, body)
    (change,) = RowDecoder(table, CHARSETS).decode(EventType.UPDATE_ROWS, body)
    names = [one.name or "" for one in table.columns]
    places = dict.fromkeys(range(len(names)), shown)
    for image, text, key in ((change.before, before, old_key), (change.after, after, new_key)):
        plain = dict(zip(names, ruled(image or (), places), strict=True))
        assert orjson.loads(text or "") == plain
        wanted = {names[index]: plain[names[index]] for index in table.primary_key or ()}
        assert (key and orjson.loads(key)) == (wanted or None)


@pytest.mark.parametrize("patterns", [0, 32])
def test_a_rule_is_for_its_column_alone_and_for_its_part_of_the_key(patterns: int) -> None:
    with mock.patch.object(decoder, "_MOST_PATTERNS", patterns):
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
        with mock.patch.object(decoder, "_MOST_PATTERNS", patterns):
            ours = CompiledDecoder(TABLE, CHARSETS, rules={"n": refused})
        body = event(TABLE, [with_null], present=1)
        ((_, after, _, key, _),) = ours.rows(EventType.WRITE_ROWS, body)
        assert (after, key) == ('{"id":7,"n":null,"v":"ab"}', '{"id":7,"n":null}')


def test_a_key_may_be_of_other_columns_than_the_primary_key() -> None:
    ours = CompiledDecoder(TABLE, CHARSETS, key=(2,))
    ((_, _, _, key, _),) = ours.rows(EventType.WRITE_ROWS, event(TABLE, [ROW], present=1))
    assert key == '{"v":"ab"}'
