"""Random tables and row images, as a server could have written them."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.types.decimals import decimal_groups
from connectors.mysql.types.registry import FieldType, MappedColumn, extent
from tests.unit.connectors.mysql.binary_json import document

T = FieldType

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
    # The server sets the bits after the last column.
    bitmap = (nulls | -1 << len(table.columns)) & ((1 << 8 * ((len(table.columns) + 7) // 8)) - 1)
    raw = bitmap.to_bytes((len(table.columns) + 7) // 8, "little")
    for n, column in enumerate(table.columns):
        if not nulls >> n & 1:
            raw += draw(values(column))
    return raw


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
