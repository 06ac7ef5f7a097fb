"""JSON documents: from MySQL's binary form to text.

Invariant: every number, string and opaque value keeps its value and its kind; what cannot be read
is an error.
Source: MySQL's sql-common/json_binary.h, whose grammar is followed rule by rule.
"""

from __future__ import annotations

import base64
import struct
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from math import isfinite

from connectors.mysql.buffer import read_bytes, uint
from connectors.mysql.types.decimals import decimal_groups, decimal_text
from connectors.mysql.types.registry import FieldType
from connectors.mysql.types.temporal import fraction_text

SMALL_OBJECT, LARGE_OBJECT, SMALL_ARRAY, LARGE_ARRAY, LITERAL = 0, 1, 2, 3, 4
INT16, UINT16, INT32, UINT32, INT64, UINT64 = 5, 6, 7, 8, 9, 10
DOUBLE, STRING, OPAQUE = 11, 12, 15
WRITTEN = b"\xff"
"""Not a type of MySQL's, and in no binlog: a document's text follows, as a SELECT returned it."""

LITERALS = {0: "null", 1: "true", 2: "false"}
_INTEGERS = {
    INT16: (2, True), UINT16: (2, False), INT32: (4, True), UINT32: (4, False),
    INT64: (8, True), UINT64: (8, False),
}  # fmt: skip
MAX_DEPTH = 100
"""MySQL's own limit on the depth of a document."""


def document_text(raw: bytes) -> str:
    """The text of a binary document, spaced as MySQL prints it."""
    if raw[:1] == WRITTEN:
        return raw[1:].decode()
    return value_text(raw, raw[0], 1, 0, [len(raw)]) if raw else "null"


def spend(budget: list[int], size: int) -> None:
    """Deduct bytes that are read from a document's budget; raise ValueError if too few remain.

    Without the budget, invalid offsets could cause the same bytes to be read endlessly.
    """
    budget[0] -= size
    if budget[0] < 0:
        raise ValueError("parts of a JSON document share their bytes")


def value_text(data: bytes, kind: int, at: int, depth: int, budget: list[int]) -> str:
    """Return the text of a value that begins at ``at``; ``budget`` has the bytes that may still be read."""
    if kind <= LARGE_ARRAY:
        if depth > MAX_DEPTH:
            raise ValueError("a JSON document is nested too deep")
        layout = _LARGE if kind in (LARGE_OBJECT, LARGE_ARRAY) else SMALL
        count, size = layout.head(data, at)
        if at + max(size, count * (layout.width + 1)) > len(data):
            raise IndexError(f"a JSON container states {size} bytes, of {len(data) - at}")
        spend(budget, count)
        if kind in (SMALL_OBJECT, LARGE_OBJECT):
            return _object(data, at, layout, count, depth, budget)
        return _array(data, at, layout, count, depth, budget)
    if kind == STRING:
        size, at = _length(data, at)
        spend(budget, size)
        return encode_basestring(str(read_bytes(data, at, size)[0], "utf-8"))
    if kind in _INTEGERS:
        width, signed = _INTEGERS[kind]
        return str(int.from_bytes(read_bytes(data, at, width)[0], "little", signed=signed))
    if kind == DOUBLE:
        return double_text(struct.unpack_from("<d", data, at)[0])
    if kind == LITERAL:
        return LITERALS[data[at]]
    if kind == OPAQUE:
        size, start = _length(data, at + 1)
        spend(budget, size)
        return _opaque(data[at], read_bytes(data, start, size)[0])
    raise ValueError(f"a JSON value has the unknown type {kind}")


class _Layout:
    """The width of offsets in a container, and functions that unpack all its entries at once."""

    def __init__(self, offset: str, inlined: dict[int, int]) -> None:
        self.head = struct.Struct(f"<{offset}{offset}").unpack_from
        self.width = struct.calcsize(f"<{offset}")
        self.inlined = inlined
        """Types whose value is in its entry, with the value's size in bytes; 0 for literals."""
        self._offset = offset
        self._known: dict[tuple[str, int], struct.Struct] = {}

    def keys(self, data: bytes, at: int, count: int) -> tuple[int, ...]:
        """Offset and length of each key, alternating."""
        return self._entries("key", f"{self._offset}H", count).unpack_from(data, at)

    def values(self, data: bytes, at: int, count: int) -> tuple[int, ...]:
        """Type and offset (or value) of each value, alternating."""
        return self._entries("value", f"B{self._offset}", count).unpack_from(data, at)

    def _entries(self, what: str, entry: str, count: int) -> struct.Struct:
        known = self._known.get((what, count))
        if known is None:
            known = struct.Struct("<" + entry * count)
            if len(self._known) < 256 and count < 256:
                self._known[what, count] = known
        return known


SMALL = _Layout("H", {LITERAL: 0, INT16: 2, UINT16: 2})
_LARGE = _Layout("I", {LITERAL: 0, INT16: 2, UINT16: 2, INT32: 4, UINT32: 4})


def _object(
    data: bytes, at: int, layout: _Layout, count: int, depth: int, budget: list[int]
) -> str:
    keys_at = at + 2 * layout.width
    keys = layout.keys(data, keys_at, count)
    values = layout.values(data, keys_at + count * (layout.width + 2), count)
    members = []
    for n in range(0, 2 * count, 2):
        start = at + keys[n]
        spend(budget, keys[n + 1])
        name = _name(read_bytes(data, start, keys[n + 1])[0])
        members.append(name + entry_text(data, at, layout, values[n], values[n + 1], depth, budget))
    return "{" + ", ".join(members) + "}"


def _array(data: bytes, at: int, layout: _Layout, count: int, depth: int, budget: list[int]) -> str:
    values = layout.values(data, at + 2 * layout.width, count)
    elements = [
        entry_text(data, at, layout, values[n], values[n + 1], depth, budget)
        for n in range(0, 2 * count, 2)
    ]
    return "[" + ", ".join(elements) + "]"


@lru_cache(maxsize=4096)
def _name(raw: bytes) -> str:
    """A member's name; the same few recur in every row."""
    return encode_basestring(raw.decode()) + ": "


def entry_text(
    data: bytes, at: int, layout: _Layout, kind: int, word: int, depth: int, budget: list[int]
) -> str:
    """The value of an entry: ``word`` is the value itself or its offset in the container."""
    size = layout.inlined.get(kind)
    if size is None:
        return value_text(data, kind, at + word, depth + 1, budget)
    if not size:
        return LITERALS[word & 0xFF]
    word &= (1 << (8 * size)) - 1
    if kind in (INT16, INT32) and word >> (8 * size - 1):
        word -= 1 << (8 * size)
    return str(word)


def double_text(value: float) -> str:
    """Return a number as MySQL prints it.

    It has a point, except with an exponent: below 1e-15, and if whole from 1e15 on. Source: strings/dtoa.cc,
    my_gcvt, where DBL_DIG is the threshold.
    """
    if not isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    text = repr(value)
    if not value or 1e-4 <= abs(value) < 1e15:
        return text
    negative, digits, _ = Decimal(text).normalize().as_tuple()
    exponent = Decimal(text).adjusted()
    sign, first, more = "-" if negative else "", str(digits[0]), "".join(map(str, digits[1:]))
    if exponent > _LAST_FIXED and len(digits) > exponent + 1:
        return text
    if exponent > _LAST_FIXED or exponent < -_LAST_FIXED - 1:
        return f"{sign}{first}{'.' if more else ''}{more}e{exponent}"
    return f"{sign}0.{'0' * (-exponent - 1)}{first}{more}"


_LAST_FIXED = 14


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A length in groups of 7 bits, low first; the high bit means that more follow."""
    value = 0
    for n in range(5):
        byte = data[at + n]
        value |= (byte & 0x7F) << (7 * n)
        if not byte & 0x80:
            return value, at + n + 1
    raise ValueError("a JSON length has more than five bytes")


def _opaque(kind: int, raw: bytes) -> str:
    """A value of an SQL type inside a document."""
    if kind == FieldType.NEWDECIMAL:
        groups, whole = decimal_groups(raw[0], raw[1])
        return decimal_text(raw[2:], groups, whole)
    if kind in (FieldType.DATE, FieldType.DATETIME, FieldType.TIMESTAMP):
        return f'"{_packed_datetime(uint(raw, 0, 8), kind)}"'
    if kind == FieldType.TIME:
        return f'"{_packed_time(int.from_bytes(raw, "little", signed=True))}"'
    return f'"base64:type{kind}:{_base64(raw)}"'


_BASE64_LINE = 76


def _base64(raw: bytes) -> str:
    """Base64 as the server writes it in a document, with a line feed between lines of 76 characters.

    Source: MySQL's mysys/base64.cc, base64_encode.
    """
    text = base64.b64encode(raw).decode()
    return "\\n".join(text[at : at + _BASE64_LINE] for at in range(0, len(text), _BASE64_LINE))


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
