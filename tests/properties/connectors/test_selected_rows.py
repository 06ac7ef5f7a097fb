"""Rows that a SELECT returned, encoded and decoded, over random tables, values and documents."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from datetime import date
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mysql.binlog.table_map import parse_table_map
from connectors.mysql.ddl.definition import Column
from connectors.mysql.rows import compiled as made_patterns
from connectors.mysql.rows.compiled import CompiledDecoder
from connectors.mysql.select.packets import PacketDecoder, PacketValues
from connectors.mysql.types.floats import shortest_float32
from connectors.mysql.types.json_binary import document_text
from connectors.mysql.types.registry import MappedColumn, binlog_type
from tests.properties.connectors.test_json_text import VALUES
from tests.properties.examples import examples
from tests.unit.connectors.mysql.binary_json import document
from tests.unit.connectors.mysql.select import tables as made
from tests.unit.connectors.mysql.select.packets import packets_of

Selected = tuple[bytes, Any]
"""The text of a value in the text protocol, and what the decoder is to return."""


def as_is(values: st.SearchStrategy[int]) -> st.SearchStrategy[Selected]:
    return values.map(lambda value: (str(value).encode(), value))


def text_of(values: st.SearchStrategy[str]) -> st.SearchStrategy[Selected]:
    return values.map(lambda text: (text.encode(), text))


def of_base64(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[Selected]:
    return values.map(lambda raw: (raw, base64.b64encode(raw).decode()))


@st.composite
def decimals(draw: st.DrawFn, precision: int, scale: int) -> Selected:
    number = f"{draw(st.integers(0, 10**precision - 1)):0{precision + 1}d}"
    whole = number[: len(number) - scale].lstrip("0") or "0"
    text = f"{draw(st.sampled_from(['', '-']))}{whole}" + (f".{number[-scale:]}" if scale else "")
    return text.encode(), text


@st.composite
def dates(draw: st.DrawFn) -> str:
    """Also zero and partial ones, and days that a month does not have."""
    year = draw(st.integers(0, 9999))
    return f"{year:04d}-{draw(st.integers(0, 12)):02d}-{draw(st.integers(0, 31)):02d}"


@st.composite
def clocks(draw: st.DrawFn, digits: int, *, hours: int = 23) -> str:
    hour, minute, second = (draw(st.integers(0, most)) for most in (hours, 59, 59))
    part = f".{draw(st.integers(0, 10**digits - 1)):0{digits}d}" if digits else ""
    return f"{hour:02d}:{minute:02d}:{second:02d}{part}"


@st.composite
def datetimes(draw: st.DrawFn, digits: int) -> Selected:
    day, clock = draw(dates()), draw(clocks(digits))
    return f"{day} {clock}".encode(), f"{day}{'T' if _exists(day) else ' '}{clock}"


def _exists(day: str) -> bool:
    try:
        # To MySQL the year 0 is no leap year, as the year 1.
        date.fromisoformat(f"0001{day[4:]}" if day.startswith("0000") else day)
    except ValueError:
        return False
    return True


@st.composite
def timestamps(draw: st.DrawFn, digits: int) -> Selected:
    day = draw(st.dates(date(1970, 1, 2), date(2106, 2, 6))).isoformat()
    clock = draw(clocks(digits))
    return f"{day} {clock}".encode(), f"{day}T{clock}Z"


@st.composite
def times(draw: st.DrawFn, digits: int) -> Selected:
    clock = draw(clocks(digits, hours=838))
    sign = draw(st.sampled_from(["", "-"])) if clock.strip("0:.") else ""
    return text_pair(sign + clock)


def text_pair(text: str) -> Selected:
    return text.encode(), text


def _float32(value: float) -> Selected:
    return repr(value).encode(), shortest_float32(struct.pack("<f", value))


def digits_of(n: int) -> str:
    return f"({n})" if n else ""


FINITE: dict[str, Any] = {"allow_nan": False, "allow_infinity": False}
TYPES: dict[str, st.SearchStrategy[Selected]] = {
    "tinyint": as_is(st.integers(-128, 127)),
    "smallint unsigned": as_is(st.integers(0, 65535)),
    "mediumint": as_is(st.integers(-(1 << 23), (1 << 23) - 1)),
    "mediumint unsigned": as_is(st.integers(0, (1 << 24) - 1)),
    "int": as_is(st.integers(-(1 << 31), (1 << 31) - 1)),
    "bigint unsigned": as_is(st.integers(0, (1 << 64) - 1)),
    "float": st.floats(width=32, **FINITE).map(_float32),
    "double": st.floats(**FINITE).map(lambda value: (repr(value).encode(), value)),
    **{f"decimal({p},{s})": decimals(p, s) for p, s in ((65, 30), (12, 2), (9, 9), (20, 0), (19, 10))},
    "bit(13)": of_base64(st.binary(min_size=2, max_size=2)),
    "date": text_of(dates()),
    **{f"datetime{digits_of(n)}": datetimes(n) for n in range(7)},
    **{f"timestamp{digits_of(n)}": timestamps(n) for n in range(7)},
    **{f"time{digits_of(n)}": times(n) for n in range(7)},
    "varchar(63)": text_of(st.text(max_size=63)),
    "varchar(64)": text_of(st.text(max_size=64)),
    "mediumtext": text_of(st.text(max_size=9)),
    "varbinary(9)": of_base64(st.binary(max_size=9)),
    "longblob": of_base64(st.binary(max_size=9)),
    "json": VALUES.map(lambda value: text_pair(document_text(document(value)))),
}  # fmt: skip


@st.composite
def selected(draw: st.DrawFn) -> tuple[list[Column], list[list[Selected | None]]]:
    kinds = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=12))
    row = st.tuples(*(st.none() | TYPES[kind] for kind in kinds)).map(list)
    rows: Callable[..., Any] = st.lists
    columns = [made.column(kind, f"c{n}") for n, kind in enumerate(kinds)]
    return columns, draw(rows(row, min_size=1, max_size=4))


@settings(deadline=None, max_examples=examples(600))
@given(table_and_rows=selected())
def test_a_row_is_read_back(
    table_and_rows: tuple[list[Column], list[list[Selected | None]]],
) -> None:
    columns, rows = table_and_rows
    texts = [[None if one is None else one[0] for one in row] for row in rows]
    expected = [[None if one is None else one[1] for one in row] for row in rows]
    found = made.read_back(made.encoder(*columns), texts)
    # By their text, as -0.0 equals 0.0.
    assert repr([list(row) for row in found]) == repr(expected)


def text(column: MappedColumn, raw: bytes | None) -> bytes | None:
    """The text from which literals of keys are made."""
    known = binlog_type(column.type)
    assert known is not None
    return None if raw is None else known.packet_text(column)(raw)


@settings(deadline=None, max_examples=examples(600))
@given(table_and_rows=selected(), patterns=st.sampled_from([0, 1, 64]))
def test_packets_have_the_same_rows(
    table_and_rows: tuple[list[Column], list[list[Selected | None]]], patterns: int
) -> None:
    columns, rows = table_and_rows
    table_map = parse_table_map(made.selected(*columns).table_map)
    texts = [tuple(None if one is None else one[0] for one in row) for row in rows]
    packets = packets_of(table_map.columns, texts)
    values = PacketValues(table_map.columns).rows(packets)
    assert [tuple(map(text, table_map.columns, row)) for row in values] == texts
    table = CompiledDecoder(table_map, made.CHARSETS).table
    with mock.patch.object(made_patterns, "_MOST_PATTERNS", patterns):
        decoder = PacketDecoder(table, table_map, made.CHARSETS, rules={})
        found = decoder.rows(packets)
    expected = [[None if one is None else one[1] for one in row] for row in rows]
    assert repr([list(json.loads(row[1] or "").values()) for row in found]) == repr(expected)
