"""JSON documents: from MySQL's binary form to text.

The law: every number, string and opaque value keeps its value and its kind; what cannot be read is an error.
Source: MySQL's sql-common/json_binary.h, whose grammar is followed rule by rule.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from decimal import Decimal

from connectors.mysql.buffer import taken, uint
from connectors.mysql.table_map import FieldType, MappedColumn
from connectors.mysql.values.numbers import decimal_groups, decimal_text
from connectors.mysql.values.reader import Reader
from connectors.mysql.values.temporal import fraction_text

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = 0, 1, 2, 3, 4
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64 = 5, 6, 7, 8, 9, 10
_DOUBLE, _STRING, _OPAQUE = 11, 12, 15

_LITERALS = {0: "null", 1: "true", 2: "false"}
_INTEGERS = {
    _INT16: (2, True), _UINT16: (2, False), _INT32: (4, True), _UINT32: (4, False),
    _INT64: (8, True), _UINT64: (8, False),
}  # fmt: skip
_MAX_DEPTH = 100
"""MySQL's own limit on the depth of a document."""


def json_document(column: MappedColumn) -> Reader:
    """JSON: a length, then the document; no bytes at all is what a NULL made NOT NULL holds."""
    length_size = column.metadata

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = taken(data, at + length_size, uint(data, at, length_size))
        return document_text(raw), end

    return read


def document_text(raw: bytes) -> str:
    """The text of a binary document, spaced as MySQL prints it."""
    # A view, since each entry of a container begins a slice: copies of all that follows would be quadratic.
    return _value(raw[0], memoryview(raw)[1:], 0) if raw else "null"


def _value(kind: int, data: memoryview, depth: int) -> str:
    if depth > _MAX_DEPTH:
        raise ValueError("a JSON document is nested too deep")
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT):
        return "{" + ", ".join(_members(data, depth, large=kind == _LARGE_OBJECT)) + "}"
    if kind in (_SMALL_ARRAY, _LARGE_ARRAY):
        return "[" + ", ".join(_elements(data, depth, large=kind == _LARGE_ARRAY)) + "]"
    return _scalar(kind, data)


def _scalar(kind: int, data: memoryview) -> str:
    if kind == _LITERAL:
        return _LITERALS[data[0]]
    if kind in _INTEGERS:
        width, signed = _INTEGERS[kind]
        return str(int.from_bytes(taken(data, 0, width)[0], "little", signed=signed))
    if kind == _DOUBLE:
        return double_text(struct.unpack_from("<d", data)[0])
    if kind == _STRING:
        size, at = _length(data, 0)
        return _quoted(taken(data, at, size)[0])
    if kind == _OPAQUE:
        size, at = _length(data, 1)
        return _opaque(data[0], bytes(taken(data, at, size)[0]))
    raise ValueError(f"a JSON value has the unknown type {kind}")


def double_text(value: float) -> str:
    """As MySQL prints it: with a point, or with an exponent below 1e-15 and, if whole, from 1e15 on.

    Source: strings/dtoa.cc, my_gcvt, where DBL_DIG decides between the two.
    """
    text = repr(value)
    if not value or 1e-4 <= abs(value) < 1e15:
        return text
    negative, digits, _ = Decimal(text).normalize().as_tuple()
    place = Decimal(text).adjusted()
    sign, first, more = "-" if negative else "", str(digits[0]), "".join(map(str, digits[1:]))
    if place > _LAST_FIXED and len(digits) > place + 1:
        return text
    if place > _LAST_FIXED or place < -_LAST_FIXED - 1:
        return f"{sign}{first}{'.' if more else ''}{more}e{place}"
    return f"{sign}0.{'0' * (-place - 1)}{first}{more}"


_LAST_FIXED = 14


def _length(data: memoryview, at: int) -> tuple[int, int]:
    """A length in groups of 7 bits, low first; the high bit says that more follow."""
    value = 0
    for n in range(5):
        byte = data[at + n]
        value |= (byte & 0x7F) << (7 * n)
        if not byte & 0x80:
            return value, at + n + 1
    raise ValueError("a JSON length has more than five bytes")


def _quoted(text: memoryview) -> str:
    return json.dumps(str(text, "utf-8"), ensure_ascii=False)


def _members(data: memoryview, depth: int, *, large: bool) -> Iterator[str]:
    width = 4 if large else 2
    count, size = uint(data, 0, width), uint(data, width, width)
    _check_size(data, size)
    keys = 2 * width
    values = keys + count * (width + 2)
    for n in range(count):
        entry = keys + n * (width + 2)
        key, _ = taken(data, uint(data, entry, width), uint(data, entry + width, 2))
        yield f"{_quoted(key)}: {_entry(data, values + n * (width + 1), width, depth)}"


def _elements(data: memoryview, depth: int, *, large: bool) -> Iterator[str]:
    width = 4 if large else 2
    count, size = uint(data, 0, width), uint(data, width, width)
    _check_size(data, size)
    for n in range(count):
        yield _entry(data, 2 * width + n * (width + 1), width, depth)


def _check_size(data: memoryview, size: int) -> None:
    if size > len(data):
        raise IndexError(f"a JSON container says {size} bytes, of {len(data)}")


def _entry(data: memoryview, at: int, width: int, depth: int) -> str:
    """A value entry: small values stand in it, others at the offset that it holds."""
    kind = data[at]
    inlined = kind in (_LITERAL, _INT16, _UINT16) or (width == 4 and kind in (_INT32, _UINT32))
    start = at + 1 if inlined else uint(data, at + 1, width)
    return _value(kind, data[start:], depth + 1)


def _opaque(kind: int, raw: bytes) -> str:
    """A value of an SQL type inside a document."""
    if kind == FieldType.NEWDECIMAL:
        groups, whole = decimal_groups(raw[0], raw[1])
        return decimal_text(raw[2:], groups, whole)
    if kind in (FieldType.DATE, FieldType.DATETIME, FieldType.TIMESTAMP):
        return f'"{_packed_datetime(uint(raw, 0, 8), kind)}"'
    if kind == FieldType.TIME:
        return f'"{_packed_time(int.from_bytes(raw, "little", signed=True))}"'
    return f'"base64:type{kind}:{base64.b64encode(raw).decode()}"'


def _packed_datetime(packed: int, kind: int) -> str:
    micros, whole = packed & 0xFFFFFF, packed >> 24
    days, clock = whole >> 17, whole & 0x1FFFF
    year, month = divmod(days >> 5, 13)
    text = f"{year:04d}-{month:02d}-{days & 31:02d}"
    return text if kind == FieldType.DATE else f"{text} {_clock(clock)}{fraction_text(micros, 6)}"


def _packed_time(packed: int) -> str:
    sign, packed = ("-" if packed < 0 else ""), abs(packed)
    return f"{sign}{_clock(packed >> 24)}{fraction_text(packed & 0xFFFFFF, 6)}"


def _clock(clock: int) -> str:
    return f"{(clock >> 12) & 1023:02d}:{(clock >> 6) & 63:02d}:{clock & 63:02d}"
