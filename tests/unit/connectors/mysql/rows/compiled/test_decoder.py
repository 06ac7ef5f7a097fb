"""Generated decoders against the plain readers, over random tables, rows and patterns of NULLs."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any
from unittest import mock

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import MalformedEvent
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import FieldType, MappedColumn, TableMap
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.rows.compiled import decoder
from connectors.mysql.rows.compiled.decimals import decimal_json
from connectors.mysql.rows.compiled.decoder import CompiledDecoder
from connectors.mysql.rows.counter import extent, row_count
from connectors.mysql.rows.decoder import RowDecoder
from connectors.mysql.rows.values.numbers import decimal_groups, decimal_text
from tests.unit.connectors.mysql.binary_json import document

T = FieldType
CHARSETS = Charsets(
    {255: "utf8mb4", 63: "binary", 8: "latin1"}, {"utf8mb4": 4, "binary": 1, "latin1": 1}
)
DOCUMENTS = [None, "é", 1.5, [], {"k": 1, "s": "text", "arr": [1, 2, 70_000]}, [{"a": None}] * 3]
LABELS = (b"new", b'"quoted"', b"a\\b")

COLUMNS: list[dict[str, Any]] = [
    {"type": T.TINY}, {"type": T.TINY, "unsigned": True}, {"type": T.SHORT}, {"type": T.INT24},
    {"type": T.INT24, "unsigned": True}, {"type": T.LONG}, {"type": T.LONGLONG, "unsigned": True},
    {"type": T.LONGLONG}, {"type": T.YEAR}, {"type": T.DATE}, {"type": T.BIT, "metadata": 0x0103},
    {"type": T.DATETIME2, "metadata": 0}, {"type": T.DATETIME2, "metadata": 3},
    {"type": T.DATETIME2, "metadata": 6}, {"type": T.TIMESTAMP2, "metadata": 0},
    {"type": T.TIMESTAMP2, "metadata": 1}, {"type": T.TIMESTAMP2, "metadata": 5},
    {"type": T.TIME2, "metadata": 2}, {"type": T.ENUM, "metadata": 1, "labels": LABELS, "collation": 255},
    {"type": T.SET, "metadata": 1, "labels": LABELS, "collation": 255},
    {"type": T.VARCHAR, "metadata": 40, "collation": 255}, {"type": T.VARCHAR, "metadata": 800, "collation": 8},
    {"type": T.VARCHAR, "metadata": 40, "collation": 63}, {"type": T.STRING, "metadata": 9, "collation": 63},
    {"type": T.BLOB, "metadata": 3, "collation": 255}, {"type": T.BLOB, "metadata": 1, "collation": 63},
    {"type": T.DOUBLE}, {"type": T.FLOAT}, {"type": T.NEWDECIMAL, "metadata": 0x020C},
    {"type": T.NEWDECIMAL, "metadata": 0x0413}, {"type": T.NEWDECIMAL, "metadata": 0x1E1E},
    {"type": T.BLOB, "metadata": 2, "collation": 8}, {"type": T.JSON, "metadata": 4},
]  # fmt: skip


@st.composite
def values(draw: st.DrawFn, column: MappedColumn) -> bytes:
    """The bytes of one value that a server could have written."""
    kind = column.type
    if kind == T.ENUM:
        return bytes([draw(st.integers(0, len(LABELS)))])
    if kind == T.SET:
        return bytes([draw(st.integers(0, 2 ** len(LABELS) - 1))])
    if kind == T.DOUBLE:
        return struct.pack("<d", draw(st.floats(allow_nan=False, allow_infinity=False)))
    if kind == T.FLOAT:
        return struct.pack("<f", draw(st.floats(width=32, allow_nan=False, allow_infinity=False)))
    if kind == T.NEWDECIMAL:
        precision, scale = column.metadata & 0xFF, column.metadata >> 8
        digits = draw(st.integers(0, 10**precision - 1))
        return packed(digits, precision, scale, negative=draw(st.booleans()))
    if kind == T.JSON:
        raw = document(draw(st.sampled_from(DOCUMENTS)))
        return len(raw).to_bytes(4, "little") + raw
    if kind in (T.DATETIME2, T.TIMESTAMP2, T.TIME2):
        return draw(moments(column))
    size, length_size = extent(column)
    if not length_size:
        return draw(st.binary(min_size=size, max_size=size))
    if column.collation == 63:
        raw = draw(st.binary(max_size=9))
    else:
        raw = draw(st.text(max_size=9)).encode(
            "utf-8" if column.collation == 255 else "latin-1", "ignore"
        )
    return len(raw).to_bytes(length_size, "little") + raw


@st.composite
def moments(draw: st.DrawFn, column: MappedColumn) -> bytes:
    """A time whose fraction has as many digits as the column."""
    size, _ = extent(column)
    fraction_size = (column.metadata + 1) // 2
    fraction = draw(st.integers(0, 100**fraction_size - 1)).to_bytes(fraction_size, "big")
    clock = draw(st.binary(min_size=size - fraction_size, max_size=size - fraction_size))
    if column.type == T.DATETIME2:
        clock = bytes([clock[0] | 0x80]) + clock[1:]
    if column.type == T.TIME2 and clock[0] < 0x80:
        # A negative time is the bias less its digits, fraction and all.
        digits = int.from_bytes(clock + fraction, "big")
        return ((0x80 << 8 * (size - 1)) - digits).to_bytes(size, "big")
    return clock + fraction


@st.composite
def tables(draw: st.DrawFn) -> TableMap:
    chosen = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=12))
    columns = tuple(
        MappedColumn(
            **{"metadata": 0, "nullable": True, "unsigned": False, "name": f'c{n}"\\{{}}', **column}
        )
        for n, column in enumerate(chosen)
    )
    key = draw(st.lists(st.integers(0, len(columns) - 1), max_size=2, unique=True))
    return TableMap(
        table_id=1, database="d", table="t", columns=columns, primary_key=tuple(key) or None
    )


@st.composite
def images(draw: st.DrawFn, table: TableMap) -> bytes:
    nulls = draw(st.integers(0, 2 ** len(table.columns) - 1))
    # The server sets the bits behind the last column.
    bitmap = (nulls | -1 << len(table.columns)) & ((1 << 8 * ((len(table.columns) + 7) // 8)) - 1)
    raw = bitmap.to_bytes((len(table.columns) + 7) // 8, "little")
    for n, column in enumerate(table.columns):
        if not nulls >> n & 1:
            raw += draw(values(column))
    return raw


def event(table: TableMap, rows: list[bytes], *, present: int) -> bytes:
    count = len(table.columns)
    bitmap = ((1 << count) - 1).to_bytes((count + 7) // 8, "little")
    return bytes(8) + b"\x02\x00" + bytes([count]) + bitmap * present + b"".join(rows)


def plainly(table: TableMap, image: Any, indexes: Any) -> Any:
    if image is None:
        return None
    return orjson.loads(orjson.dumps({table.columns[n].name: image[n] for n in indexes}))


def parsed(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


@settings(deadline=None, max_examples=200)
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
        with mock.patch.object(decoder, "_MOST_PATTERNS", patterns):
            told = list(CompiledDecoder(table, CHARSETS).decode(kind, body))
        plain = list(RowDecoder(table, CHARSETS).decode(kind, body))
        assert len(told) == len(plain) == row_count(table, kind, body)
        everything, key = range(len(table.columns)), table.primary_key
        for row, change in zip(told, plain, strict=True):
            assert parsed(row.before) == plainly(table, change.before, everything)
            assert parsed(row.after) == plainly(table, change.after, everything)
            assert parsed(row.old_key) == (plainly(table, change.before, key) if key else None)
            assert parsed(row.new_key) == (plainly(table, change.after, key) if key else None)


@settings(deadline=None, max_examples=50)
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


@settings(deadline=None, max_examples=300)
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


def packed(digits: int, precision: int, scale: int, *, negative: bool) -> bytes:
    """decimal2bin of strings/decimal.cc: groups of nine digits, the odd ones outermost, the sign bit turned."""
    text = f"{digits:0{precision}d}"
    groups, _ = decimal_groups(precision, scale)
    raw, at = b"", 0
    for width, count in groups:
        raw += int(text[at : at + count]).to_bytes(width, "big")
        at += count
    if negative:
        raw = bytes(byte ^ 0xFF for byte in raw)
    return bytes([raw[0] ^ 0x80]) + raw[1:]


def text_table(*more: dict[str, Any]) -> TableMap:
    columns = tuple(
        MappedColumn(**{"metadata": 0, "nullable": True, "unsigned": False, "name": f"c{n}", **one})
        for n, one in enumerate([{"type": T.VARCHAR, "metadata": 40, "collation": 255}, *more])
    )
    return TableMap(table_id=1, database="d", table="t", columns=columns, primary_key=None)


@pytest.mark.parametrize("patterns", [0, 64])
def test_a_text_that_ends_behind_its_event_is_refused_wherever_the_event_stands(
    patterns: int,
) -> None:
    table = text_table()
    body = event(table, [b"\xfe\x05hello"] * 2, present=1)
    with mock.patch.object(decoder, "_MOST_PATTERNS", patterns):
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
